"""The log of the API as a pipeline reads it, while writers die at any byte and either of the two starts again."""

from __future__ import annotations

import tempfile
from pathlib import Path

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.io.files.identity import read_chunk
from crossline.io.files.log import FileChunks
from crossline.io.recordlog.segments import Segments, segment_name
from crossline.io.recordlog.sync import SYNCED, synced_size

NOW_MS = 1_767_225_600_000
STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "append", "poll", "poll", "kill", "restart"]), st.integers(1, 60)),
    min_size=1,
    max_size=40,
)


class Run:
    """A writer, a reader, and what was acknowledged, in its order."""

    def __init__(self, root: Path) -> None:
        self.folder, self.list = root / "log", str(root / "list")
        self.acknowledged: list[bytes] = []
        self.read: list[bytes] = []
        self.count = 0
        self.given = 0
        self.begin_writer()
        self.begin_reader()

    def begin_writer(self) -> None:
        self.log = Segments(self.folder, 300, lambda line: str(orjson.loads(line)["id"]))
        self.log.open()

    def begin_reader(self) -> None:
        self.chunks = FileChunks([f"{self.folder}/*.jsonl"], self.list, 64, size_of=synced_size)

    def line(self, size: int) -> tuple[str, bytes]:
        self.count += 1
        return f"r{self.count}", orjson.dumps({"id": f"r{self.count}", "padding": "x" * (size % 37)})

    def append(self, size: int) -> None:
        lines = [self.line(size + each) for each in range(size % 4 + 1)]
        self.log.append(lines)
        self.acknowledged += [raw for _, raw in lines]

    def kill(self, size: int) -> None:
        """Killed in the middle of a write: the file has the data, and no caller was answered."""
        self.log.close()
        number, raw = self.line(size)
        last = max(self.folder.glob("*.jsonl"), default=self.folder / segment_name(1))
        with last.open("ab") as file:
            file.write((raw + b"\n")[:size])
        before = len(self.read)
        self.poll(size)
        assert self.read[before:] == self.acknowledged[before:], "what is not synced is not read"
        self.begin_writer()
        if size >= len(raw):  # it is kept, as it is whole
            self.log.append([(number, raw)])
            self.acknowledged.append(raw)

    def poll(self, _: int) -> None:
        count = self.chunks.poll(NOW_MS)
        for chunk in self.chunks.chunks(self.given, count):
            self.read += read_chunk(chunk).splitlines()
        self.given = count

    def restart(self, _: int) -> None:
        self.begin_reader()


@settings(max_examples=150)
@given(STEPS)
def test_a_pipeline_reads_what_was_acknowledged_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        for what, size in steps:
            getattr(run, what)(size)
            assert run.read == run.acknowledged[: len(run.read)]
        run.poll(0)
        run.log.close()
        assert run.read == run.acknowledged


def test_what_counts_of_a_file_is_what_is_synced(tmp_path: Path) -> None:
    log = Segments(tmp_path, 20, lambda line: str(orjson.loads(line)["id"]))
    log.open()
    for each in "abc":
        log.append([(each, b'{"id":"%s"}' % each.encode())])
    log.close()
    paths = [str(tmp_path / segment_name(number)) for number in (1, 2, 3)]
    assert [synced_size(path) for path in paths] == [None, 11, 0]
    for harm in (b"", b"2", b"two 11", b"\xff" * 32):
        (tmp_path / SYNCED).write_bytes(harm)
        assert synced_size(paths[1]) is None
    (tmp_path / SYNCED).unlink()
    assert synced_size(paths[1]) is None, "a copy of a log, in which all counts"
    assert synced_size(str(tmp_path / "notes.jsonl")) is None
