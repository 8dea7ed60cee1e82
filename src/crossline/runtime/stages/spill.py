"""Spills the bodies of rows to local files. Only their positions in these files then go through Spark.

Without a spill the records of a batch are written to Java, to shuffle files, to the Python worker of the next stage,
and to the state server of the shard; what comes of them goes to Java, and from there to the driver. On one machine the
state server maps the file of the first task instead, and the driver those of the last. Only large bodies are spilled.
"""

from __future__ import annotations

import mmap
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import pyarrow as pa

from crossline.basics.wire import WirePart
from crossline.ingest.route.part_codec import unpack
from crossline.runtime.stages.rows import ArrowBatches, Body, rows_of
from crossline.runtime.work.task import Task

BODY_BYTES_MIN = 16 * 1024
_MARK = b"\xff" * 8  # a body is the length of its first part and that part, and none is so long
_POPULATE = getattr(mmap, "MAP_POPULATE", 0)  # all pages at once, where the system can


@dataclass(frozen=True, slots=True)
class SpillBodies:
    """``step``, with the large bodies of its rows in files in ``folder``."""

    step: Callable[[Task, ArrowBatches], ArrowBatches]
    folder: Path

    def __call__(self, task: Task, batches: ArrowBatches) -> ArrowBatches:
        """The rows, the same in number and order."""
        for rows in self.step(replace(task, spill_folder=self.folder), batches):
            yield spill_bodies(rows, _new_file(task, self.folder))


def spilled_rows(rows: Sequence[tuple[int, int, str, Body]], task: Task) -> pa.RecordBatch:
    """``rows``, with their large bodies in a file where ``task`` has a folder for it.

    Bodies in pieces are written piece by piece: nobody joins them before.
    """
    if task.spill_folder is None:
        return rows_of(rows)
    bodies = _spilled([row[3] for row in rows], _new_file(task, task.spill_folder))
    return rows_of([(*row[:3], body) for row, body in zip(rows, bodies, strict=True)])


def spill_bodies(rows: pa.RecordBatch, path: Path) -> pa.RecordBatch:
    """``rows`` with their large bodies in a file at ``path``, which is only made where there are any."""
    given: list[Body] = [memoryview(body.as_buffer()) for body in rows.column(3)]
    bodies = _spilled(given, path)
    if bodies is given:
        return rows
    stages, shards, kinds = (rows.column(number).to_pylist() for number in range(3))
    return rows_of(list(zip(stages, shards, kinds, bodies, strict=True)))


def _new_file(task: Task, folder: Path) -> Path:
    return folder / f"{task.batch_id}-{task.partition}-{secrets.token_hex(8)}"


def _spilled(bodies: list[Body], path: Path) -> list[Body]:
    """``bodies``, the large ones as what ``body_of`` finds in a file at ``path``; the list itself where none is."""
    pieces = [body if isinstance(body, list) else [body] for body in bodies]
    sizes = [sum(map(len, each)) for each in pieces]
    if not any(size >= BODY_BYTES_MIN for size in sizes):
        return bodies
    path.parent.mkdir(mode=0o700, exist_ok=True)
    made = list(bodies)
    with path.open("wb") as file:
        for number, size in enumerate(sizes):
            if size >= BODY_BYTES_MIN:
                at = -(-file.tell() // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY  # where maps begin
                file.seek(at)
                file.writelines(pieces[number])
                made[number] = _MARK + orjson.dumps([str(path), at, size])
    return made


def body_of(body: bytes | memoryview) -> memoryview:
    """The body itself, wherever it stands."""
    view = memoryview(body).cast("B")  # one of Arrow has signed bytes, which are never equal to the mark
    if view[: len(_MARK)] != _MARK:
        return view
    path, at, size = orjson.loads(view[len(_MARK) :])
    with Path(path).open("rb") as file:
        flags = mmap.MAP_PRIVATE | _POPULATE
        return memoryview(mmap.mmap(file.fileno(), size, flags=flags, prot=mmap.PROT_READ, offset=at))


def parts_of(bodies: Iterable[bytes | memoryview], where: str) -> Iterator[WirePart]:
    """The packed parts of ``bodies``. ``where`` names them in errors."""
    for body in bodies:
        yield from unpack(body_of(body), where)


def clear(folder: Path) -> None:
    """Remove what is in ``folder``: the batch is done."""
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            path.unlink(missing_ok=True)
