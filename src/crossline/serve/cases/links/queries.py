"""Which entities stand in which alerts, case by case, as far as it was read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations

import orjson

from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.links.values import Entity, LinkLimits

_CASES = """SELECT t.case_seq, t.joins, k.state, k.verdict FROM case_ties AS t JOIN cases AS k ON k.seq = t.case_seq
WHERE t.field = ? AND t.value = ? AND k.state != 'merged' ORDER BY t.case_seq DESC LIMIT ?"""
_COUNT = "SELECT count(*) AS n FROM case_ties WHERE field = ? AND value = ?"
_ALERTS = """SELECT c.case_seq, a.ties, a.severity, a.gravest, a.event_ms FROM case_alerts AS c
JOIN alerts AS a USING (alert_id) WHERE c.case_seq IN ({}) ORDER BY c.case_seq DESC, c.position DESC LIMIT ?"""
_TIES = "SELECT field, value, joins, last_ms FROM case_ties WHERE case_seq = ?"


@dataclass(slots=True)
class EntityPair:
    """What two entities have in common."""

    alerts: int = 0
    cases: set[int] = field(default_factory=set)
    last_ms: int = 0


@dataclass(slots=True)
class EntityLinks:
    """What was read of an entity. ``beside``: others in its alerts."""

    joins: bool = False
    severity: int = -1
    decision: int = -1
    cases: dict[int, bool] = field(default_factory=dict)  # whether it was resolved as fraud
    beside: dict[Entity, EntityPair] = field(default_factory=dict)


class LinkReader:
    """Reads cases of ``file``, each once; no more alerts than ``bounds`` say."""

    def __init__(self, file: CaseFile, bounds: LinkLimits) -> None:
        self._file = file
        self._bounds = bounds
        self._left = bounds.alerts
        self._read: set[int] = set()
        self._not_read: set[int] = set()
        self._beyond = 0
        self.known: dict[Entity, EntityLinks] = {}

    @property
    def cases_left(self) -> int:
        """Cases that were not read, of entities whose links were asked for."""
        return self._beyond + len(self._not_read - self._read)

    def beside(self, entity: Entity) -> dict[Entity, EntityPair]:
        """The entities in the alerts of its latest cases."""
        found = self._file.rows(_CASES, (*entity, self._bounds.cases))
        if len(found) == self._bounds.cases:
            self._beyond += self.count(entity) - len(found)
        self._cases([row for row in found if row["case_seq"] not in self._read])
        return self.known.setdefault(entity, EntityLinks()).beside

    def count(self, entity: Entity) -> int:
        """How many cases have it."""
        return int(self._file.rows(_COUNT, entity)[0]["n"])

    def _cases(self, rows: list[sqlite3.Row]) -> None:
        """Read these cases, the latest first, as far as alerts may be read."""
        if self._left <= 0 or not rows:
            self._not_read |= {row["case_seq"] for row in rows}
            return
        frauds = {row["case_seq"]: row["state"] == "resolved" and row["verdict"] == 1 for row in rows}
        alerts = self._file.rows(_ALERTS.format(", ".join("?" * len(frauds))), (*frauds, self._left))
        self._left -= len(alerts)
        read = {each["case_seq"] for each in alerts}
        for each in alerts:
            ties = {(name, value): bool(joins) for name, value, joins in orjson.loads(each["ties"]) if "," not in name}
            graves = each["severity"], each["gravest"]
            self._take(
                each["case_seq"], ties, each["event_ms"], fraud=frauds[each["case_seq"]], alerts=1, graves=graves
            )
        for seq in frauds.keys() - read:
            if self._left > 0:
                self._by_hand(seq, fraud=frauds[seq])
                read.add(seq)
        self._read |= read
        self._not_read |= frauds.keys() - read

    def _by_hand(self, seq: int, *, fraud: bool) -> None:
        """A case that people made of alerts which are known by their ids alone."""
        found = self._file.rows(_TIES, (seq,))
        ties = {(each["field"], each["value"]): bool(each["joins"]) for each in found if "," not in each["field"]}
        self._take(seq, ties, max((each["last_ms"] for each in found), default=0), fraud=fraud)

    def _take(
        self,
        seq: int,
        ties: dict[Entity, bool],
        at_ms: int,
        *,
        fraud: bool,
        alerts: int = 0,
        graves: tuple[int, int] = (-1, -1),
    ) -> None:
        for entity, joins in ties.items():
            known = self.known.setdefault(entity, EntityLinks())
            known.joins |= joins
            known.severity, known.decision = max(known.severity, graves[0]), max(known.decision, graves[1])
            known.cases[seq] = fraud
        for one, other in combinations(ties, 2):
            pair = self._pair(one, other)
            pair.alerts += alerts
            pair.cases.add(seq)
            pair.last_ms = max(pair.last_ms, at_ms)

    def _pair(self, one: Entity, other: Entity) -> EntityPair:
        pair = self.known[one].beside.get(other)
        if pair is None:
            pair = self.known[one].beside[other] = self.known[other].beside[one] = EntityPair()
        return pair


def nearest(beside: dict[Entity, EntityPair], but: Iterable[Entity]) -> list[Entity]:
    """The entities beside one, those in most alerts with it first, then in most cases, then the latest."""
    seen = set(but)
    found = [(entity, pair) for entity, pair in beside.items() if entity not in seen]
    found.sort(key=lambda each: (-each[1].alerts, -len(each[1].cases), -each[1].last_ms, each[0]))
    return [entity for entity, _ in found]
