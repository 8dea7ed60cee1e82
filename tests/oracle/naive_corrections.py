"""The naive twin of hits and corrections of replayed rows: replay by replay, each hit by its name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from crossline.evaluate.alerts.corrections import arrived_after, replayed_rows, trigger_of
from crossline.evaluate.alerts.hit_rows import late_context_hit, window_hits
from crossline.evaluate.alerts.hits import Correction, Hit, emission_order
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.state.batch import Cause, ReplayedRows

_Name = tuple[int, str, int]  # line, id of the record that is hit, clock of the row


def naive_corrections(
    plan: StreamPlan, store_plan: StorePlan, replayed: Sequence[ReplayedRows], logs: int
) -> list[Hit]:
    """The hits and corrections of ``replayed``; ``logs``: how many logs the records that are judged have."""
    found: list[Hit] = []
    for piece in replayed:
        found += _Corrections(plan, store_plan, piece, logs).hits()
    return sorted(found, key=emission_order)


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
            *window_hits(judged, replayed.hits),
            *(late_context_hit(judged, each) for each in replayed.met),
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
                    found.append(replace(hit, cause=by, correction=Correction("amended", cause.record_id, before)))
            elif name in emitted or replayed.emitted_before[i]:
                found.append(replace(hit, cause=by, correction=reinstated))
            elif arrived_after(self._plan, replayed, self._rows[i], cause):
                found.append(hit)
            else:
                found.append(replace(hit, cause=by))
        gone = (hit for name, hit in standing.items() if name not in mine)
        return [
            *found,
            *(replace(hit, cause=trigger, correction=Correction("retracted", cause.record_id, hit)) for hit in gone),
        ]


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
