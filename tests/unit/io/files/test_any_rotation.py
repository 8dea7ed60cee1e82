"""Files under a writer and a rotator that do as they like, against a twin that only remembers what was written."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.io.chunks import ChunkRef
from crossline.io.files.identity import read_chunk
from crossline.io.files.log import FileChunks

NOW_MS = 1_767_225_600_000
NAMES = ("a.log", "b.log")
DEEP = os.environ.get("CROSSLINE_DEEP") == "1"

Step = tuple[str, str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "half", "poll", "poll", "rename", "copy", "replace", "move", "restart"]),
        st.sampled_from(NAMES),
        st.integers(1, 40),
    ),
    max_size=40,
)


class Twin:
    """What stands in each file, by its present name, and every line that ever was ended in one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.content: dict[str, bytes] = {}
        self.ended: list[bytes] = []
        self.count = 0

    def append(self, name: str, data: bytes) -> None:
        with (self.folder / name).open("ab") as file:
            file.write(data)
        before = self.content.get(name, b"")
        self.content[name] = before + data
        begin = before.rfind(b"\n") + 1
        self.ended += self.content[name][begin:].split(b"\n")[:-1]

    def line(self, size: int) -> bytes:
        """No two are the same, as records have ids; some files begin alike all the same, as those with a header do."""
        self.count += 1
        return b"%d " % self.count + b"." * size * (size % 3) * 4

    def step(self, what: str, name: str, size: int) -> None:
        path = self.folder / name
        if what == "append":
            if name not in self.content and size % 2:
                self.append(name, b"header\n")
            self.append(name, b"".join(self.line(size) + b"\n" for _ in range(size % 4 + 1)))
        elif what == "half":
            self.append(name, self.line(size))
        elif name in self.content:
            self.count += 1
            getattr(self, what)(name, path, f"{name}.{self.count}")

    def rename(self, name: str, path: Path, new: str) -> None:
        path.rename(self.folder / new)
        self.content[new] = self.content.pop(name)

    def copy(self, name: str, path: Path, new: str) -> None:
        shutil.copy(path, self.folder / new)
        os.truncate(path, 0)
        self.content[new] = self.content.pop(name)

    def replace(self, _: str, path: Path, new: str) -> None:
        """An editor that changes nothing: the same bytes in another file."""
        shutil.copy(path, self.folder / f".{new}")
        (self.folder / f".{new}").replace(path)

    def move(self, name: str, path: Path, new: str) -> None:
        path.rename(self.folder / f"{new}.log")
        self.content[f"{new}.log"] = self.content.pop(name)


class Reader:
    """A log, started again at times, whose chunks are read as they come and once more at the end."""

    def __init__(self, root: Path, pattern: str) -> None:
        self._root, self._pattern = root, pattern
        self.restart()
        self.read: list[tuple[ChunkRef, bytes]] = []

    def restart(self) -> None:
        self.log = FileChunks([str(self._root / "in" / self._pattern)], str(self._root / "list"), 64)

    def poll(self) -> None:
        for chunk in self.log.chunks(len(self.read), self.log.poll(NOW_MS)):
            self.read.append((chunk, read_chunk(chunk)))

    def again(self) -> None:
        """A batch that is run again, by the list as it was given or as it is now, has the same bytes."""
        now = self.log.chunks(0, len(self.read))
        for (before, data), present in zip(self.read, now, strict=True):
            assert read_chunk(before) == data
            assert read_chunk(present) == data


def lines(data: list[bytes]) -> list[bytes]:
    return b"".join(data).split(b"\n")[:-1]


@pytest.mark.parametrize("pattern", ["*", "*.log"])
@settings(deadline=None, max_examples=3000 if DEEP else 100)
@given(steps=STEPS)
def test_every_line_once_and_in_its_order(
    tmp_path_factory: pytest.TempPathFactory, pattern: str, steps: list[Step]
) -> None:
    root = tmp_path_factory.mktemp("rotation")
    (root / "in").mkdir()
    twin, reader = Twin(root / "in"), Reader(root, pattern)
    for what, name, size in steps:
        if what in {"poll", "restart"}:
            getattr(reader, what)()
            continue
        # What was never looked at cannot be known again; and a rotator that copies does so while it is looked on.
        if what in {"copy", "rename"} or (what == "replace" and pattern == "*.log"):
            reader.poll()
        twin.step(what, name, size)
        if what == "copy":
            reader.poll()
    reader.poll()
    reader.poll()
    reader.again()
    names: dict[str, list[bytes]] = {}
    for chunk, data in reader.read:
        names.setdefault(chunk.place, []).append(data)
    found = [line for pieces in names.values() for line in lines(pieces)]
    ended = [line for line in twin.ended if line != b"header"]
    assert Counter(line for line in found if line != b"header") == Counter(ended)
    order = {line: place for place, line in enumerate(ended)}
    for pieces in names.values():
        places = [order[line] for line in lines(pieces) if line != b"header"]
        assert places == sorted(places)
    starts = [(chunk.place, chunk.start) for chunk, _ in reader.read]
    assert len(set(starts)) == len(starts), "a position stands for one record"
