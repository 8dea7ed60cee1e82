"""Sends a workload somewhere: as fast as it goes, or open loop, where record i is due at its own time come what may.

What takes the records is a ``Target``. An open loop does not slow down for a slow target: what could not be sent in
time is sent late, and a target that carries send times carries the time at which the record was due.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import BinaryIO, Protocol

from crossline.basics.errors import PermanentError, UsageError
from crossline.generate.source import Workload
from crossline.generate.text import json_lines
from crossline.generate.tx import BLOCK

TICK_S = 0.001
FAST_BATCH = 2 * BLOCK
MAKERS = 2


@dataclass(frozen=True)
class RecordBatch:
    """Records [first, first + count) as JSON lines, and the key of each where the target asks for keys."""

    first: int
    count: int
    data: bytes
    keys: tuple[bytes, ...] = ()

    @cached_property
    def lines(self) -> list[bytes]:
        """Each record's line, its end of line included."""
        return self.data.splitlines(keepends=True)

    def cut(self, low: int, high: int) -> bytes:
        """Lines low to high as they lie."""
        return self.data if (low, high) == (0, self.count) else b"".join(self.lines[low:high])


class Target(Protocol):
    """Takes records in order. ``due_us``: when the first is due, in epoch microseconds; ``step_us``: between two."""

    needs_keys: bool

    def send(self, batch: RecordBatch, low: int, high: int, due_us: float, step_us: float) -> int:
        """Take records low to high of the batch; the number of bytes taken is returned."""

    def close(self) -> None:
        """Hand on what is held, and let go. Raises SinkError where records could not be handed on."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The time that a schedule runs by; tests pass their own."""

    now_s: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class SendResult:
    """What was sent, and how long it took. ``behind_ms_max``: how late, at most, a record was sent in an open loop."""

    records: int
    data_bytes: int
    seconds: float
    behind_ms_max: float


def batches(make: Callable[[int, int], RecordBatch], numbers: range, size: int) -> Iterator[RecordBatch]:
    """The records of these numbers in batches of ``size``, made by threads while earlier ones are sent."""
    with ThreadPoolExecutor(MAKERS) as makers:
        ahead: deque[Future[RecordBatch]] = deque()
        for first in numbers[::size]:
            ahead.append(makers.submit(make, first, min(size, numbers.stop - first)))
            if len(ahead) > MAKERS:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def send(
    workload: Workload,
    target: Target,
    numbers: range,
    *,
    rate_per_s: int | None = None,
    clock: Clock | None = None,
    progress: Callable[[int], None] | None = None,
) -> SendResult:
    """Send the records of these numbers, at ``rate_per_s`` open loop or, if None, as fast as they are taken."""
    clock = clock or Clock()
    asked_s = clock.now_s()
    began_s: float | None = None
    data_bytes, behind_s = 0, 0.0
    make = partial(_make, workload, keys=target.needs_keys, split=rate_per_s is not None or target.needs_keys)
    for batch in batches(make, numbers, BLOCK if rate_per_s else FAST_BATCH):
        # The schedule begins when there is something to send.
        began_s = clock.now_s() if began_s is None else began_s
        low = 0
        while low < batch.count:
            high, due_s = batch.count, clock.now_s()
            if rate_per_s:
                done = batch.first - numbers.start + low
                high = min(high, low + _due(clock, began_s, done, rate_per_s))
                due_s = began_s + done / rate_per_s
                behind_s = max(behind_s, clock.now_s() - due_s)
            data_bytes += target.send(batch, low, high, due_s * 1e6, 1e6 / rate_per_s if rate_per_s else 0.0)
            if progress:
                progress(high - low)
            low = high
    target.close()
    seconds = clock.now_s() - (began_s if rate_per_s and began_s else asked_s)
    return SendResult(len(numbers), data_bytes, seconds, behind_s * 1e3)


def _due(clock: Clock, began_s: float, done: int, rate_per_s: int) -> int:
    """How many records are due now, after waiting until at least one is."""
    while (due := int((clock.now_s() - began_s) * rate_per_s) + 1 - done) <= 0:
        clock.sleep(max(TICK_S, began_s + done / rate_per_s - clock.now_s()))
    return due


def _make(workload: Workload, first: int, count: int, *, keys: bool, split: bool) -> RecordBatch:
    """A batch with everything that its sending needs already done, as sending is what must keep time."""
    table = workload.records(first, count)
    accounts = table["account_id"].to_pylist() if keys else []
    batch = RecordBatch(first, count, json_lines(table), tuple(account.encode() for account in accounts))
    if split and len(batch.lines) != count:
        raise PermanentError(f"the workload made {len(batch.lines)} lines for {count} records from {first}")
    return batch


class StreamTarget:
    """JSON lines to an open file, which is left open; flushed at every call, so that a reader sees the pace."""

    needs_keys = False

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def send(self, batch: RecordBatch, low: int, high: int, due_us: float, step_us: float) -> int:
        """Write the lines; send times have no place in a file."""
        del due_us, step_us
        data = batch.cut(low, high)
        self._stream.write(data)
        self._stream.flush()
        return len(data)

    def close(self) -> None:
        """Nothing is held."""


class DirectoryTarget:
    """JSON lines to ``files`` files of a directory, in equal runs of records: in name order the files are one log."""

    needs_keys = False

    def __init__(self, folder: Path, files: int, numbers: range) -> None:
        if folder.is_dir() and any(folder.glob("part-*.jsonl")):
            raise UsageError(f"{folder} already has part-*.jsonl files; name another directory or remove them")
        folder.mkdir(parents=True, exist_ok=True)
        self._bounds = [numbers.start + len(numbers) * number // files for number in range(1, files + 1)]
        self._paths = [folder / f"part-{number:05d}.jsonl" for number in range(files)]
        self._open: BinaryIO | None = None
        self._number = -1

    def send(self, batch: RecordBatch, low: int, high: int, due_us: float, step_us: float) -> int:
        """Write each line to the file that its record number falls into."""
        written = 0
        while low < high:
            number = next(number for number, bound in enumerate(self._bounds) if bound > batch.first + low)
            end = min(high, self._bounds[number] - batch.first)
            written += StreamTarget(self._file(number)).send(batch, low, end, due_us, step_us)
            low = end
        return written

    def close(self) -> None:
        """Close the last file."""
        if self._open:
            self._open.close()

    def _file(self, number: int) -> BinaryIO:
        if self._open is None or number != self._number:
            self.close()
            self._open, self._number = self._paths[number].open("wb"), number
        return self._open
