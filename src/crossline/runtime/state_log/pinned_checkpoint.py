"""A copy of a checkpoint beside the pipeline that runs on it: what a kill at one moment would have left.

The driver's files are read between two equal looks at all of them, so none of them changed in between. Segments and
outboxes are files that appear whole and never change, so they are linked, or copied where they are on a store. The
pipeline may merge and drop segments meanwhile, but only some batches after no batch needs them any more. A copy that
lacks one is given up and made again.

Nothing waits for a copy: no lock is taken, and nothing in the checkpoint is written.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from crossline.basics.errors import RetryableError, StateError
from crossline.io.objects.file_stores import FileStore, LocalFiles, file_store
from crossline.io.objects.location import is_uri, under
from crossline.runtime.snapshot.checkpoint_mirror import driver_files
from crossline.runtime.snapshot.rule_log_copy import FOLDER as RULE_LOG
from crossline.runtime.snapshot.snapshot import PlanSnapshot, read_snapshot
from crossline.runtime.snapshot.spark_log import last_committed, query_id
from crossline.runtime.state_log.log_folders import BACKFILLS
from crossline.runtime.state_log.reshard import BEGUN, WHOLE
from crossline.runtime.state_log.state_log import StateLog, logs_in

STATE, BEHIND, SNAPSHOT = "state", "behind", "snapshot.json"
TRIES_MAX = 8  # copies that the pipeline outran
LOOKS_MAX = 400  # pairs of looks at the driver's files, until two are equal
READ_BYTES = 64 << 10  # up to which a file is read between the looks; of a larger one the size is noted then
_DECIDED = "decided"
_SKIPPED = frozenset({RULE_LOG, BEGUN, WHOLE})


class CheckpointMovedError(RetryableError):
    """The pipeline was too quick for a copy; another attempt may succeed."""


@dataclass(frozen=True, slots=True)
class CheckpointPlace:
    """A checkpoint that another process may work on.

    Attributes:
        folder: The driver's files on this machine.
        state_root: Where the state log is.
        behind: The outboxes of sinks.
    """

    folder: Path
    state_root: str
    behind: FileStore


@dataclass(frozen=True, slots=True)
class PinnedCheckpoint:
    """A copy of a checkpoint.

    Attributes:
        folder: Where it is: the driver's files, ``state`` and ``behind``.
        batch: The last batch that Spark had committed.
        checkpoint: The id of the checkpoint.
        committed_ms: When that batch was committed, in epoch milliseconds.
        shards: Its number of shards.
    """

    folder: Path
    batch: int
    checkpoint: str
    committed_ms: int
    shards: int


def pin(place: CheckpointPlace, into: Path) -> PinnedCheckpoint | None:
    """Copy a checkpoint.

    Args:
        place: The checkpoint.
        into: A folder that is made anew.

    Returns:
        The copy; None: no batch was committed yet.

    Raises:
        CheckpointMovedError: The pipeline was too quick each time.
    """
    why: Exception | None = None
    for _ in range(TRIES_MAX):
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir(parents=True)
        _copy_driver_files(place.folder, into)
        batch = last_committed(str(into))
        if batch < 0 or not (into / SNAPSHOT).is_file():
            return None
        try:
            snapshot = read_snapshot(into / SNAPSHOT)
            _copy_state(place.state_root, into / STATE, snapshot, batch)
            committed_ms = (place.folder / "spark" / "commits" / str(batch)).stat().st_mtime_ns // 1_000_000
        except (FileNotFoundError, StateError) as error:
            why = error
            continue
        _copy_behind(place.behind, into / BEHIND)
        return PinnedCheckpoint(into, batch, query_id(str(into)), committed_ms, snapshot.shards)
    raise CheckpointMovedError(f"the checkpoint {place.folder} changes faster than it is copied: {why}") from why


def _copy_driver_files(folder: Path, into: Path) -> None:
    """Copy the driver's files as they are at one moment. Raises CheckpointMovedError where they do not stand still."""
    for _ in range(LOOKS_MAX):
        with ExitStack() as opened:
            try:
                before = dict(driver_files(folder))
                small, large = _read(folder, before, opened)
                if dict(driver_files(folder)) != before:
                    continue
            except FileNotFoundError:
                continue
            for name, data in small.items():
                _made(into / name).write_bytes(data)
            for name, (file, size) in large.items():
                with _made(into / name).open("wb") as out:
                    _copy_start(file, out, size)
            return
    raise CheckpointMovedError(f"the files of the driver in {folder} do not stand still")


def _read(
    folder: Path, files: dict[str, tuple[int, int, int]], opened: ExitStack
) -> tuple[dict[str, bytes], dict[str, tuple[BinaryIO, int]]]:
    """Small files, and large ones as open files with their sizes: those only grow, or another takes their place."""
    small: dict[str, bytes] = {}
    large: dict[str, tuple[BinaryIO, int]] = {}
    for name, (_, _, size) in files.items():
        if name.partition("/")[0] in _SKIPPED:
            continue
        if size <= READ_BYTES:
            small[name] = (folder / name).read_bytes()
        else:
            large[name] = (opened.enter_context((folder / name).open("rb")), size)
    return small, large


def _copy_start(file: BinaryIO, out: BinaryIO, size: int) -> None:
    while size > 0 and (data := file.read(min(size, 1 << 20))):
        out.write(data)
        size -= len(data)


def _copy_state(root: str, into: Path, snapshot: PlanSnapshot, batch: int) -> None:
    """Copy what the state of ``batch`` needs. Raises StateError or FileNotFoundError where something went meanwhile."""
    store = None if not is_uri(root) else file_store(root)
    ends = {each.folder: each.slices - 1 for each in snapshot.backfills.values()}
    for within, shard, end in _logs(root, ends, batch):
        log = StateLog(under(root, within) if within else root, shard)
        for segment in log.segments():
            if segment.first > end:
                continue
            if segment.last > end:
                raise StateError(f"{segment.name}: merged with batches behind {end}")
            name = "/".join([*([within] if within else []), f"shard-{shard:05d}", segment.name])
            target = _made(into / name)
            if store is None:
                _link(Path(root) / name, target)
            else:
                target.write_bytes(store.get(name))
    check_state(str(into), snapshot, batch)


def _logs(root: str, ends: dict[str, int], batch: int) -> Iterator[tuple[str, int, int]]:
    """The logs below ``root``: folder, shard, and the last batch or slice that is wanted."""
    for within, numbers in logs_in(root).items():
        parts = within.split("/")
        of_backfill = parts[1] if parts[0] == BACKFILLS else None
        if of_backfill is None or of_backfill in ends:
            end = batch if of_backfill is None else ends[of_backfill]
            yield from ((within, number, end) for number in numbers)


def check_state(root: str, snapshot: PlanSnapshot, batch: int) -> None:
    """Raise StateError where the logs below ``root`` do not have the whole state of ``batch``."""
    ends = {each.folder: each.slices - 1 for each in snapshot.backfills.values()}
    numbers: dict[str, set[int]] = {}
    for within, number, end in _logs(root, ends, batch):
        log = StateLog(under(root, within) if within else root, number)
        segments = log.segments()
        if not segments or (within == _DECIDED and segments[-1].last < end):
            continue  # no batch judged at this depth yet, or none revises decisions any more
        numbers.setdefault(within, set()).add(number)
        log.check_whole(end)
    wanted = ["", *(f"{BACKFILLS}/{folder}" for folder, end in ends.items() if end >= 0)]
    for within in dict.fromkeys([*wanted, *numbers]):
        found = len(numbers.get(within, ()))
        if found != snapshot.shards:
            raise StateError(f"{root}/{within}: found the logs of {found} shards, expected {snapshot.shards}")


def _copy_behind(store: FileStore, into: Path) -> None:
    """Copy what waits for sinks; what is delivered meanwhile does not wait any more."""
    for name in store.below(""):
        target = _made(into / name)
        try:
            if isinstance(store, LocalFiles):
                _link(store.root / name, target)
            else:
                target.write_bytes(store.get(name))
        except FileNotFoundError:
            continue


def _link(source: Path, target: Path) -> None:
    """The same file under another name; a copy where the file system has no such links."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
