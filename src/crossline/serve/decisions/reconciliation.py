"""What was answered, held to what the stream decides: where these differ, the answer is revised."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from crossline.io.feed.files import FeedBatch
from crossline.serve.decisions.position_index import PositionIndex
from crossline.serve.decisions.replies import DecisionAnswer
from crossline.serve.decisions.values import LogPosition

COPIES = frozenset({"duplicate_id", "late"})  # why a stream refuses a record whose id came before
END = 1 << 62  # of any log
OPEN_MAX = 1_000_000  # answers that wait for their batch; of more, the oldest are not compared


@dataclass(frozen=True, slots=True)
class Revised:
    """An answer that the stream decided otherwise: what was answered, and ``decision``, the stream's own."""

    decision_id: str
    stream: str
    record_id: str
    answered: str
    was: str
    decision: Mapping[str, Any]
    batch: int


@dataclass(frozen=True, slots=True)
class Expected:
    """An answer: what was decided about which record, and how."""

    decision_id: str
    stream: str
    record_id: str
    answered: str
    decision: str


@dataclass(slots=True)
class ComparisonCounts:
    """How many answers were compared with what the stream decided, and how many differed, by how they were answered."""

    compared: dict[str, int] = field(default_factory=dict)
    differed: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Open:
    decision_id: str
    answered: str
    decision: str
    place: LogPosition | None


@dataclass(slots=True)
class Reconciliation:
    """Answers that no batch has covered yet, by stream and record.

    A batch costs what it has itself, however many answers wait: those are found by their places.

    ``on_covered``: called with stream and place for an answer that came after its batch: read that batch again.
    ``on_copy``: called for one that its stream refused, perhaps since the id came before: what the first one was
    decided counts, and is given to ``first``.
    """

    counts: ComparisonCounts = field(default_factory=ComparisonCounts)
    on_covered: Callable[[str, LogPosition], None] = lambda _, __: None
    on_copy: Callable[[Expected], None] = lambda _: None
    _last: FeedBatch | None = None
    _open: dict[tuple[str, str], _Open] = field(default_factory=dict)
    _coming: PositionIndex = field(default_factory=PositionIndex)  # those whose batch comes
    _behind: PositionIndex = field(default_factory=PositionIndex)  # those whose batch was asked for again

    def answered(self, answer: DecisionAnswer, place: LogPosition | None) -> None:
        """``answer`` was sent; its record stands at ``place``, None if its stream has yet to take it."""
        if answer.answered == "exact":
            return
        body, asked = answer.decision, answer.asked
        self.expect(asked.stream, asked.record_id, body["decision_id"], answer.answered, body["decision"], place)

    def expect(
        self, stream: str, record_id: str, decision_id: str, answered: str, decision: str, place: LogPosition | None
    ) -> None:
        """As ``answered``, of one that was answered before a restart. Of several calls the last one holds."""
        known = self._open.get((stream, record_id))
        if known is not None:
            place = known.place or place
            self._forget((stream, record_id))
        if len(self._open) >= OPEN_MAX:
            self._forget(next(iter(self._open)))
        self._put((stream, record_id), _Open(decision_id, answered, decision, place))

    def placed(self, stream: str, record_id: str, place: LogPosition) -> None:
        """Its stream has stored it. If it is there twice the first reported place counts, as there."""
        known = self._open.get((stream, record_id))
        if known is not None and known.place is None:
            self._forget((stream, record_id))
            self._put((stream, record_id), replace(known, place=place))

    def _put(self, which: tuple[str, str], known: _Open) -> None:
        self._open[which] = known
        if known.place is None:
            return
        covered = self._last is not None and self._last.covers(which[0], known.place)
        (self._behind if covered else self._coming).add(*which, known.place)
        if covered:
            self.on_covered(which[0], known.place)

    def forget(self, stream: str, place: LogPosition) -> None:
        """What its batch gave is not kept any more: it is not compared."""
        for _, record_id in self._behind.take(stream, place.log, place.at, place.at + 1):
            self._open.pop((stream, record_id), None)

    def _forget(self, which: tuple[str, str]) -> None:
        place = self._open.pop(which).place
        if place is not None:
            for each in (self._coming, self._behind):
                each.drop(*which, place)

    def batch(self, batch: FeedBatch) -> list[Revised]:
        """A batch was delivered: the answers that it shows to be others than the stream's decisions."""
        if self._last is None or batch.number > self._last.number or batch.anew:
            self._last = batch
        if not self._open:
            return []
        body = batch.decided
        covered = dict.fromkeys(which for which in body if which in self._open)
        covered |= dict.fromkeys(self._in(batch))
        undecided = {
            (each["stream"], each["log"], each["at"]): each.get("reason")
            for name in ("dead", "late")
            for each in map(orjson.loads, batch.section(name))
        }
        found = []
        for which in covered:
            each = self._open[which]
            self._forget(which)
            known = Expected(each.decision_id, *which, each.answered, each.decision)
            at = None if each.place is None else (which[0], each.place.log, each.place.at)
            if which not in body and at in undecided:  # the stream decides nothing about it
                if undecided[at] in COPIES:
                    self.on_copy(known)
                continue
            found += self.first(known, body.get(which) or _allowed(each.decision_id, *which), batch.number)
        self._look_behind(batch)
        return found

    def first(self, known: Expected, decided: Mapping[str, Any], batch: int) -> list[Revised]:
        """What an answer is held to; revised where it differs."""
        _add(self.counts.compared, known.answered)
        if decided["decision"] == known.decision:
            return []
        _add(self.counts.differed, known.answered)
        which = (known.decision_id, known.stream, known.record_id)
        return [Revised(*which, known.answered, known.decision, decided, batch)]

    def _in(self, batch: FeedBatch) -> Iterator[tuple[str, str]]:
        """Those whose records are in ``batch`` itself."""
        for stream, ends in batch.head["ends"].items():
            begins = batch.head["begins"].get(stream, {})
            for log, end in ends.items():
                for each in (self._coming, self._behind):
                    yield from ((stream, record_id) for record_id in each.at(stream, log, begins.get(log, 0), end))

    def _look_behind(self, batch: FeedBatch) -> None:
        """Ask again for the batches of those that are before ``batch``."""
        for stream, log in self._coming.logs():
            first = self._coming.first(stream, log)
            if first is None or not batch.covers(stream, first):
                continue
            end = batch.head["ends"].get(stream, {}).get(log, END)  # of a log that is not named all was read
            for place, record_id in self._coming.take(stream, log, 0, end):
                self._behind.add(stream, record_id, place)
                self.on_covered(stream, place)

    @property
    def waiting(self) -> int:
        """How many answers no batch has covered yet."""
        return len(self._open)


def _allowed(decision_id: str, stream: str, record_id: str) -> Mapping[str, Any]:
    """The stream's decision where no rule holds, which it does not write."""
    body = {"decision_id": decision_id, "kind": "decision", "revision": 0, "stream": stream, "record_id": record_id}
    return {**body, "decision": "allow", "score": 0, "reasons": []}


def _add(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1
