"""A checkpoint on a store: a folder of this machine that is worked in, and its like on the store, which counts.

What the driver keeps (Spark's offsets and commits, the plan snapshot, marks, lists of files) is small, and was made for
a disk: files that are replaced, and some that grow. They go on doing that in a folder of this run. The store gets what
changed at three moments of a batch, each before what depends on it: once it is planned, before anything is judged; once
it is judged, before anything is delivered; once it is delivered. So the store always has what a disk could have had at
a kill, and a run that begins there goes on as it would there.

All small files are one object, the *note*, so that they are consistent: a put or nothing. What is larger lies in parts
beside it, and of a file that grows the new end is another part. A note's name has the number of its driver
(``lease.py``) and its own; the one that counts is the highest. A driver that lost its lease writes notes that no
process reads any more, and finds out before it does anything else.

Segments, which tasks write, and what waits for sinks are objects of their own, and no part of this.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from crossline.basics.errors import StateError
from crossline.io.objects.file_stores import FileStore

FORMAT = 1
NOTES, PARTS = "notes", "parts"
PINNED = "pinned"  # copies of the checkpoint on their way to the lake
INLINE_BYTES = 32 << 10  # of a file, in the note itself
PART_BYTES = 8 << 20
TIDY_S = 5.0  # of deleting at one time: the hold on the checkpoint is renewed in between
PARTS_MAX = 64  # of a file that grows, until it is put anew
_NOTE = re.compile(r"\d{12}-\d{12}\.json")
_CHECKED = 256  # bytes of its end by which a file that grew is known to be the same one
# Elsewhere on the store, of this run alone, or made anew from what the rule log keeps.
_NOT = frozenset({"state", "behind", "tables", "held", "feed", "lake", PINNED})
_NEWEST = 3  # of Spark's logs of batches: it goes on with the last, and looks at the one before
_LOGS = frozenset({"spark/offsets", "spark/commits"})


FileStamp = tuple[int, int, int]  # inode, time of the last change in ns, size: how a file looks


@dataclass(slots=True)
class MirroredFile:
    """A file as the store has it: ``parts`` (object, bytes), then ``tail``. ``stamp``: how the file looked then."""

    stamp: FileStamp
    parts: list[tuple[str, int]] = field(default_factory=list)
    tail: bytes = b""
    end: bytes = b""

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(size for _, size in self.parts) + len(self.tail)


class GoneError(Exception):
    """An object is not there that was named a moment ago."""


class CheckpointMirror:
    """Keeps ``store`` like ``folder``."""

    def __init__(self, store: FileStore, folder: Path, shown: str) -> None:
        self._store = store
        self._folder = folder
        self._shown = shown
        self._known: dict[str, MirroredFile] = {}
        # Objects that nothing needs, and those that nothing needs once there is another note.
        self._garbage: list[str] = []
        self._leaving: list[str] = []
        self._epoch = self._number = 0
        self._noted_all = False

    def epochs(self) -> list[int]:
        """The numbers of drivers of which there are notes."""
        return [int(name.partition("-")[0]) for name in self.notes()]

    def notes(self) -> list[str]:
        """The names of the notes, the one that counts last; other files are none of ours."""
        return [name for name in self._store.names(NOTES) if _NOTE.fullmatch(name)]

    def restore(self, epoch: int) -> None:
        """Fill the folder with what the store has, and go on from there as driver ``epoch``.

        Raises StateError where it is damaged.
        """
        notes = self.look()
        if notes and self._epoch != epoch and int(notes[-1].partition("-")[0]) >= epoch:
            raise StateError(f"{self._shown}: another run began meanwhile, as number {epoch} too: start again")
        self._epoch = epoch
        self._leaving = [f"{NOTES}/{name}" for name in notes]
        self._leaving += [f"{PARTS}/{name}" for name in self._store.names(PARTS)]
        # Parts of its own from here on: those that were read are garbage to a driver that was thought to be dead.
        self._known = {}
        self._noted_all = False
        self.publish()

    def look(self) -> list[str]:
        """Fill the folder, and that is all; the names of the notes that there are.

        While another driver writes, what it replaced may be gone before it is read: then all is read anew.
        """
        before: list[str] = []
        while notes := self.notes():
            self._clear()  # of what was read before, and is not there now
            try:
                for path, known in self.noted(notes[-1]).items():
                    self._fill(path, known)
            except GoneError as gone:
                if notes[-1:] == before[-1:]:  # no other process writes: it is gone for good
                    raise StateError(str(gone)) from None
                before = notes
            else:
                break
        return notes

    def _clear(self) -> None:
        for each in self._folder.iterdir():
            if each.name in _NOT:
                continue
            if each.is_dir():
                shutil.rmtree(each)
            else:
                each.unlink()

    def publish(self) -> bool:
        """Have the store get what changed since; whether anything did. Raises StoreUnavailableError."""
        seen = dict(driver_files(self._folder))
        for path, stamp in seen.items():
            known = self._known.get(path)
            if known is None or known.stamp != stamp:
                self._noted_all = False
                self._known[path] = self._put(path, stamp, known)
        for path in [path for path in self._known if path not in seen]:
            self._noted_all = False
            self._leave(self._known.pop(path))
        if self._noted_all:
            return False
        self._put_note()
        return True

    def tidy(self, within_s: float = TIDY_S) -> None:
        """Delete what no note names any more, as much of it as ``within_s`` allows; from any thread."""
        until_s = time.monotonic() + within_s
        while self._garbage and time.monotonic() < until_s:
            name = self._garbage.pop()
            try:
                self._store.delete(name)
            except BaseException:
                self._garbage.append(name)
                raise

    def discard(self, name: str) -> None:
        """Have ``tidy`` delete an object that nothing needs; from any thread."""
        self._garbage.append(name)

    def noted(self, name: str) -> dict[str, MirroredFile]:
        """The files that a note names. Raises GoneError where it went meanwhile, StateError where it is damaged."""
        where = f"{self._shown}, {NOTES}/{name}"
        try:
            note = orjson.loads(self._got(f"{NOTES}/{name}"))
            if note["format"] != FORMAT:
                raise StateError(f"{where}: of format {note['format']}; this crossline reads {FORMAT}")
            return {
                path: MirroredFile(
                    (0, 0, 0), [(part, size) for part, size in each["parts"]], base64.b64decode(each["tail"])
                )
                for path, each in note["files"].items()
            }
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(f"{where}: damaged ({error!r}); restore it from a copy, or start anew") from None

    def _fill(self, path: str, known: MirroredFile) -> None:
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as out:
            for part, size in known.parts:
                out.write(self.part(path, part, size))
            out.write(known.tail)

    def part(self, path: str, part: str, size: int) -> bytes:
        """A part of the file ``path``. Raises GoneError where it went meanwhile, StateError where it is damaged."""
        data = self._got(f"{PARTS}/{part}")
        if len(data) != size:
            raise StateError(
                f"{self._shown}, {PARTS}/{part}: found {len(data)} bytes of {path}, expected {size}; restore it from a "
                "copy, or start anew"
            )
        return data

    def _got(self, name: str) -> bytes:
        try:
            return self._store.get(name)
        except FileNotFoundError:
            raise GoneError(f"{self._shown}, {name}: missing; restore it from a copy, or start anew") from None

    def _put(self, path: str, stamp: FileStamp, known: MirroredFile | None) -> MirroredFile:
        file, size = self._folder / path, stamp[2]
        parts: list[tuple[str, int]] = []
        grew = known is not None and self._grew(file, stamp, known)
        if known is not None and grew:
            parts = list(known.parts)
        done = sum(each for _, each in parts)
        with file.open("rb") as opened:
            opened.seek(done)
            while size - done > INLINE_BYTES:
                data = opened.read(min(PART_BYTES, size - done))
                if not data:  # replaced by a shorter one meanwhile, which shows at the next look
                    break
                name = f"{self._epoch:012d}-{uuid.uuid4().hex}"
                self._store.put(f"{PARTS}/{name}", data)
                parts.append((name, len(data)))
                done += len(data)
            tail = opened.read(size - done)
        if known is not None and not grew:
            self._leave(known)
        return MirroredFile(stamp, parts, tail, _end_of(file, size))

    def _grew(self, file: Path, stamp: FileStamp, known: MirroredFile) -> bool:
        """Whether it is the file that it was, with more at its end."""
        if stamp[0] != known.stamp[0] or stamp[2] < known.size or len(known.parts) >= PARTS_MAX:
            return False
        return _end_of(file, known.size) == known.end

    def _put_note(self) -> None:
        self._number += 1
        files = {
            path: {"parts": each.parts, "tail": base64.b64encode(each.tail).decode()}
            for path, each in self._known.items()
        }
        # One of which the putting failed may be there all the same: each goes once a later one is there for sure.
        name = f"{NOTES}/{self._epoch:012d}-{self._number:012d}.json"
        leaving, self._leaving = self._leaving, [name]
        try:
            self._store.put(name, orjson.dumps({"format": FORMAT, "files": files}))
        except BaseException:
            self._leaving += leaving
            raise
        self._garbage += leaving
        self._noted_all = True

    def _leave(self, known: MirroredFile) -> None:
        self._leaving += [f"{PARTS}/{part}" for part, _ in known.parts]


def driver_files(folder: Path) -> Iterator[tuple[str, FileStamp]]:
    """The files of the driver that count in the checkpoint in ``folder``, as paths below it, each with its stamp."""
    yield from _files_below(folder, "")


def _files_below(folder: Path, path: str) -> Iterator[tuple[str, FileStamp]]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda each: each.name)
    if path.removesuffix("/") in _LOGS:
        numbers = sorted((each for each in entries if each.name.isdigit()), key=lambda each: int(each.name))
        entries = numbers[-_NEWEST:]
    for each in entries:
        if each.name.startswith(".") or each.name.endswith(".tmp") or (not path and each.name in _NOT):
            continue
        if each.is_dir():
            yield from _files_below(Path(each.path), f"{path}{each.name}/")
        else:
            yield path + each.name, _stamp(each.stat())


def _stamp(about: os.stat_result) -> FileStamp:
    return about.st_ino, about.st_mtime_ns, about.st_size


def _end_of(file: Path, size: int) -> bytes:
    with file.open("rb") as opened:
        opened.seek(max(0, size - _CHECKED))
        return opened.read(min(size, _CHECKED))
