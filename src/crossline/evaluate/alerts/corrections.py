"""What is told of rows that were judged again: hits that are new, and what became of those that were told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from crossline.evaluate.alerts.hits import Correction, Hit, JudgedRows, Trigger, emission_order
from crossline.ingest.route.plan_inputs import CAUSE
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.state.batch import Cause, Hits, ReplayedRows

_Name = tuple[int, str, int]  # line, id of the record that is hit, clock of the row


def replayed_hits(plan: StreamPlan, store_plan: StorePlan, again: Sequence[ReplayedRows], logs: int) -> list[Hit]:
    """The hits and corrections of ``again``, in the order of the records that brought them about.

    ``logs``: how many logs the records that are judged have.
    """
    told: list[Hit] = []
    for piece in again:
        if len(piece.hits) or piece.met or not piece.begins.all():
            told += _Corrections(plan, store_plan, piece, logs).told()
    return sorted(told, key=emission_order)


@dataclass(frozen=True, slots=True)
class _RowHit:
    """A hit of a line at a row, and its number among those of a piece."""

    row: int
    line: int
    number: int
    hit: Hit


@dataclass(slots=True)
class _ReplayState:
    """Of the key that is looked at: the hits that stand, and the names of all that were told."""

    standing: dict[_Name, Hit] = field(default_factory=dict)
    told: set[_Name] = field(default_factory=set)


class _Corrections:
    """What is told of one piece."""

    def __init__(self, plan: StreamPlan, store_plan: StorePlan, again: ReplayedRows, logs: int) -> None:
        self._again, self._plan, self._logs = again, plan, logs
        self._judged = replayed_rows(plan, store_plan, again, logs)
        self._known = _ReplayState()

    def told(self) -> list[Hit]:
        """The hits that are new, and the corrections."""
        again, found = self._again, list[Hit]()
        rows = again.hits.row.tolist() + [each.row for each in again.met]
        lines = again.hits.line.tolist() + [each.line for each in again.met]
        replays = again.replay[np.array(rows, np.int64)].tolist()
        made = [*self._judged.window_hits(again.hits), *(self._judged.late_context_hit(each) for each in again.met)]
        by_variant: defaultdict[int, list[int]] = defaultdict(list)
        for i, replay in enumerate(replays):
            by_variant[replay].append(i)
        for number, begins in enumerate(again.begins.tolist()):
            # Of several rows that are hits on one record the last has seen most.
            here = [_RowHit(rows[i], lines[i], i, made[i]) for i in by_variant[number]]
            mine = {self._name(each): each for each in here}
            if begins:
                self._known = _ReplayState()
            cause = again.causes[number]
            found += self._begun(mine) if cause is None else self._changed(mine, cause)
            self._known.standing = {name: each.hit for name, each in mine.items()}
            self._known.told |= set(mine)
        return found

    def _name(self, made: _RowHit) -> _Name:
        return made.line, made.hit.record_id, int(self._again.rows.clock_ms[made.row])

    def _begun(self, mine: dict[_Name, _RowHit]) -> list[Hit]:
        """What came in order; the rest stood before."""
        return [each.hit for each in mine.values() if self._again.fresh[each.row]]

    def _changed(self, mine: dict[_Name, _RowHit], cause: Cause) -> list[Hit]:
        """What ``cause`` changed, and what came in order after it."""
        found, brought, standing = list[Hit](), trigger_of(self._plan, cause, self._logs), self._known.standing
        for name, each in mine.items():
            hit = each.hit
            before, by = standing.get(name), None if hit.place[1:] == brought.place[1:] else brought
            if before is not None:
                if said(before) != said(hit):
                    found.append(replace(hit, cause=by, correction=Correction("amended", cause.record_id, before)))
            elif self._again.told[each.number] or name in self._known.told:
                found.append(replace(hit, cause=by, correction=Correction("reinstated", cause.record_id, None)))
            elif arrived_after(self._plan, self._again, each.row, cause):
                found.append(hit)
            else:
                found.append(replace(hit, cause=by))
        gone = (hit for name, hit in standing.items() if name not in mine)
        retracted = (replace(hit, correction=Correction("retracted", cause.record_id, hit)) for hit in gone)
        return [*found, *(replace(hit, cause=brought) for hit in retracted)]


def arrived_after(plan: StreamPlan, again: ReplayedRows, row: int, cause: Cause) -> bool:
    """Whether ``row`` came with this batch, in order, after ``cause``."""
    places = again.rows.arrival
    if places is None or not again.fresh[row]:
        return False
    log, sequence, _ = places.chunks[places.chunk[row]]
    return (int(places.reached_ms[row]), plan.came(log), sequence, int(places.offsets[row])) > cause.order


def with_triggers(
    judged: JudgedRows, hits: Hits, found: Iterable[Hit], causes: Sequence[Cause], logs: int
) -> Iterator[Hit]:
    """The hits ``found`` of ``hits``, which are never corrected, with what brought their rows about: ``causes``."""
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
    # It may be of another stream than the record that is hit: the order is that in which causes came, and what was
    # told of that record when it came at the same time was told before.
    return Trigger(place, cause, (cause.reached_ms + 0.5, came, log, sequence, cause.offset, partition))


def replayed_rows(plan: StreamPlan, store_plan: StorePlan, again: ReplayedRows, logs: int) -> JudgedRows:
    """The rows as what hits are read from."""
    places, batch = again.rows.arrival, again.rows
    if places is None:
        raise ValueError("rows that are judged again have places")
    rows: dict[str, Any] = {
        "chunk": places.chunk,
        "offsets": places.offsets,
        "reached": places.reached_ms,
        "place_ms": batch.ingest_ms if logs > 1 else np.zeros_like(batch.ingest_ms),
    }
    return JudgedRows(plan, store_plan, batch, rows, places.chunks)


def said(hit: Hit) -> tuple[Any, ...]:
    """What an alert says of a hit besides what it is about."""
    found = (hit.value, hit.count, hit.window_start_ms, hit.window_end_ms, tuple(hit.record_ids), hit.fields)
    return (*found, hit.records, hit.figures, hit.shows, None if hit.rests_on is None else tuple(hit.rests_on))
