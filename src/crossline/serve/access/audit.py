"""The audit log: every write through the API and every change of a key, each event chained to the one before.

A line is a JSON object. ``digest`` is the SHA-256 of the line's canonical JSON (sorted keys, without ``digest``), and
``previous`` is the ``digest`` of the line before; so a line that was altered, left out or put in is seen. Lines that
are cut off at the end leave no trace: note the last digest elsewhere now and then (``serve audit
verify`` prints it, and ``--head`` takes it).

A line from which a person was erased keeps its ``digest``, and ``erased`` is the digest of what is left of it.

A write has two lines: ``begun``, which is on the disk before anything is changed, and how it ended.
"""

from __future__ import annotations

import hashlib
import os
import threading
from asyncio import shield, to_thread
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from crossline.basics.errors import RetryableError, StateError
from crossline.logs import get_logger
from crossline.serve.access.auditfiles import FILE, ROTATE_BYTES, held, lines_of, parts_of
from crossline.serve.access.redaction import redacted
from crossline.serve.access.roles import Principal
from crossline.serve.http.problems import ProblemError

BEGINNING = "0" * 64
LINE_BYTES_MAX = 1 << 20
SERVER_FAULT = 500
ERASED = "erased"  # a field of an event whose values are gone
Outcome = Literal["begun", "done", "refused", "failed"]
log = get_logger(__name__)


@dataclass(slots=True)
class Write:
    """A write that is under way. ``after``: what it makes of it; ``outcome``: how it ended, if nothing was raised."""

    resource: str
    after: Any = None
    outcome: Outcome = "done"


class AuditLog:
    """Appends to the log; several threads and processes may, each line by itself.

    Args:
        folder: ``serve.path`` joined with ``audit``; made where it is not there, for its owner alone.
        clock_ms: Epoch milliseconds.
        rotate_bytes: Size from which on the file is put away, under a name of its lines; the chain goes on in the next.

    Example:
        with audit.write(principal, "PUT", "/v1/labels/{stream}/{record_id}", "payments/t1", before=None) as write:
            write.after = put(label)
    """

    def __init__(self, folder: Path, clock_ms: Callable[[], int], rotate_bytes: int = ROTATE_BYTES) -> None:
        self.path = folder / FILE
        self._clock_ms = clock_ms
        self._rotate_bytes = rotate_bytes
        self._lock = threading.Lock()
        self._end, self._file = 0, 0  # as this process left it: its size, and which file it was
        self._sequence, self._previous = 0, BEGINNING

    @contextmanager
    def write(
        self, principal: Principal, method: str, route: str, resource: str, before: Any = None
    ) -> Iterator[Write]:
        """Log a write: that it begins, before it does, and then how it ended. It waits for the disk, twice.

        In a coroutine: ``writing``. Raises RetryableError, and nothing is to be written, where the
        log takes nothing.
        """
        begun, write = self.begin(principal, method, route, resource, before), Write(resource)
        try:
            yield write
        except BaseException as error:
            self.end(begun, outcome_of(error), None, str(error))
            raise
        self.end(begun, write.outcome, write.after)

    @asynccontextmanager
    async def writing(
        self, principal: Principal, method: str, route: str, resource: str, before: Any = None
    ) -> AsyncIterator[Write]:
        """As ``write``, for coroutines: others go on while it waits for the disk.

        The end is logged also where the request is cancelled meanwhile.
        """
        begun, write = await to_thread(self.begin, principal, method, route, resource, before), Write(resource)
        try:
            yield write
        except BaseException as error:
            await shield(to_thread(self.end, begun, outcome_of(error), None, str(error)))
            raise
        await shield(to_thread(self.end, begun, write.outcome, write.after))

    def begin(self, principal: Principal, method: str, route: str, resource: str, before: Any = None) -> int:
        """Log that a write begins; gives its number, for ``end``. Raises RetryableError if the log takes nothing."""
        return self._append(
            {
                "principal": principal.name,
                "by": principal.kind,
                "method": method,
                "route": route,
                "resource": resource,
                "before": redacted(before),
                "outcome": "begun",
            }
        )

    def end(self, begun: int, outcome: Outcome, after: Any = None, why: str | None = None) -> None:
        """Log how the write of that number ended. The write itself holds, so a failure to log is only reported."""
        event = {"begun": begun, "outcome": outcome, "after": redacted(after)}
        try:
            self._append(event if why is None else {**event, "why": redacted(why[:1_000])})
        except (RetryableError, StateError) as error:
            log.error("the end of a write is not in the audit log", begun=begun, outcome=outcome, reason=str(error))  # noqa: TRY400 - its text has the reason

    def _append(self, event: dict[str, Any]) -> int:
        """Append a line; gives its number."""
        with self._lock:
            try:
                with held(self.path, self._rotate_bytes) as descriptor:
                    return self._append_to(descriptor, event)
            except OSError as error:
                raise RetryableError(
                    f"the audit log {self.path} cannot be written: {error.strerror}; nothing was changed"
                ) from error

    def _append_to(self, descriptor: int, event: dict[str, Any]) -> int:
        stat = os.fstat(descriptor)
        size, torn = stat.st_size, 0
        if size != self._end or size == 0 or stat.st_ino != self._file:
            torn = self._read_end(descriptor, size)
        line = {**event, "sequence": self._sequence + 1, "at_ms": self._clock_ms(), "previous": self._previous}
        if torn:  # what a kill or a full disk left of a line; `verify` finds it to be just that
            line["torn"] = torn
        digest = digest_of(line)
        data = (b"\n" if torn else b"") + orjson.dumps({**line, "digest": digest}) + b"\n"
        try:
            written = 0
            while written < len(data):
                written += os.write(descriptor, data[written:])
            os.fsync(descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, size)
            raise
        self._end, self._file = size + len(data), stat.st_ino
        self._sequence, self._previous = self._sequence + 1, digest
        return self._sequence

    def _read_end(self, descriptor: int, size: int) -> int:
        """Read the last whole line, whichever process wrote it; gives how many bytes of half a line stand after it."""
        start = max(0, size - 2 * LINE_BYTES_MAX)
        tail = os.pread(descriptor, size - start, start)
        whole, newline, rest = tail.rpartition(b"\n")
        if not newline:
            if start:
                raise StateError(
                    f"{self.path}: found no line within {len(tail):,} bytes of its end; expected an audit log"
                )
            self._sequence, self._previous = 0, BEGINNING
            if before := parts_of(self.path):
                self._read_last(_last_line(before[-1].path))
            return len(rest)
        self._read_last(whole.rpartition(b"\n")[2])
        return len(rest)

    def _read_last(self, last: bytes) -> None:
        try:
            event = orjson.loads(last)
            self._sequence, self._previous = int(event["sequence"]), str(event["digest"])
        except (orjson.JSONDecodeError, TypeError, KeyError, ValueError):
            raise StateError(
                f"{self.path}: found {last[:60].decode(errors='replace')!r} as its last line; expected an event. "
                "crossline serve audit verify shows more; move the files away, and a new log begins"
            ) from None


def outcome_of(error: BaseException) -> Outcome:
    """How a write ended that an exception ended: by a problem that was the asker's, or by a fault."""
    return "refused" if isinstance(error, ProblemError) and error.status < SERVER_FAULT else "failed"


def digest_of(event: Mapping[str, Any]) -> str:
    """The digest of an event: SHA-256 of its canonical JSON without ``digest`` and ``erased``, in hex."""
    body = {name: value for name, value in event.items() if name not in {"digest", ERASED}}
    return hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()


@dataclass(frozen=True, slots=True)
class Verified:
    """What ``verify`` found.

    ``problems``: where the chain breaks, the first first. ``head``: the last digest. ``open_writes``: numbers of writes
    of which it is not known how they ended: the process was killed, or the disk was full. ``torn``: bytes of half a
    line at the end, as a kill leaves them; its content was never acknowledged. ``erased``: how many events had values
    of a person that was erased; what is left of them is not proven by the chain.
    """

    events: int
    head: str
    problems: tuple[str, ...]
    open_writes: tuple[int, ...]
    torn: int = 0
    erased: int = 0


def _last_line(path: Path) -> bytes:
    """Of a file that was put away, which ends with a whole line."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 2 * LINE_BYTES_MAX))
        return file.read().removesuffix(b"\n").rpartition(b"\n")[2]


def verify(path: Path, head: str | None = None) -> Verified:
    """Follow the chain from its first line to its last, over all files.

    Args:
        path: The file that is written; those before it stand beside it.
        head: A digest that was noted before; it must still stand in the chain.

    Raises:
        StateError: Where the file cannot be read.
    """
    problems: list[str] = []
    begun: set[int] = set()
    sequence, previous, seen, torn, line = 0, BEGINNING, head is None or head == BEGINNING, 0, b""
    erased = 0
    try:
        for number, line in lines_of(path):
            event = _event(line)
            if event is None:
                if torn:
                    problems.append(f"line {number - 1}: found no event")
                torn = len(line.rstrip(b"\n")) or 1
                continue
            problems += _broken(number, event, sequence, previous, torn)
            erased += ERASED in event
            sequence, previous, torn = event["sequence"], event["digest"], 0
            seen = seen or previous == head
            if event.get("outcome") == "begun":
                begun.add(sequence)
            else:
                begun.discard(event.get("begun", 0))
    except OSError as error:
        raise StateError(f"the audit log {path} cannot be read: {error.strerror}") from error
    if torn and line.endswith(b"\n"):
        problems.append("found a last line that is no event; expected one, or half of one: it was altered")
    if not seen:
        problems.append(
            f"found no event of digest {head}; expected it, for it was the last one once: lines are missing"
        )
    return Verified(sequence, previous, tuple(problems), tuple(sorted(begun)), torn, erased)


def _event(line: bytes) -> dict[str, Any] | None:
    """The event of a line; None if it is none, as what a kill cut off."""
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    whole = isinstance(event, dict) and isinstance(event.get("sequence"), int) and isinstance(event.get("digest"), str)
    return event if whole and line.endswith(b"\n") else None


def _broken(number: int, event: dict[str, Any], sequence: int, previous: str, torn: int) -> list[str]:
    found = []
    if event.get("torn", 0) != torn:
        found.append(
            f"line {number - 1}: found {torn} bytes that are no event; expected {event.get('torn', 0)}: it was altered"
        )
    expected = event.get(ERASED, event["digest"])
    if digest_of(event) != expected:
        found.append(f"line {number}: found an event whose digest is another one; expected {expected}: it was altered")
    if event["sequence"] != sequence + 1:
        found.append(
            f"line {number}: found event {event['sequence']}; expected {sequence + 1}: lines are missing or moved"
        )
    elif event.get("previous") != previous:
        found.append(f"line {number}: found an event after {event.get('previous')}; expected one after {previous}")
    return found
