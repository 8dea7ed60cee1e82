"""Hits and corrections of replayed rows: new hits, and changes of hits that were emitted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from crossline.basics.values import I64
from crossline.evaluate.alerts.hit_rows import hit_rows, late_context_hit
from crossline.evaluate.alerts.hits import Hit, JudgedRows, Trigger, emission_order, quick_correction
from crossline.ingest.route.plan_inputs import CAUSE
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.state.batch import Bools, Cause, Hits, ReplayedRows

_NONE, _PLAIN, _AMENDED, _REINSTATED, _CAUSED, _RETRACTED = range(6)  # what a hit is told as
_RECORD_ID = [each.name for each in fields(Hit)].index("record_id")


def replayed_hits(plan: StreamPlan, store_plan: StorePlan, replayed: Sequence[ReplayedRows], logs: int) -> list[Hit]:
    """The hits and corrections of ``replayed``, in the order of their triggers.

    ``logs``: how many logs the records that are judged have.
    """
    corrections: list[Hit] = []
    for piece in replayed:
        if len(piece.hits) or piece.met:
            corrections += _Corrections(plan, store_plan, piece, logs).hits()
    return sorted(corrections, key=emission_order)


@dataclass(frozen=True, slots=True)
class _Standing:
    """n hits as they stand in replays, by replay and by what each is: of several rows that are one, the last.

    ``at``: the number of its hit. ``place``: what puts it among those of its replay. ``name``: what it is, by number:
    line, id of the record that is hit, clock of the row.
    """

    replay: I64
    name: I64
    at: I64
    place: I64

    @classmethod
    def of(cls, replay: I64, name: I64) -> Self:
        """Those of hits that are in these replays and have these names."""
        order = np.lexsort((name, replay))  # of one name in the order in which they came
        other = np.diff(replay[order], prepend=-1, append=-1) != 0
        other |= np.diff(name[order], prepend=-1, append=-1) != 0
        first, last = order[other[:-1]], order[other[1:]]
        # Of several rows that are hits on one record the last has seen most.
        return cls(replay[first], name[first], last, first)

    def beside(self, by: int) -> I64:
        """Of each the number of the one with its name in the replay that is ``by`` further; -1: there is none."""
        if not len(self.replay):
            return self.at
        code = self.replay * (self.name.max() + 1) + self.name
        wanted = (self.replay + by) * (self.name.max() + 1) + self.name
        near = np.minimum(np.searchsorted(code, wanted), len(code) - 1)
        found: I64 = np.where(code[near] == wanted, near, -1)
        return found

    def stood_earlier(self, group: I64) -> Bools:
        """Which stand in an earlier replay of their group, too."""
        order = np.lexsort((self.replay, self.name))
        name, of = self.name[order], group[self.replay[order]]
        known = np.zeros(len(order), np.bool_)
        known[order[1:]] = (name[1:] == name[:-1]) & (of[1:] == of[:-1])
        return known


class _Corrections:
    """The hits and corrections of one piece."""

    def __init__(self, plan: StreamPlan, store_plan: StorePlan, replayed: ReplayedRows, logs: int) -> None:
        self._replayed, self._plan, self._logs = replayed, plan, logs
        self._judged = replayed_rows(plan, store_plan, replayed, logs)
        self._made = hit_rows(self._judged, replayed.hits)
        self._made.extend([late_context_hit(self._judged, each) for each in replayed.met])
        self._rows = np.append(replayed.hits.row, [each.row for each in replayed.met]).astype(np.int64)
        self._caused = np.array([cause is not None for cause in replayed.causes], np.bool_)

    def hits(self) -> Iterator[Hit]:
        """The hits that are new, and the corrections: replay by replay, first what stands there, then what is gone."""
        replayed = self._replayed
        standing = _Standing.of(replayed.replay[self._rows].astype(np.int64), self._names())
        follows = np.append(self._caused & ~replayed.begins, False)
        before = np.where(follows[standing.replay], standing.beside(-1), -1)
        gone = np.flatnonzero(follows[standing.replay + 1] & (standing.beside(1) < 0))
        came, outcome = self._outcomes(standing, before)
        at, of = np.append(came, gone), np.append(standing.replay[came], standing.replay[gone] + 1)
        outcome = np.append(outcome, np.full(len(gone), _RETRACTED))
        order = np.lexsort((standing.place[at], outcome == _RETRACTED, of))
        at, of, outcome = at[order], of[order], outcome[order]
        was = self._made.of[standing.at[before[at]]]
        own = is_own(self._judged, replayed, self._rows[standing.at[at]], of)
        numbers = (self._made.of[standing.at[at]], of, outcome, was, own)
        return self._objects(*(each.tolist() for each in numbers))

    def _names(self) -> I64:
        """Of each hit what it is, by number."""
        lines = np.append(self._replayed.hits.line, [each.line for each in self._replayed.met]).tolist()
        ids = [row[_RECORD_ID] for row in self._made.rows]
        clocks_ms = self._replayed.rows.clock_ms[self._rows].tolist()
        names: dict[tuple[int, str, int], int] = {}
        of = zip(lines, self._made.of.tolist(), clocks_ms, strict=True)
        return np.array([names.setdefault((line, ids[at], ms), len(names)) for line, at, ms in of], np.int64)

    def _outcomes(self, standing: _Standing, before: I64) -> tuple[I64, I64]:
        """Which of those that stand are told, and as what: those that are new, or other than the one ``before``.

        A replay without a cause follows nothing: what came with it in order is new, and the rest stood before.
        """
        replayed, made = self._replayed, self._made
        rows, caused = self._rows[standing.at], self._caused[standing.replay]
        outcome = np.where(~caused & replayed.fresh[rows], _PLAIN, _NONE)
        known = before >= 0
        one, other = made.of[standing.at[before]], made.of[standing.at]
        counts = np.append(replayed.hits.count, np.ones(len(replayed.met), np.int64))
        others = known & (counts[standing.at[before]] != counts[standing.at])
        alike = np.flatnonzero(known & (one != other) & ~others)
        pairs = zip(one[alike].tolist(), other[alike].tolist(), strict=True)
        others[alike] = [not made.same_alert(*pair) for pair in pairs]
        outcome[others] = _AMENDED
        anew = caused & ~known
        emitted = standing.stood_earlier(np.cumsum(replayed.begins)) | replayed.emitted_before[standing.at]
        outcome[anew] = np.where(emitted[anew], _REINSTATED, _CAUSED)
        new = np.flatnonzero(anew & ~emitted)
        outcome[new[have_arrived_after(self._judged, replayed, rows[new], standing.replay[new])]] = _PLAIN
        told = np.flatnonzero(outcome != _NONE)
        return told, outcome[told]

    def _objects(
        self, at: list[int], of: list[int], outcomes: list[int], was: list[int], own: list[bool]
    ) -> Iterator[Hit]:
        """What is told, as objects; ``own``: the record of the hit is the trigger itself."""
        made, causes = self._made, self._replayed.causes
        triggers = {number: trigger_of(self._plan, cause, self._logs) for number, cause in enumerate(causes) if cause}
        for number, replay, outcome, former, is_own_ in zip(at, of, outcomes, was, own, strict=True):
            cause = causes[replay]
            if outcome == _PLAIN or cause is None:
                yield made.hit(number)
                continue
            trigger = None if is_own_ and outcome != _RETRACTED else triggers[replay]
            correction = None
            if outcome == _AMENDED:
                correction = quick_correction("amended", cause.record_id, made.hit(former))
            elif outcome == _REINSTATED:
                correction = quick_correction("reinstated", cause.record_id, None)
            elif outcome == _RETRACTED:
                correction = quick_correction("retracted", cause.record_id, made.hit(number))
            yield made.corrected(number, trigger, correction)


def arrived_after(plan: StreamPlan, replayed: ReplayedRows, row: int, cause: Cause) -> bool:
    """Whether ``row`` came with this batch, in order, after ``cause``."""
    places = replayed.rows.arrival
    if places is None or not replayed.fresh[row]:
        return False
    log, sequence, _ = places.chunks[places.chunk[row]]
    return (int(places.reached_ms[row]), plan.came(log), sequence, int(places.offsets[row])) > cause.order


def have_arrived_after(judged: JudgedRows, replayed: ReplayedRows, rows: I64, of: I64) -> Bools:
    """Whether each of ``rows`` came with this batch, in order, after what caused replay ``of``."""
    causes = [cause for cause in replayed.causes if cause is not None]
    reached = np.array([0 if cause is None else cause.reached_ms for cause in replayed.causes], np.int64)[of]
    reached_ms = judged.rows["reached"][rows]
    after: Bools = replayed.fresh[rows] & (reached_ms > reached)
    ties = np.flatnonzero(replayed.fresh[rows] & (reached_ms == reached)) if causes else ()
    for at in ties:
        cause = replayed.causes[of[at]]
        after[at] = cause is not None and arrived_after(judged.plan, replayed, int(rows[at]), cause)
    return after


def is_own(judged: JudgedRows, replayed: ReplayedRows, rows: I64, of: I64) -> Bools:
    """Whether each of ``rows`` is that of the record which caused replay ``of``."""
    offsets = np.array([-1 if cause is None else cause.offset for cause in replayed.causes], np.int64)[of]
    own: Bools = judged.rows["offsets"][rows] == offsets
    for at in np.flatnonzero(own):
        cause = replayed.causes[of[at]]
        own[at] = cause is not None and judged.place(int(rows[at]))[1:] == _place_of(judged, cause)
    return own


def _place_of(judged: JudgedRows, cause: Cause) -> tuple[str, str, int, int, str]:
    """Where the record of ``cause`` stands, as ``trigger_of`` has it, but for its time."""
    came, sequence, partition = cause.chunk
    return *judged.plan.from_came(came), sequence, cause.offset, partition


def with_triggers(
    judged: JudgedRows, hits: Hits, found: Iterable[Hit], causes: Sequence[Cause], logs: int
) -> Iterator[Hit]:
    """The hits ``found`` of ``hits``, which are never corrected, with the triggers of their rows: ``causes``."""
    by = [trigger_of(judged.plan, cause, logs) for cause in causes]
    for row, hit in zip(hits.row.tolist(), found, strict=True):
        number = int(judged.rows[CAUSE][row])
        other = number >= 0 and by[number].place[1:] != hit.place[1:]
        yield replace(hit, cause=by[number]) if other else hit


def trigger_of(plan: StreamPlan, cause: Cause, logs: int) -> Trigger:
    """``cause`` with its place; ``logs``: how many logs the records that are judged have."""
    came, sequence, partition = cause.chunk
    stream, log = plan.from_came(came)
    place = cause.ingest_ms if logs > 1 else 0, stream, log, sequence, cause.offset, partition
    if not plan.mixed:
        return Trigger(place, cause, place)
    # The trigger may be of another stream than the hit's record: triggers are in the order of arrival, and the hits
    # of that record itself at the same time come first.
    return Trigger(place, cause, (cause.reached_ms + 0.5, came, log, sequence, cause.offset, partition))


def replayed_rows(plan: StreamPlan, store_plan: StorePlan, replayed: ReplayedRows, logs: int) -> JudgedRows:
    """The rows as what hits are read from."""
    places, batch = replayed.rows.arrival, replayed.rows
    if places is None:
        raise ValueError("found replayed rows without places")
    rows: dict[str, Any] = {
        "chunk": places.chunk,
        "offsets": places.offsets,
        "reached": places.reached_ms,
        "place_ms": batch.ingest_ms if logs > 1 else np.zeros_like(batch.ingest_ms),
    }
    return JudgedRows(plan, store_plan, batch, rows, places.chunks)
