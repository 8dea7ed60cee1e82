"""A process of the pool: runs the requested steps, and keeps the rows for its own next step."""

from __future__ import annotations

import gc
import os
import pickle
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

from crossline.basics.errors import CrosslineError, PermanentError
from crossline.runtime.java.child_processes import end_with_parent
from crossline.runtime.local.crashes import note_crashes
from crossline.runtime.machine.freed_memory import keep_freed_memory
from crossline.runtime.stages.rows import OUT
from crossline.runtime.stages.stages import Stage
from crossline.runtime.work.rows import Rows
from crossline.runtime.work.task import Task


@dataclass(frozen=True, slots=True)
class StageRequest:
    """Run stage number ``stage`` of batch ``batch_id``, on the rows in the files ``rows`` and on those kept for it.

    ``piece``: which one of the input, of which a process may get several.
    """

    batch_id: int
    stage: int
    rows: tuple[str, ...]
    piece: int = 0


@dataclass(frozen=True, slots=True)
class StageResult:
    """It ran: ``rows``, by stage and process, are files for others, ``outcome`` a file with output rows.

    ``place``: its piece of the input, and the process.
    """

    batch_id: int
    stage: int
    place: tuple[int, int]
    rows: dict[tuple[int, int], str]
    outcome: str


@dataclass(frozen=True, slots=True)
class StageFailure:
    """It did not."""

    error: Exception


@dataclass(slots=True)
class Worker:
    """Process ``number`` of ``count``; rows of shard s are for process s % ``count``. Files lie in ``folder``."""

    stages: Sequence[Stage]
    number: int
    count: int
    folder: Path
    _kept: defaultdict[tuple[int, int], list[pa.RecordBatch]] = field(default_factory=lambda: defaultdict(list))

    @property
    def crash(self) -> Path:
        """The file with the place of its crash."""
        return self.folder / f"crash-{self.number}"

    def serve(self, connection: Connection) -> None:
        """Serve requests until the other end is gone."""
        end_with_parent()
        note_crashes(self.crash)
        keep_freed_memory()
        gc.freeze()  # what came with the fork stays: it is not this process' to destroy, nor to look through
        gc.enable()
        with suppress(EOFError, OSError):
            while True:
                request: StageRequest = connection.recv()
                try:
                    done: StageResult | StageFailure = self.run(request)
                except (CrosslineError, MemoryError) as error:
                    done = StageFailure(sendable(error))
                except Exception:  # noqa: BLE001 - whatever it is, it is reported by the process that people see
                    done = StageFailure(RuntimeError(traceback.format_exc()))
                connection.send(done)

    def run(self, request: StageRequest) -> StageResult:
        """Run one step."""
        kept = self._kept.pop((request.batch_id, request.stage), [])
        given = [*kept, *(batch for path in request.rows for batch in read_rows(path))]
        task = Task(batch_id=request.batch_id, partition=self.number, partitions=self.count)
        others: defaultdict[tuple[int, int], list[pa.RecordBatch]] = defaultdict(list)
        outcome: list[pa.RecordBatch] = []
        for rows in self.stages[request.stage].step(task, iter(given)):
            for place, (stage, shard) in enumerate(zip(*(rows.column(n).to_pylist() for n in (0, 1)), strict=True)):
                row = rows.slice(place, 1)
                if stage == OUT:
                    outcome.append(row)
                elif shard % self.count == self.number:
                    self._kept[request.batch_id, stage].append(row)
                else:
                    others[stage, shard % self.count].append(row)
        name = f"{request.batch_id}-{request.stage}-{self.number}-{request.piece}"
        files = {to: self._written(f"{name}-{to[0]}-{to[1]}", each) for to, each in others.items()}
        for path in request.rows:
            _remove(path)
        written = self._written(f"{name}-out", outcome)
        return StageResult(request.batch_id, request.stage, (request.piece, self.number), files, written)

    def _written(self, name: str, rows: Iterable[pa.RecordBatch]) -> str:
        return write_rows(self.folder / name, rows)


def write_rows(path: Path, batches: Iterable[pa.RecordBatch]) -> str:
    """A file of ``batches``, which have one schema; its path."""
    batches = list(batches)
    with _named(path):
        if batches:
            with pa.OSFile(os.fsencode(path), "wb") as file, pa.ipc.new_file(file, batches[0].schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        else:
            path.touch()
    return str(path)


def read_rows(path: str) -> list[pa.RecordBatch]:
    """The batches of a file, mapped into memory, which they keep when the file is unlinked."""
    with _named(Path(path)):
        if not Path(path).stat().st_size:
            return []
        reader = pa.ipc.open_file(pa.memory_map(os.fsencode(path)))
        return [reader.get_batch(number) for number in range(reader.num_record_batches)]


def take_outcome(path: str) -> Rows:
    """The output rows of a step; removes the file."""
    found = [
        (kind, body)
        for batch in read_rows(path)
        for kind, body in zip(batch.column(2).to_pylist(), batch.column(3).to_pylist(), strict=True)
    ]
    _remove(path)
    return found


def _remove(path: str) -> None:
    with _named(Path(path)):
        Path(path).unlink()


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """A disk that is full, or a folder that somebody cleared, is no fault of ours: what it is, and where."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)  # Arrow's text has it three times
        raise PermanentError(f"{path.parent}: rows between processes cannot be kept there: {reason}") from error


def sendable(error: Exception) -> Exception:
    """``error``, or what tells as much and can be sent to another process.

    Of an error of ours its text, as the nearest of its kinds that needs nothing else; of another one its traceback.
    That memory is short is told by its text alone: libraries have kinds of their own.
    """
    if isinstance(error, MemoryError):
        return MemoryError(str(error))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - whatever the reason, the text is reported
        if not isinstance(error, CrosslineError):
            return RuntimeError("".join(traceback.format_exception(error)))
        plain = next(kind for kind in type(error).__mro__ if kind.__module__ == CrosslineError.__module__)
        made: CrosslineError = plain(str(error))
        return made
    return error


def as_message(found: Any) -> StageResult:
    """The result that a worker sent; raises the error that it failed with."""
    if isinstance(found, StageFailure):
        raise found.error
    done: StageResult = found
    return done
