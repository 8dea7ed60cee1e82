"""Writes out of the audit log: what a line began with and how another one ended it, the newest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from typing import Any

import orjson

from crossline.serve.access.auditfiles import mapped

LOOKED_MAX = 10_000  # lines of one request; behind them the next one goes on
BACK_MS = 86_400_000  # by how much clocks may have been set back


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """A write: the ``number`` of its line, who, what, and how it ended (``begun``: that is not known)."""

    number: int
    at_ms: int
    who: str
    by: str
    what: str
    resource: str
    outcome: str
    caption: Mapping[str, Any]
    digest: str


@dataclass(frozen=True, slots=True)
class TrailQuery:
    """Which writes: parts of texts, in any case; empty: any. ``before``: number that none reaches; 0: none."""

    who: str = ""
    what: str = ""
    outcome: str = ""
    since_ms: int = 0
    before: int = 0

    def has(self, event: AuditEvent) -> bool:
        """Whether it is one of them."""
        return (
            self.who.casefold() in event.who.casefold()
            and self.what.casefold() in f"{event.what} {event.resource}".casefold()
            and self.outcome in {"", event.outcome}
            and event.at_ms >= self.since_ms
            and (not self.before or event.number < self.before)
        )


@dataclass(frozen=True, slots=True)
class TrailResult:
    """``events``: the newest first; ``older``: number before which it goes on, 0: there is nothing older.

    ``looked``: lines that were looked at; ``digest``: of the last line.
    """

    events: tuple[AuditEvent, ...]
    older: int
    looked: int
    digest: str


def find(path: Path, wanted: TrailQuery, limit: int) -> TrailResult:
    """The last ``limit`` writes that are wanted, among the last ``LOOKED_MAX`` lines before ``wanted.before``."""
    with mapped(path) as files:
        trail = _Trail(files, wanted.before)
        events: list[AuditEvent] = []
        looked, older = 0, 0
        for line in trail.lines(wanted.before):
            event = trail.event(line)
            if event is not None and wanted.has(event):
                if len(events) == limit:
                    older = events[-1].number
                    break
                events.append(event)
            looked += 1
            if int(line.get("at_ms", 0)) < wanted.since_ms - BACK_MS:
                break
            if looked == LOOKED_MAX:
                older = int(line.get("sequence", 0))
                break
        return TrailResult(tuple(events), older if older > 1 else 0, looked, trail.digest)


class _Trail:
    """Reads the log from its end. ``files``: the newest first; ``before``: number at which the reading begins, or 0."""

    def __init__(self, files: Sequence[mmap], before: int) -> None:
        self._files, self._before = files, before
        self._ended: dict[int, dict[str, Any]] = {}  # by the number of the line that began it
        self.digest = next((str(each.get("digest", "")) for each in self.lines(0)), "")

    def lines(self, before: int) -> Iterator[dict[str, Any]]:
        """Those before number ``before`` (0: all), the last first; what is no whole line is left out."""
        for file in self._files:
            end = file.rfind(b"\n") + 1
            if before:
                end = _place(file, end, before)
            while end > 0:
                start = file.rfind(b"\n", 0, end - 1) + 1
                line = _read(file[start:end])
                end = start
                if line is not None:
                    yield line

    def event(self, line: dict[str, Any]) -> AuditEvent | None:
        """The write that ``line`` begins; None for a line that ends one."""
        if line.get("outcome") != "begun":
            self._ended[int(line.get("begun", 0))] = line
            return None
        number = int(line.get("sequence", 0))
        ended = self._ended.pop(number, None) or (self._ended_later(number) if self._before else None)
        return _event(line, ended or {"outcome": "begun", "digest": line.get("digest", "")})

    def _ended_later(self, number: int) -> dict[str, Any] | None:
        """How it ended in a line that was not read: one from ``before`` on."""
        mark = b'{"begun":%d,' % number
        for file in self._files:
            at = 0 if file[: len(mark)] == mark else file.find(b"\n" + mark) + 1
            if at or file[: len(mark)] == mark:
                return _read(file[at : file.find(b"\n", at) + 1])
        return None


def _place(file: mmap, end: int, number: int) -> int:
    """Where the first line begins whose number is not less than ``number``, of the lines before ``end``."""
    low, high = 0, end  # where lines begin: those before low have lesser numbers, those from high on have not
    while low < high:
        start = max(low, file.rfind(b"\n", 0, (low + high) // 2) + 1)
        after = file.find(b"\n", start) + 1
        line = _read(file[start:after])
        while line is None and start > low:  # half a line: read the one before it
            start = file.rfind(b"\n", 0, start - 1) + 1
            line = _read(file[start : file.find(b"\n", start) + 1])
        if line is None or int(line.get("sequence", 0)) < number:
            low = after
        else:
            high = start
    return low


def _read(data: bytes) -> dict[str, Any] | None:
    """The entry of a line; None for a line that a kill or a full disk cut."""
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


def _event(first: Mapping[str, Any], last: Mapping[str, Any]) -> AuditEvent:
    body = {name: value for name, value in (("before", first.get("before")), ("after", last.get("after"))) if value}
    if last.get("why"):
        body["why"] = last["why"]
    return AuditEvent(
        number=int(first.get("sequence", 0)),
        at_ms=int(first.get("at_ms", 0)),
        who=str(first.get("principal", "")),
        by=str(first.get("by", "")),
        what=f"{first.get('method', '')} {first.get('route', '')}".replace("POST console ", "console "),
        resource=str(first.get("resource", "")),
        outcome=str(last.get("outcome", "")),
        caption=body,
        digest=str(last.get("digest", "")),
    )
