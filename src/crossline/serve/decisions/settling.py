"""What was answered, held to what the stream decides: where these differ, the answer is revised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from crossline.connectors.feed.files import FeedBatch
from crossline.serve.decisions.replies import Answer
from crossline.serve.decisions.values import Place

COPIES = frozenset({"duplicate_id", "late"})  # why a stream refuses a record whose id came before
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
class Counts:
    """How many answers were compared with what the stream decided, and how many differed, by how they were answered."""

    compared: dict[str, int] = field(default_factory=dict)
    differed: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Open:
    decision_id: str
    answered: str
    decision: str
    place: Place | None
    behind: bool = False  # its batch was before those that come now, and is asked for again


@dataclass(slots=True)
class Settling:
    """Answers that no batch has covered yet, by stream and record.

    ``on_covered``: told of one whose batch came before its answer, with stream and place: give that batch again.
    ``on_copy``: told of one that its stream refused, perhaps since the id came before: what the first one was decided
    counts, and is given to ``first``.
    """

    counts: Counts = field(default_factory=Counts)
    on_covered: Callable[[str, Place], None] = lambda _, __: None
    on_copy: Callable[[Expected], None] = lambda _: None
    _last: FeedBatch | None = None
    _open: dict[tuple[str, str], _Open] = field(default_factory=dict)

    def answered(self, answer: Answer, place: Place | None) -> None:
        """``answer`` was sent; its record stands at ``place``, None where its stream has yet to take it."""
        if answer.answered == "exact":
            return
        said, asked = answer.decision, answer.asked
        self.expect(asked.stream, asked.record_id, said["decision_id"], answer.answered, said["decision"], place)

    def expect(
        self, stream: str, record_id: str, decision_id: str, answered: str, decision: str, place: Place | None
    ) -> None:
        """As ``answered``, of one that was answered before a restart."""
        if len(self._open) >= OPEN_MAX:
            del self._open[next(iter(self._open))]
        self._open[stream, record_id] = _Open(decision_id, answered, decision, place)
        if self._last is not None:
            self._look((stream, record_id), self._last)

    def _look(self, which: tuple[str, str], batch: FeedBatch) -> None:
        """Ask again for its own batch, where that was before ``batch``, or is it."""
        known = self._open[which]
        if known.place is not None and not known.behind and batch.covers(which[0], known.place):
            self._open[which] = replace(known, behind=True)
            self.on_covered(which[0], known.place)

    def forget(self, stream: str, place: Place) -> None:
        """What its batch gave is not kept any more: it is not compared."""
        for which in [w for w, each in self._open.items() if w[0] == stream and each.place == place]:
            del self._open[which]

    def placed(self, stream: str, record_id: str, place: Place) -> None:
        """Its stream has taken it."""
        known = self._open.get((stream, record_id))
        if known is not None:
            self._open[stream, record_id] = replace(known, place=place)
            if self._last is not None:
                self._look((stream, record_id), self._last)

    def batch(self, batch: FeedBatch) -> list[Revised]:
        """A batch was delivered: the answers that it shows to be others than the stream's decisions."""
        if self._last is None or batch.number > self._last.number or batch.anew:
            self._last = batch
        if not self._open:
            return []
        said = {
            (each["stream"], each["record_id"]): each
            for each in map(orjson.loads, batch.section("decisions"))
            if each["kind"] == "decision"
        }
        covered = [
            (which, each)
            for which, each in self._open.items()
            if which in said or (each.place is not None and batch.has(which[0], each.place))
        ]
        undecided = {
            (each["stream"], each["log"], each["at"]): each.get("reason")
            for name in ("dead", "late")
            for each in map(orjson.loads, batch.section(name))
        }
        found = []
        for which, each in covered:
            del self._open[which]
            at = None if each.place is None else (which[0], each.place.log, each.place.at)
            if which not in said and at in undecided:  # the stream decides nothing about it
                if undecided[at] in COPIES:
                    self.on_copy(Expected(each.decision_id, *which, each.answered, each.decision))
                continue
            decided = said.get(which) or _allowed(each.decision_id, *which)
            known = Expected(each.decision_id, *which, each.answered, each.decision)
            found += self.first(known, decided, batch.number)
        for which in list(self._open):
            self._look(which, batch)
        return found

    def first(self, known: Expected, decided: Mapping[str, Any], batch: int) -> list[Revised]:
        """What an answer is held to; revised where it differs."""
        _add(self.counts.compared, known.answered)
        if decided["decision"] == known.decision:
            return []
        _add(self.counts.differed, known.answered)
        which = (known.decision_id, known.stream, known.record_id)
        return [Revised(*which, known.answered, known.decision, decided, batch)]

    @property
    def waiting(self) -> int:
        """How many answers no batch has covered yet."""
        return len(self._open)


def _allowed(decision_id: str, stream: str, record_id: str) -> Mapping[str, Any]:
    """The stream's decision where no rule holds, which it does not write."""
    said = {"decision_id": decision_id, "kind": "decision", "revision": 0, "stream": stream, "record_id": record_id}
    return {**said, "decision": "allow", "score": 0, "reasons": []}


def _add(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1
