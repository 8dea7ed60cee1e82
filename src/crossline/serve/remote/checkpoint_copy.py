"""A checkpoint on a store, copied into a folder as far as replicas and readers of the feed need it.

It only reads the store. A batch is there (``spark/commits``) once all that it needs is: the plan snapshot, the lists of
chunks, the segments of all shards, what it gave. In the store a batch is done once the file of its feed is there, which
is put after all of these; Spark's own note of that reaches the store with the next batch only.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import orjson

from crossline.basics.errors import StateError
from crossline.io.feed.copies import copies_in, copy_name
from crossline.io.feed.files import FeedFolder, batch_path
from crossline.io.objects.file_stores import FileStore
from crossline.runtime.snapshot.checkpoint_mirror import CheckpointMirror, GoneError, MirroredFile
from crossline.runtime.snapshot.spark_log import last_committed
from crossline.serve.remote.segments import SegmentCopies, at_once

FEED, STATE_NOTE, IDENTITY, OWNER = "feed", "state.json", "spark/metadata", "owner.json"
OFFSETS = "spark/offsets/"
FEED_BACK = 64  # of what was done before the copy began
LOGS_KEPT = 128  # batches in Spark's logs
Signature = tuple[tuple[tuple[str, int], ...], bytes]


class CheckpointCopy:
    """Keeps ``folder`` like the checkpoint in ``store``, which messages call ``shown``. One thread looks.

    ``batch``: the last one that is there; -1: none. ``planned``: the newest that the pipeline has begun.

    Args:
        store: The checkpoint's.
        folder: An empty one, of this process.
        shown: The checkpoint's URI.

    Example:
        >>> copy = CheckpointCopy(file_store("s3://bank/checkpoint"), Path("copy"), "s3://…")  # doctest: +SKIP
        >>> while copy.look():  # doctest: +SKIP
        ...     print(copy.batch)
    """

    def __init__(self, store: FileStore, folder: Path, shown: str) -> None:
        self._store, self._folder, self._shown = store, folder, shown
        self._mirror = CheckpointMirror(store, folder, shown)
        self._begin()

    def _begin(self) -> None:
        self.batch = self.planned = -1
        self._note = ""
        self._identity: tuple[bytes, bytes] | None = None
        self._known: dict[str, Signature] = {}
        self._offsets: dict[int, MirroredFile] = {}
        self._segments = SegmentCopies(self._store, self._folder, self._shown)
        self._feed = FeedFolder(self._folder / FEED, 1_024, 256 << 20)
        self._feed.open()

    def look(self) -> bool:
        """Bring what is new; False: the checkpoint is another one now, and the folder is to begin anew (``anew``).

        Raises StoreUnavailableError where the store does not answer, StateError where there is no checkpoint, or a
        damaged one. Copied files stay, and the next look goes on from there.
        """
        seen_s = time.time()
        notes = self._mirror.notes()
        if not notes:
            raise StateError(f"{self._shown}: no pipeline has run on it yet; start it, or check the address")
        if notes[-1] < self._note:
            return False
        if notes[-1] != self._note:
            try:
                if not self._take_note(notes[-1], seen_s):
                    return False
            except GoneError as gone:
                if self._mirror.notes()[-1:] == notes[-1:]:  # no driver runs: it is gone for good
                    raise StateError(str(gone)) from None
                return True  # a later note stands in its place
        self._bring()
        return True

    def anew(self) -> None:
        """Forget all; the folder has no batch any more, then nothing. Those who read it see the first of the two."""
        shutil.rmtree(self._folder / "spark", ignore_errors=True)

    def restart(self) -> None:
        """After ``anew``, once those who read the folder have seen it."""
        for each in self._folder.iterdir():
            if each.is_dir():
                shutil.rmtree(each, ignore_errors=True)
            else:
                each.unlink(missing_ok=True)
        self._begin()

    def _take_note(self, name: str, seen_s: float) -> bool:
        """What the driver noted; False where it is another checkpoint's."""
        files = self._mirror.noted(name)
        identity = (self._whole(files, IDENTITY), self._whole(files, STATE_NOTE))
        if self._identity is not None and self._identity[0] and self._identity != identity:
            return False
        offsets = {int(path.removeprefix(OFFSETS)): each for path, each in files.items() if path.startswith(OFFSETS)}
        planned = max(offsets, default=-1)
        self._segments.folder = str(orjson.loads(identity[1])["folder"]) if identity[1] else "state"
        for number in sorted(offsets):  # from here on the folder shows how far behind it is
            self._put(f"{OFFSETS}{number}", self._bytes(f"{OFFSETS}{number}", offsets[number]), at_s=seen_s)
        snapshot = files.get("snapshot.json")
        if snapshot is not None and self._known.get("snapshot.json") != _signature(snapshot):
            self._segments.expect_others(planned + 1)
            self._segments.list()  # a past that it names was written before it
        for path, each in files.items():
            if path in {OWNER, "snapshot.json"} or path.startswith("sources/"):
                self._follow(path, each)
        self._identity, self._note, self.planned, self._offsets = identity, name, planned, offsets
        return True

    def _whole(self, files: dict[str, MirroredFile], path: str) -> bytes:
        return self._bytes(path, files[path]) if path in files else b""

    def _bytes(self, path: str, known: MirroredFile, have: bytes = b"", parts: int = 0) -> bytes:
        """The note's entry for a file; of the first ``parts`` of it ``have`` is there."""
        found = [self._mirror.part(path, *each) for each in known.parts[parts:]]
        return b"".join([have, *found, known.tail])

    def _follow(self, path: str, known: MirroredFile) -> None:
        """The file as it is now; of one that grew, its end is asked for."""
        signature, before = _signature(known), self._known.get(path)
        if signature == before:
            return
        have, parts = b"", 0
        if before is not None and signature[0][: len(before[0])] == before[0]:
            parts = len(before[0])
            with (self._folder / path).open("rb") as file:
                have = file.read(sum(size for _, size in before[0]))
        self._put(path, self._bytes(path, known, have, parts))
        self._known[path] = signature

    def _bring(self) -> None:
        """The batches that are done since."""
        if self.batch < 0:
            there = [each for each in copies_in(self._store) if each <= self.planned]
            if not there:
                return
            self._segments.list()
            self._feeds(there[-FEED_BACK:-1])
            self._bring_one(there[-1])
        while self.batch < self.planned:
            try:
                self._bring_one(self.batch + 1)
            except FileNotFoundError:
                if self.planned == self.batch + 1:
                    return  # it is not done yet
                later = [each for each in copies_in(self._store) if self.batch < each <= self.planned]
                if not later:
                    return
                self._segments.list()
                self._feeds(later[:-1])
                self._bring_one(later[-1])

    def _bring_one(self, number: int) -> None:
        """A batch with all that it needs. Raises FileNotFoundError if it is not done."""
        data = self._store.get(copy_name(number))
        self._segments.bring(number)
        self._put_feed(number, data)
        self._commit(number, data)

    def _feeds(self, numbers: list[int]) -> None:
        """What batches gave that have others behind them; one that went meanwhile is left out."""

        def get(name: str) -> bytes | None:
            try:
                return self._store.get(name)
            except FileNotFoundError:
                return None

        for number, data in zip(numbers, at_once(get, map(copy_name, numbers)), strict=True):
            if data is not None:
                self._put_feed(number, data)

    def _put_feed(self, number: int, data: bytes) -> None:
        path = batch_path(self._folder / FEED, number)
        _write(path, data)
        self._feed.add(number, len(data))

    def _commit(self, number: int, data: bytes) -> None:
        """Say that the folder has all that a batch needs, and when it was planned and done."""
        now_s = time.time()
        head = orjson.loads(data.partition(b"\n")[0])
        offsets = self._folder / f"{OFFSETS}{number}"
        if offsets.exists():
            planned_s = min(offsets.stat().st_mtime, int(head["planned_ms"] or 0) / 1e3 or now_s)
            os.utime(offsets, (planned_s, planned_s))
        first = last_committed(str(self._folder)) + 1 if self.batch >= 0 else number
        for each in range(first, number + 1):
            self._put(f"spark/commits/{each}", b"v1\n{}", at_s=min(now_s, int(head["delivered_ms"]) / 1e3))
            for log in ("offsets", "commits"):
                (self._folder / "spark" / log / str(each - LOGS_KEPT)).unlink(missing_ok=True)
        self.batch = number

    def _put(self, path: str, data: bytes, at_s: float | None = None) -> None:
        target = self._folder / path
        if at_s is None or not target.exists():  # when a batch was planned is when that was seen first
            _write(target, data, at_s)


def _signature(known: MirroredFile) -> Signature:
    return tuple((part, size) for part, size in known.parts), known.tail


def _write(path: Path, data: bytes, at_s: float | None = None) -> None:
    """A file that is there whole, or not; not synced, since it can be asked for again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.tmp")
    draft.write_bytes(data)
    if at_s is not None:
        os.utime(draft, (at_s, at_s))
    draft.replace(path)
