"""Changes the number of shards of a checkpoint: writes new logs beside the old ones, then replaces them.

The new logs are written to ``resharding``. When they are whole and synced, one rename to ``resharded`` commits them.
From then on the new logs count. If the process is killed after that, the next process that opens the checkpoint moves
them into place. Until then the old logs are unchanged.

On an object store nothing is renamed. The new logs are written to a folder named by the number of the driver. One put
of a note that names the folder commits them. Folders that no note names do not count.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from crossline.basics.errors import StateError, UsageError
from crossline.evaluate.resharding import Blob, resharded
from crossline.io.files import state_files
from crossline.io.files.sync import sync_path
from crossline.io.objects.location import under
from crossline.runtime.snapshot.checkpoint import OWNER
from crossline.runtime.snapshot.checkpoint_store import StoredCheckpoint
from crossline.runtime.snapshot.snapshot import PlanSnapshot, read_snapshot
from crossline.runtime.snapshot.spark_log import last_committed, unfinished
from crossline.runtime.state_log.log_folders import BACKFILLS
from crossline.runtime.state_log.state_log import StateLog, logs_in

BEGUN, WHOLE = "resharding", "resharded"  # folders in a checkpoint
_STATE, _SNAPSHOT, _BEFORE = "state", "snapshot.json", "before"
_LEVEL, _DECIDED = "level-", "decided"
_RESTORE = "it records the owner of the checkpoint: restore it from a copy"
_WRITE_BYTES = 64 << 20  # of all shards together that wait to be written


@dataclass(slots=True)
class Resharded:
    """What was done. ``before``: the number of shards that there were; ``bytes``: of the new logs."""

    shards: int
    before: int
    batches: int = 0
    bytes: int = 0


def reshard(checkpoint: Path, pipeline: str, shards: int) -> Resharded:
    """Give the checkpoint of ``pipeline``, whose lease the caller holds, ``shards`` shards.

    Raises:
        UsageError: it is none, or no pipeline's of that name.
        StateError: something in it is missing or damaged, or has to be finished first.
    """
    settle(checkpoint)
    raw = _snapshot_of(checkpoint, str(checkpoint), pipeline)
    snapshot = read_snapshot(checkpoint / _SNAPSHOT, raw)
    done = Resharded(shards, snapshot.shards)
    if shards == snapshot.shards:
        return done
    _check_finished(checkpoint, str(checkpoint), snapshot)
    staging = checkpoint / BEGUN
    try:
        (staging / _STATE).mkdir(parents=True)
        _write_all(str(checkpoint / _STATE), str(staging / _STATE), checkpoint, snapshot, done)
        (staging / _SNAPSHOT).write_bytes(_with_shards(raw, shards))
        done.bytes = _synced(staging)
    except OSError as error:
        shutil.rmtree(staging, ignore_errors=True)
        raise StateError(
            f"{staging} cannot be written: {error.strerror or error}; the checkpoint is as it was"
        ) from error
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    staging.rename(checkpoint / WHOLE)
    settle(checkpoint)
    return done


def reshard_stored(held: StoredCheckpoint, pipeline: str, shards: int) -> Resharded:
    """The same of a checkpoint on a store that is held; raises the same."""
    raw = _snapshot_of(held.folder, held.shown, pipeline)
    snapshot = read_snapshot(held.folder / _SNAPSHOT, raw)
    done = Resharded(shards, snapshot.shards)
    if shards == snapshot.shards:
        return done
    _check_finished(held.folder, held.shown, snapshot)
    with held.new_state() as root:
        _write_all(held.state_root, root, held.folder, snapshot, done)
        state_files.put(held.folder / _SNAPSHOT, _with_shards(raw, shards))
    return done


def _check_finished(folder: Path, shown: str, snapshot: PlanSnapshot) -> None:
    if snapshot.deciding is not None and snapshot.deciding.folder is not None and unfinished(str(folder)):
        raise StateError(
            f"{shown}: a batch is not finished, and what it decided may stand in {snapshot.deciding.folder} in the "
            "files of its shards: have it finished first (crossline run PIPELINE --drain), then come again"
        )


def _with_shards(raw: bytes, shards: int) -> bytes:
    return orjson.dumps({**orjson.loads(raw), "shards": shards})


def _write_all(source: str, target: str, folder: Path, snapshot: PlanSnapshot, done: Resharded) -> None:
    """All logs below ``source``, those of depths and of backfills too; ``folder``: where the commits are."""
    last = last_committed(str(folder))
    ends = {backfill.folder: backfill.slices - 1 for backfill in snapshot.backfills.values()}
    for within, numbers in logs_in(source).items():
        parts = within.split("/")
        of_backfill = parts[1] if parts[0] == BACKFILLS else None
        if of_backfill is None or of_backfill in ends:
            end = last if of_backfill is None else ends[of_backfill]
            _write(_below(source, within), numbers, _below(target, within), end, done)


def _below(root: str, within: str) -> str:
    return under(root, within) if within else root


def settle(checkpoint: Path) -> bool:
    """Finish what a killed ``reshard`` left whole, and remove what it left in pieces; whether anything was finished."""
    whole = checkpoint / WHOLE
    there = whole.is_dir()
    if there:
        sync_path(checkpoint)
        if (whole / _STATE).is_dir():
            if (checkpoint / _STATE).is_dir():
                _move(checkpoint / _STATE, whole / _BEFORE)
            _move(whole / _STATE, checkpoint / _STATE)
        if (whole / _SNAPSHOT).is_file():
            _move(whole / _SNAPSHOT, checkpoint / _SNAPSHOT)
        shutil.rmtree(whole)
    shutil.rmtree(checkpoint / BEGUN, ignore_errors=True)
    return there


def _snapshot_of(checkpoint: Path, shown: str, pipeline: str) -> bytes:
    path, owner = checkpoint / _SNAPSHOT, checkpoint / OWNER
    if not path.is_file():
        raise UsageError(
            f"{shown} has no {_SNAPSHOT}: found no checkpoint there that a pipeline has run on; the number of shards "
            "of a new one is engine.shards in the pipeline file"
        )
    if owner.is_file():
        known = state_files.read(owner, owner.read_bytes(), lambda raw: orjson.loads(raw).get("pipeline"), _RESTORE)
        if known != pipeline:
            raise UsageError(f"{shown} is the checkpoint of pipeline {known}, found {pipeline}")
    return path.read_bytes()


def _write(source: str, numbers: Sequence[int], target: str, last: int, done: Resharded) -> None:
    """The log at ``source``, of shards of these ``numbers``, up to batch ``last`` as one of other shards."""
    name = source.partition("?")[0].rpartition("/")[2]
    logs = [StateLog(source, number) for number in numbers]
    lasts = [segment.last for log in logs for segment in log.segments() if segment.first <= last]
    # That of a depth above the first may begin with any batch.
    top = name.startswith((_LEVEL, _DECIDED))
    if top and (not lasts or (name == _DECIDED and max(lasts) < last)):
        return  # it begins with a batch to come: no batch that is done had it, or nothing revises decisions any more
    if list(numbers) != list(range(done.before)):
        raise StateError(
            f"{source}: found the logs of {len(numbers)} shards, expected {done.before}; restore the folder"
        )
    new = [StateLog(target, shard) for shard in range(done.shards)]
    waiting: list[list[bytes]] = [[] for _ in new]
    first, size, batches = 0, 0, 0
    for batch, kept_from, blobs in _batches(logs, last):
        if not batches:
            first = batch
        for mine, blob in zip(waiting, resharded(blobs, done.shards, kept_from), strict=True):
            mine.append(blob)
            size += len(blob)
            done.bytes += len(blob)
        batches += 1
        if size > _WRITE_BYTES:
            _flush(new, first, waiting)
            first, size = batch + 1, 0
    _flush(new, first, waiting)
    done.batches = max(done.batches, batches)


def _flush(logs: list[StateLog], first: int, waiting: list[list[bytes]]) -> None:
    for log, blobs in zip(logs, waiting, strict=True):
        if blobs:
            log.write_all(first, blobs)
            blobs.clear()


def _batches(logs: list[StateLog], last: int) -> Iterator[tuple[int, int, list[Blob]]]:
    """Batch by batch what shards have of it, with the first batch that any of them has.

    Each log dropped the batches that no later record needs: some logs more, some fewer.
    """
    left = [log.blobs(-1, last) for log in logs]
    heads = [next(blobs, None) for blobs in left]
    kept_from = min((head[0]["batch"] for head in heads if head is not None), default=last + 1)
    for batch in range(kept_from, last + 1):
        mine = [(number, head) for number, head in enumerate(heads) if head is not None and head[0]["batch"] == batch]
        yield batch, kept_from, [head for _, head in mine]
        for number, _ in mine:
            heads[number] = next(left[number], None)


def _synced(folder: Path) -> int:
    """See to it that all in ``folder`` survives a power failure; how many bytes that is."""
    size = 0
    for path in [folder, *folder.rglob("*")]:
        sync_path(path)
        size += path.stat().st_size if path.is_file() else 0
    return size


def _move(source: Path, target: Path) -> None:
    source.rename(target)
    sync_path(source.parent)
    sync_path(target.parent)
