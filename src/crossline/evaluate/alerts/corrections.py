"""Hits and corrections of replayed rows: new hits, and changes of hits that were emitted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

import numpy as np

from crossline.evaluate.alerts.hits import Correction, Hit, JudgedRows, Trigger, emission_order
from crossline.ingest.route.plan_inputs import CAUSE
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.state.batch import Cause, Hits, ReplayedRows

_Name = tuple[int, str, int]  # line, id of the record that is hit, clock of the row


def replayed_hits(plan: StreamPlan, store_plan: StorePlan, replayed: Sequence[ReplayedRows], logs: int) -> list[Hit]:
    """The hits and corrections of ``replayed``, in the order of their triggers.

    ``logs``: how many logs the records that are judged have.
    """
    corrections: list[Hit] = []
    for piece in replayed:
        if len(piece.hits) or piece.met or not piece.begins.all():
            corrections += _Corrections(plan, store_plan, piece, logs).hits()
    return sorted(corrections, key=emission_order)


@dataclass(frozen=True, slots=True)
class _RowHit:
    """A hit of a line at a row, and its number among those of a piece."""

    row: int
    line: int
    number: int
    hit: Hit


@dataclass(slots=True)
class _ReplayState:
    """Of the current key: the hits of the last replay, and the names of all that were emitted."""

    standing: dict[_Name, Hit] = field(default_factory=dict)
    emitted: set[_Name] = field(default_factory=set)


class _Corrections:
    """The hits and corrections of one piece."""

    def __init__(self, plan: StreamPlan, store_plan: StorePlan, replayed: ReplayedRows, logs: int) -> None:
        self._replayed, self._plan, self._logs = replayed, plan, logs
        self._judged = replayed_rows(plan, store_plan, replayed, logs)
        self._known = _ReplayState()

    def hits(self) -> list[Hit]:
        """The hits that are new, and the corrections."""
        replayed, found = self._replayed, list[Hit]()
        rows = replayed.hits.row.tolist() + [each.row for each in replayed.met]
        lines = replayed.hits.line.tolist() + [each.line for each in replayed.met]
        replays = replayed.replay[np.array(rows, np.int64)].tolist()
        made = [
            *self._judged.window_hits(replayed.hits),
            *(self._judged.late_context_hit(each) for each in replayed.met),
        ]
        by_variant: defaultdict[int, list[int]] = defaultdict(list)
        for i, replay in enumerate(replays):
            by_variant[replay].append(i)
        for number, begins in enumerate(replayed.begins.tolist()):
            # Of several rows that are hits on one record the last has seen most.
            here = [_RowHit(rows[i], lines[i], i, made[i]) for i in by_variant[number]]
            mine = {self._name(each): each for each in here}
            if begins:
                self._known = _ReplayState()
            cause = replayed.causes[number]
            found += self._begun(mine) if cause is None else self._changed(mine, cause)
            self._known.standing = {name: each.hit for name, each in mine.items()}
            self._known.emitted |= set(mine)
        return found

    def _name(self, made: _RowHit) -> _Name:
        return made.line, made.hit.record_id, int(self._replayed.rows.clock_ms[made.row])

    def _begun(self, mine: dict[_Name, _RowHit]) -> list[Hit]:
        """What came in order; the rest stood before."""
        return [each.hit for each in mine.values() if self._replayed.fresh[each.row]]

    def _changed(self, mine: dict[_Name, _RowHit], cause: Cause) -> list[Hit]:
        """What ``cause`` changed, and what came in order after it."""
        found, trigger, standing = list[Hit](), trigger_of(self._plan, cause, self._logs), self._known.standing
        for name, each in mine.items():
            hit = each.hit
            before, by = standing.get(name), None if hit.place[1:] == trigger.place[1:] else trigger
            if before is not None:
                if alert_content(before) != alert_content(hit):
                    found.append(corrected(hit, by, Correction("amended", cause.record_id, before)))
            elif self._replayed.emitted_before[each.number] or name in self._known.emitted:
                found.append(corrected(hit, by, Correction("reinstated", cause.record_id, None)))
            elif arrived_after(self._plan, self._replayed, each.row, cause):
                found.append(hit)
            else:
                found.append(corrected(hit, by, None))
        gone = (hit for name, hit in standing.items() if name not in mine)
        return [*found, *(corrected(hit, trigger, Correction("retracted", cause.record_id, hit)) for hit in gone)]


_FIELDS = tuple(each.name for each in fields(Hit) if each.name not in {"cause", "correction"})
_READ, _PUT = attrgetter(*_FIELDS), [getattr(Hit, name).__set__ for name in _FIELDS]
_PUT_OTHERS = [getattr(Hit, name).__set__ for name in ("cause", "correction")]


def corrected(hit: Hit, cause: Trigger | None, correction: Correction | None) -> Hit:
    """``hit`` with another cause and correction: as ``replace`` makes it, in a quarter of the time."""
    made = object.__new__(Hit)
    for put, value in zip(_PUT, _READ(hit), strict=True):
        put(made, value)
    for put, other in zip(_PUT_OTHERS, (cause, correction), strict=True):
        put(made, other)
    return made


def arrived_after(plan: StreamPlan, replayed: ReplayedRows, row: int, cause: Cause) -> bool:
    """Whether ``row`` came with this batch, in order, after ``cause``."""
    places = replayed.rows.arrival
    if places is None or not replayed.fresh[row]:
        return False
    log, sequence, _ = places.chunks[places.chunk[row]]
    return (int(places.reached_ms[row]), plan.came(log), sequence, int(places.offsets[row])) > cause.order


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


def alert_content(hit: Hit) -> tuple[Any, ...]:
    """The content of an alert, without its identity."""
    found = (hit.value, hit.count, hit.window_start_ms, hit.window_end_ms, tuple(hit.record_ids), hit.fields)
    return (*found, hit.records, hit.figures, hit.shows, None if hit.rests_on is None else tuple(hit.rests_on))
