"""Hits and corrections of replayed rows: new hits, and changes of hits that were emitted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

import numpy as np

from crossline.evaluate.alerts.hits import Correction, Hit, JudgedRows, Trigger, emission_order, quick_hit
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


@dataclass(slots=True)
class _ReplayState:
    """Of the current key: the hits of the last replay, and the names of all that were emitted."""

    standing: dict[_Name, Hit] = field(default_factory=dict)
    emitted: set[_Name] = field(default_factory=set)


class _Corrections:
    """The hits and corrections of one piece."""

    def __init__(self, plan: StreamPlan, store_plan: StorePlan, replayed: ReplayedRows, logs: int) -> None:
        self._replayed, self._plan, self._logs = replayed, plan, logs
        judged = replayed_rows(plan, store_plan, replayed, logs)
        self._made = [
            *judged.window_hits(replayed.hits),
            *(judged.late_context_hit(each) for each in replayed.met),
        ]
        self._rows = replayed.hits.row.tolist() + [each.row for each in replayed.met]
        self._known = _ReplayState()

    def hits(self) -> list[Hit]:
        """The hits that are new, and the corrections."""
        replayed, found, known = self._replayed, list[Hit](), self._known
        rows = np.array(self._rows, np.int64)
        lines = replayed.hits.line.tolist() + [each.line for each in replayed.met]
        clocks_ms, replays = replayed.rows.clock_ms[rows].tolist(), replayed.replay[rows].tolist()
        by_variant: defaultdict[int, dict[_Name, int]] = defaultdict(dict)
        # Of several rows that are hits on one record the last has seen most.
        for i, (replay, line, hit, clock_ms) in enumerate(zip(replays, lines, self._made, clocks_ms, strict=True)):
            by_variant[replay][line, hit.record_id, clock_ms] = i
        for number, begins in enumerate(replayed.begins.tolist()):
            mine = by_variant.get(number, {})
            if begins:
                known = self._known = _ReplayState()
            cause = replayed.causes[number]
            found += self._begun(mine) if cause is None else self._changed(mine, cause)
            known.standing = {name: self._made[i] for name, i in mine.items()}
            known.emitted.update(mine)
        return found

    def _begun(self, mine: Mapping[_Name, int]) -> list[Hit]:
        """What came in order; the rest stood before."""
        return [self._made[i] for i in mine.values() if self._replayed.fresh[self._rows[i]]]

    def _changed(self, mine: Mapping[_Name, int], cause: Cause) -> list[Hit]:
        """What ``cause`` changed, and what came in order after it."""
        found, trigger, standing = list[Hit](), trigger_of(self._plan, cause, self._logs), self._known.standing
        place, emitted, replayed = trigger.place[1:], self._known.emitted, self._replayed
        reinstated = Correction("reinstated", cause.record_id, None)
        for name, i in mine.items():
            hit = self._made[i]
            before, by = standing.get(name), None if hit.place[1:] == place else trigger
            if before is not None:
                if not same_alert(before, hit):
                    found.append(corrected(hit, by, Correction("amended", cause.record_id, before)))
            elif name in emitted or replayed.emitted_before[i]:
                found.append(corrected(hit, by, reinstated))
            elif arrived_after(self._plan, replayed, self._rows[i], cause):
                found.append(hit)
            else:
                found.append(corrected(hit, by, None))
        gone = (hit for name, hit in standing.items() if name not in mine)
        return [*found, *(corrected(hit, trigger, Correction("retracted", cause.record_id, hit)) for hit in gone)]


_READ = attrgetter(*(each.name for each in fields(Hit) if each.name not in {"cause", "correction"}))


def corrected(hit: Hit, cause: Trigger | None, correction: Correction | None) -> Hit:
    """``hit`` with another cause and correction, its last two fields: as ``replace`` makes it, many times as fast."""
    return quick_hit(*_READ(hit), cause, correction)


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


def same_alert(one: Hit, other: Hit) -> bool:
    """Whether the alerts of two hits have the same content, whatever their identities are."""
    return one is other or (
        one.count == other.count
        and one.value == other.value
        and one.window_start_ms == other.window_start_ms
        and one.window_end_ms == other.window_end_ms
        and one.record_ids == other.record_ids
        and one.rests_on == other.rests_on
        and one.fields == other.fields
        and one.records == other.records
        and one.figures == other.figures
        and one.shows == other.shows
    )
