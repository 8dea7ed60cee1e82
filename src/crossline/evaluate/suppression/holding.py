"""Where the rules of a state store hold in replayed rows and raise no alert, and the crossing that each goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crossline.basics.values import I32, I64
from crossline.evaluate.alerts.hits import JudgedRows
from crossline.evaluate.alerts.origins import record_and_alert_of
from crossline.evaluate.suppression.last_alerts import Pairs
from crossline.evaluate.suppression.rows import delivered, satisfied_pairs, versions_in_force
from crossline.rules.ruleset import RuleVersion
from crossline.state.batch import Bools, ReplayedRows

_NONE_MS = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Holding:
    """n rows of replays at which a line holds and raises no alert, by replay.

    ``name``: the number, below ``names``, of line, record and clock of the row: the same in all replays. ``record`` and
    ``crossing``: numbers among ``texts`` of the id of its record and of that of the crossing, -1: none is known.
    """

    row: I64
    line: I64
    version: I32
    versions: Sequence[RuleVersion]
    name: I64
    names: int
    record: I64
    crossing: I64
    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.row)

    def only(self, at: I64) -> Holding:
        """Those numbered ``at``."""
        parts = (self.row[at], self.line[at], self.version[at], self.versions, self.name[at], self.names)
        return Holding(*parts, self.record[at], self.crossing[at], self.texts)


def held_at(judged: JudgedRows, replayed: ReplayedRows) -> Holding:
    """Where rules hold in ``replayed``, which are the rows ``judged``; one of each replay and name."""
    plan, hits, records = judged.plan, replayed.hits, _RecordIds(judged, replayed)
    counted = delivered(plan, judged.store_plan)
    held = satisfied_pairs(hits)
    held = held.only(counted[held.line])
    at = np.flatnonzero(counted[hits.line])
    at = at[np.lexsort((hits.line[at], hits.row[at]))]
    emitted = Pairs(hits.row[at].astype(np.int64), hits.line[at].astype(np.int64))
    standing = np.ones(len(held), np.bool_)
    standing[held.places_of(emitted)] = False
    held = held.only(standing)
    version, versions = versions_in_force(judged, held)
    held, version = held.only(version >= 0), version[version >= 0]
    lines, record = np.int64(len(counted)), records.at(held.row)
    name, last = _names(replayed, held, record * lines + held.line)
    crossing = _crossings(judged, replayed, held.only(last), emitted, records)
    row, line = held.row[last], held.line[last]
    names = int(name.max()) + 1 if len(name) else 0
    return Holding(row, line, version[last], versions, name[last], names, record[last], crossing, records.texts)


def _names(replayed: ReplayedRows, held: Pairs, record_and_line: I64) -> tuple[I64, I64]:
    """The number of each name; of several rows of a replay that have one (they are hits on one record) the last."""
    clock_ms = replayed.rows.clock_ms[held.row]
    order = np.lexsort((clock_ms, record_and_line))
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (np.diff(record_and_line[order]) != 0) | (np.diff(clock_ms[order]) != 0)
    name = np.empty(len(order), np.int64)
    name[order] = np.cumsum(begins) - 1
    replay = replayed.replay[held.row]
    order = np.lexsort((name, replay))
    ends = np.ones(len(order), np.bool_)
    ends[:-1] = (np.diff(name[order]) != 0) | (np.diff(replay[order]) != 0)
    return name, np.sort(order[ends])


def _crossings(judged: JudgedRows, replayed: ReplayedRows, held: Pairs, emitted: Pairs, records: _RecordIds) -> I64:
    """Of each the record of the last hit up to it, as far back as its rule looks; -1: there is none."""
    earlier, rows, clock_ms = replayed.earlier, np.int64(len(replayed.rows) + 1), replayed.rows.clock_ms
    of_lines = judged.store_plan.plan.judging
    width = np.int64(len(of_lines))
    programs = [judged.plan.programs[line.rule_id, line.version] for line in of_lines]
    reach_ms = np.array([program.reach_ms for program in programs], np.int64)
    of_held = replayed.replay[held.row] * width + held.line
    found, at_ms = np.full(len(held), -1, np.int64), np.full(len(held), _NONE_MS)
    if earlier is not None and len(earlier.row):
        of_earlier = earlier.replay * width + earlier.line
        order = np.argsort(of_earlier)
        at = order[np.minimum(np.searchsorted(of_earlier[order], of_held), len(order) - 1)]
        mine = of_earlier[at] == of_held
        found[mine], at_ms[mine] = records.earlier(earlier.row)[at[mine]], earlier.clock_ms[at[mine]]
    if len(emitted):
        of_emitted = replayed.replay[emitted.row] * width + emitted.line
        order = np.argsort(of_emitted * rows + emitted.row)
        by = (of_emitted * rows + emitted.row)[order]
        last = np.searchsorted(by, of_held * rows + held.row, side="right") - 1
        at = order[np.maximum(last, 0)]
        mine = (last >= 0) & (of_emitted[at] == of_held)
        found[mine] = records.at(emitted.row)[at[mine]]
        at_ms[mine] = clock_ms[emitted.row[at[mine]]]
    known: Bools = at_ms >= clock_ms[held.row] - reach_ms[held.line]
    return np.where(known, found, -1)


class _RecordIds:
    """The ids of the records of rows, numbered; a row is in many replays, and its id is read once."""

    def __init__(self, judged: JudgedRows, replayed: ReplayedRows) -> None:
        self._judged, self._replayed = judged, replayed
        self._number_of = dict[str, int]()
        self._of_rows = np.full(int(replayed.number.max()) + 1 if len(replayed.number) else 0, -1, np.int64)

    @property
    def texts(self) -> Sequence[str]:
        """The ids by their numbers."""
        return list(self._number_of)

    def at(self, rows: I64) -> I64:
        """The numbers of the ids of the records of ``rows`` of the replays."""
        number = self._replayed.number[rows]
        new = self._of_rows[number] < 0
        if new.any():
            _, first = np.unique(number[new], return_index=True)
            chosen = np.flatnonzero(new)[np.sort(first)]
            ids = self._judged.ids(rows[chosen]).to_pylist()
            self._of_rows[number[chosen]] = self._numbers(ids)
        found: I64 = self._of_rows[number]
        return found

    def earlier(self, rows: I64) -> I64:
        """The same of ``rows`` of before, of those that are kept."""
        earlier = self._replayed.earlier
        used, number = np.unique(rows, return_inverse=True)
        ids = [] if earlier is None else [earlier.id_of(row) for row in used.tolist()]
        return self._numbers(ids)[number]

    def _numbers(self, ids: Sequence[str]) -> I64:
        plan, known = self._judged.plan, self._number_of
        records = ids if plan.reports else [record_and_alert_of(plan, each)[0] for each in ids]
        return np.array([known.setdefault(each, len(known)) for each in records], np.int64)
