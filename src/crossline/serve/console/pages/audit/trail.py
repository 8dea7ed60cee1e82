"""Writes out of the audit log: what a line began with and how another one ended it, the newest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from crossline.serve.access.auditfiles import lines_of, parts_of

LOOKED_MAX = 200_000  # lines of one request, the newest


@dataclass(frozen=True, slots=True)
class Event:
    """A write: the ``number`` of its line, who, what, and how it ended (``begun``: that is not known)."""

    number: int
    at_ms: int
    who: str
    by: str
    what: str
    resource: str
    outcome: str
    said: Mapping[str, Any]
    digest: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which writes: parts of texts, in any case; empty: any. ``before``: number that none reaches; 0: none."""

    who: str = ""
    what: str = ""
    outcome: str = ""
    since_ms: int = 0
    before: int = 0

    def has(self, event: Event) -> bool:
        """Whether it is one of them."""
        return (
            self.who.casefold() in event.who.casefold()
            and self.what.casefold() in f"{event.what} {event.resource}".casefold()
            and self.outcome in {"", event.outcome}
            and event.at_ms >= self.since_ms
            and (not self.before or event.number < self.before)
        )


@dataclass(frozen=True, slots=True)
class Found:
    """``events``: the newest first; ``more``: whether there are older ones; ``looked``: writes that were looked at."""

    events: tuple[Event, ...]
    more: bool
    looked: int
    digest: str


def find(path: Path, wanted: Wanted, limit: int) -> Found:
    """The last ``limit`` writes that are wanted."""
    kept: deque[Event] = deque(maxlen=limit + 1)
    looked, digest = 0, ""
    for event in _events(path):
        looked += 1
        digest = event.digest
        if wanted.has(event):
            kept.append(event)
    newest = list(reversed(kept))
    return Found(tuple(newest[:limit]), len(newest) > limit, looked, digest)


def _events(path: Path) -> Iterator[Event]:
    """All writes of the lines that are looked at, each once it ended; those that did not end, last."""
    begun: dict[int, dict[str, Any]] = {}
    for number, line in _lines(path):
        with suppress(orjson.JSONDecodeError):
            said = orjson.loads(line)
            if not isinstance(said, dict):
                continue
            if said.get("outcome") == "begun":
                begun[said.get("sequence", number)] = said
            elif (first := begun.pop(said.get("begun", 0), None)) is not None:
                yield _event(first, said)
    for each in begun.values():
        yield _event(each, {"outcome": "begun", "digest": each.get("digest", "")})


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The newest files whole, as many as are looked at."""
    parts = parts_of(path)
    after = 0
    while parts and parts[-1].last - after > LOOKED_MAX and after < parts[-1].first - 1:
        after = next(each.last for each in parts if each.last > after)
    with suppress(FileNotFoundError):  # nothing was written yet
        yield from lines_of(path, after)


def _event(first: Mapping[str, Any], last: Mapping[str, Any]) -> Event:
    said = {name: value for name, value in (("before", first.get("before")), ("after", last.get("after"))) if value}
    if last.get("why"):
        said["why"] = last["why"]
    return Event(
        number=int(first.get("sequence", 0)),
        at_ms=int(first.get("at_ms", 0)),
        who=str(first.get("principal", "")),
        by=str(first.get("by", "")),
        what=f"{first.get('method', '')} {first.get('route', '')}".replace("POST console ", "console "),
        resource=str(first.get("resource", "")),
        outcome=str(last.get("outcome", "")),
        said=said,
        digest=str(last.get("digest", "")),
    )
