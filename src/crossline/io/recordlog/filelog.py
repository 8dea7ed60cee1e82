"""The log of a source of kind api: what the decision API acknowledged, in files of JSON lines."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.conditions.evaluation import lookup
from crossline.basics.errors import UsageError
from crossline.basics.streams.api_record import LogPosition, SubmittedRecord
from crossline.io.recordlog.segments import Segments, segment_name

SEGMENT_BYTES = 64 << 20
GROUP_BYTES_MAX = 4 << 20  # that are synced at once


@dataclass(slots=True)
class _Call:
    """A call of ``append``; its ``future`` belongs to the caller's event loop."""

    records: Sequence[SubmittedRecord]
    future: asyncio.Future[list[LogPosition]]

    @property
    def size(self) -> int:
        return sum(len(each.raw) for each in self.records)


class FileRecordLog:
    """Puts records into the folder ``path``, from which a source of ``kind: api`` reads them.

    What ``append`` acknowledges is synced to the disk, stands in its files once by its id, and in the order of the
    calls; files go on in a new one from ``segment_bytes`` on. Calls that come while the disk is at work are synced
    together. Ids are known as far back as the files of the log reach, and those of files that were deleted since; they
    are kept beside the log, in ``.ids``, which may be deleted while no API runs: it is made again.

    One process has the log: it alone knows which ids came, and where the log ends. A second one is refused with a
    StateError. To serve HTTP from several processes, put them in front of this one.

    Args:
        path: Folder of the log; made where it is not there.
        id_field: Field of the record's id, with dots where it is nested (``id`` of the stream).
        segment_bytes: Size from which on the log goes on in a new file.

    Example:
        >>> import asyncio, tempfile
        >>> async def put(folder):
        ...     log = FileRecordLog(folder, "id")
        ...     places = await log.append([Asked(0, "payments", "p1", b'{"id":"p1"}', "", 0)])
        ...     await log.close()
        ...     return places
        >>> asyncio.run(put(tempfile.mkdtemp()))
        [Place(log='00000001.jsonl', at=0)]
    """

    def __init__(self, path: str | Path, id_field: str, segment_bytes: int = SEGMENT_BYTES) -> None:
        def id_of(line: bytes) -> str:
            found = lookup(orjson.loads(line), id_field)
            if not isinstance(found, str | int):
                raise TypeError(f"no id in field {id_field}")
            return str(found)

        self._segments = Segments(Path(path), segment_bytes, id_of)
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self._segments.folder

    async def open(self) -> None:
        """Hold the log, and put its end in order; ``append`` does so by itself.

        Raises StateError where another process has it, RetryableError where the disk fails.
        """
        await self._called(())

    async def append(self, records: Sequence[SubmittedRecord]) -> list[LogPosition]:
        """Put the records there, in their order; where each stands, once all are on the disk.

        A record whose id is there already is not put there again: its place is that of the first. Where the call is
        cancelled, its records may be there all the same.

        Raises RetryableError where the disk fails: what was written is unknown, and a retry is safe.
        UsageError for a record that is no single line.
        """
        for each in records:
            if not each.raw or b"\n" in each.raw:
                raise UsageError(f"record {each.record_id!r}: found {len(each.raw)} bytes, expected JSON in one line")
        return await self._called(records) if records else []

    async def close(self) -> None:
        """Finish the requested appends and release the log; safe to call twice."""
        self._closed = True
        thread, self._thread = self._thread, None
        if thread is not None:
            self._calls.put(None)
            await asyncio.to_thread(thread.join)

    async def _called(self, records: Sequence[SubmittedRecord]) -> list[LogPosition]:
        if self._closed:
            raise UsageError(f"the log {self._segments.folder} is closed")
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="record-log", daemon=True)
            self._thread.start()
        call = _Call(records, asyncio.get_running_loop().create_future())
        self._calls.put(call)
        return await call.future

    def _work(self) -> None:
        """Serve calls, those that have come meanwhile together, until a stop is requested."""
        while (call := self._calls.get()) is not None:
            calls, size, ended = [call], call.size, False
            while size < GROUP_BYTES_MAX and not ended:
                try:
                    more = self._calls.get_nowait()
                except queue.Empty:
                    break
                if more is None:
                    ended = True
                else:
                    calls.append(more)
                    size += more.size
            self._serve(calls)
            if ended:
                break
        self._segments.close()

    def _serve(self, calls: Sequence[_Call]) -> None:
        result: list[LogPosition] | BaseException
        try:
            self._segments.open()
            lines = [(each.record_id, each.raw) for call in calls for each in call.records]
            spots = self._segments.append(lines) if lines else []
            result = [LogPosition(segment_name(number), at) for number, at in spots]
        except BaseException as error:  # noqa: BLE001 - goes to the callers; the next call may succeed
            result = error
        at = 0
        for call in calls:
            mine: Any = result if isinstance(result, BaseException) else result[at : at + len(call.records)]
            at += len(call.records)
            with suppress(RuntimeError):  # the event loop of the caller is closed
                call.future.get_loop().call_soon_threadsafe(_answer, call.future, mine)


def _answer(future: asyncio.Future[list[LogPosition]], result: list[LogPosition] | BaseException) -> None:
    if future.done():  # it was cancelled
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
