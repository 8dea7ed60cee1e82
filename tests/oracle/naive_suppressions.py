"""The naive twin of what late records change of where rules hold and raise no alert: row by row, replay by replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from crossline.basics.fields import canonical_key
from crossline.basics.values import I64
from crossline.evaluate.alerts.alert import alert_id, alert_id_of, correction_id
from crossline.evaluate.alerts.corrections import arrived_after, replayed_rows, trigger_of
from crossline.evaluate.alerts.hits import Hit, JudgedRows, Trigger
from crossline.evaluate.alerts.origins import record_and_alert_of
from crossline.evaluate.suppression.change_columns import SuppressionChange
from crossline.evaluate.suppression.last_alerts import Pairs
from crossline.evaluate.suppression.rows import delivered, satisfied_pairs
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.rules.policy.hits import DecidingHit
from crossline.rules.ruleset import RuleVersion
from crossline.state.batch import Cause, ReplayedRows

_Name = tuple[int, str, int]  # line, id of the record, clock of the row
_Held = dict[_Name, tuple[int, str | None]]  # the row, and the alert of the crossing


def naive_suppressions(
    plan: StreamPlan, store_plan: StorePlan, replayed: Sequence[ReplayedRows], logs: int
) -> Iterator[SuppressionChange]:
    """The changes by replayed rows; ``logs``: the number of logs of the judged records."""
    for piece in replayed:
        if piece.hits.sat.any() or not piece.begins.all():
            yield from _Holding(plan, store_plan, piece, logs).changes()


class _Holding:
    """Where the rules of a state store hold in one piece."""

    def __init__(self, plan: StreamPlan, store_plan: StorePlan, replayed: ReplayedRows, logs: int) -> None:
        self._plan, self._store_plan, self._replayed, self._logs = plan, store_plan, replayed, logs
        self._judged: JudgedRows = replayed_rows(plan, store_plan, replayed, logs)
        programs = [plan.programs[line.rule_id, line.version] for line in store_plan.plan.judging]
        self._delivered = delivered(plan, store_plan)
        self._reach_ms = np.array([program.reach_ms for program in programs], np.int64)

    def changes(self) -> Iterator[SuppressionChange]:
        """In the order of variants."""
        replayed, before = self._replayed, _Held()
        for number, mine in enumerate(self._by_variant()):
            cause = replayed.causes[number]
            if replayed.begins[number]:
                before = {}
            if cause is None:
                yield from (self._came(name, row, by) for name, (row, by) in mine.items() if replayed.fresh[row])
            else:
                yield from self._changed(before, mine, cause)
            before = mine

    def _by_variant(self) -> list[_Held]:
        """Of each variant where rules hold and raise no alert."""
        replayed, hits = self._replayed, self._replayed.hits
        found: list[_Held] = [{} for _ in replayed.causes]
        held = satisfied_pairs(hits)
        held = held.only(self._delivered[held.line]) if len(held) else held
        if not len(held):
            return found
        at = np.flatnonzero(self._delivered[hits.line])
        at = at[np.lexsort((hits.line[at], hits.row[at]))]
        emitted = Pairs(hits.row[at].astype(np.int64), hits.line[at].astype(np.int64))
        standing = np.ones(len(held), np.bool_)
        standing[held.places_of(emitted)] = False
        held = held.only(standing)
        crossed, crossed_ms = self._crossings(held, emitted)
        clock_ms = replayed.rows.clock_ms
        known = crossed_ms >= clock_ms[held.row] - self._reach_ms[held.line]
        for place in range(len(held)):
            row, line = int(held.row[place]), int(held.line[place])
            version = self._version(line, row)
            if version is None:
                continue
            by = self._alert(line, row, int(crossed[place]), emitted) if known[place] else None
            name = line, self._judged.record_id(row), int(clock_ms[row])
            found[int(replayed.replay[row])][name] = row, by  # of several rows that are hits on one record the last
        return found

    def _crossings(self, held: Pairs, emitted: Pairs) -> tuple[I64, I64]:
        """Of each the last hit up to it: its number among ``emitted``, or -2 less its number among earlier ones."""
        replayed, earlier = self._replayed, self._replayed.earlier
        found, at_ms = np.full(len(held), -1, np.int64), np.full(len(held), np.iinfo(np.int64).min)
        for nth, (row, line) in enumerate(zip(held.row.tolist(), held.line.tolist(), strict=True)):
            replay = int(replayed.replay[row])
            for number in range(0 if earlier is None else len(earlier.row)):
                if earlier is not None and (int(earlier.replay[number]), int(earlier.line[number])) == (replay, line):
                    found[nth], at_ms[nth] = -2 - number, earlier.clock_ms[number]
            at = -1
            for number, (hit, of) in enumerate(zip(emitted.row.tolist(), emitted.line.tolist(), strict=True)):
                if of == line and int(replayed.replay[hit]) == replay and at < hit <= row:
                    at, found[nth], at_ms[nth] = hit, number, replayed.rows.clock_ms[hit]
        return found, at_ms

    def _alert(self, line: int, row: int, crossed: int, emitted: Pairs) -> str | None:
        """The alert of the crossing of ``line`` under the key of ``row``."""
        if crossed == -1:
            return None
        earlier = self._replayed.earlier
        if crossed >= 0:
            record_id = self._judged.record_id(int(emitted.row[crossed]))
        elif earlier is not None:
            known = earlier.id_of(int(earlier.row[-2 - crossed]))
            record_id = known if self._plan.reports else record_and_alert_of(self._plan, known)[0]
        of = self._store_plan.plan.judging[line]
        return alert_id(of.rule_id, of.version, canonical_key(self._judged.key_of(row)), record_id)

    def _version(self, line: int, row: int) -> RuleVersion | None:
        """The version in force at a row; None where that is a shadow rule's."""
        ingest_ms = int(self._replayed.rows.ingest_ms[row])
        spans = self._store_plan.versions[line]
        of = next((each for each in spans if each.effective_from_ms <= ingest_ms < each.effective_until_ms), None)
        if of is None:
            return None
        mine = of if of.slots is None else of.of_key(self._judged.key_of(row))
        return mine if mine.kind == "active" else None

    def _came(self, name: _Name, row: int, by: str | None) -> SuppressionChange:
        """That a line holds at a row."""
        version = self._version(name[0], row)
        if version is None:
            raise ValueError(f"no rule is in force at row {row}")
        return change_of(self._judged, row, version, by)

    def _changed(self, before: _Held, mine: _Held, cause: Cause) -> Iterator[SuppressionChange]:
        """What ``cause`` changed, and what came in order after it."""
        trigger = trigger_of(self._plan, cause, self._logs)
        for name, (row, by) in mine.items():
            known, came = before.get(name), self._came(name, row, by)
            if known is not None and known[1] == by:
                continue
            plainly = known is None and arrived_after(self._plan, self._replayed, row, cause)
            yield came if plainly else caused_by(came, trigger)
        for name in before.keys() - mine.keys():
            row, by = before[name]
            yield replace(caused_by(self._came(name, row, by), trigger), stands=False)


def change_of(judged: JudgedRows, row: int, version: RuleVersion, by: str | None) -> SuppressionChange:
    """That a rule holds at a row, by the alert of its crossing."""
    ingest_ms = int(judged.batch.ingest_ms[row])
    hit = Hit(
        version=version,
        place=judged.place(row),
        key=judged.key_of(row),
        record_id=judged.record_id(row),
        event_ms=judged.event_ms(row),
        ingest_ms=ingest_ms,
        value=None,
        count=0,
        window_start_ms=None,
        window_end_ms=None,
        record_ids=(),
        fields={},
        records=None,
        reached_ms=judged.reached_ms(row),
    )
    under = int(judged.batch.key_hash[judged.batch.key_index[row]])
    return SuppressionChange(hit, DecidingHit.standing_of(version.rule).standing_on(by, under))


def caused_by(change: SuppressionChange, trigger: Trigger) -> SuppressionChange:
    """The change with its trigger; without one where the trigger is the record itself.

    What it is because of is the alert that it goes by, as far as this record changed it: the id of that correction.
    """
    hit = change.hit
    if hit.place[1:] == trigger.place[1:]:
        return change
    because = correction_id(change.reason.alert_id or alert_id_of(hit), trigger.cause.record_id)
    return replace(change, hit=replace(hit, cause=trigger), because=because)
