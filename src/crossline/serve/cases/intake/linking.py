"""Which case an alert joins: by values that it shares, within a time, the older one first. In a transaction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from crossline.serve.cases import checks, rows, summary
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.intake.facts import AlertFacts, Tie, ties_of
from crossline.settings.process.casework import CasesSettings

LINKER = "crossline"  # who opens cases for alerts, and reopens them
_CANDIDATES = """SELECT c.seq, c.case_id, c.state, c.assignee, c.version, c.alert_count, c.last_ms
FROM case_ties AS t JOIN cases AS c ON c.seq = t.case_seq
WHERE t.field = ? AND t.value = ? AND t.joins = 1 AND t.first_ms <= ? AND t.last_ms >= ? AND c.state != 'merged'
AND c.alert_count < ?"""
_TIE = """INSERT INTO case_ties (field, value, case_seq, joins, first_ms, last_ms) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET joins = max(joins, excluded.joins), first_ms = min(first_ms, excluded.first_ms),
last_ms = max(last_ms, excluded.last_ms)"""


@dataclass(frozen=True, slots=True)
class CandidateCase:
    """A case that may take an alert."""

    seq: int
    case_id: str
    state: str
    assignee: str | None
    version: int
    alert_count: int
    last_ms: int


class Linker:
    """Takes alerts into cases of ``file``, in the caller's transaction; ``finish`` reckons anew what cases say."""

    def __init__(self, file: CaseFile, settings: CasesSettings, now_ms: int) -> None:
        self._file = file
        self._settings = settings
        self._now_ms = now_ms
        self._dirty: dict[int, None] = {}

    def knows(self, alert_id: str) -> bool:
        """Whether it is there already."""
        return bool(self._file.rows("SELECT 1 FROM alerts WHERE alert_id = ?", (alert_id,)))

    def hide(self, facts: AlertFacts, suppression: int) -> None:
        """Keep an alert that is suppressed: it is in no case."""
        keep_alert(self._file, facts, suppression)

    def take(self, facts: AlertFacts) -> int:
        """Put it into the case that it joins, else into a new one; the number of the case."""
        keep_alert(self._file, facts)
        joined = self._joined(facts)
        fresh = joined is None
        if joined is None:
            joined = self._opened(facts)
        elif joined.state in {"snoozed", "resolved"}:
            self._woken(joined)
        self._file.run(
            "INSERT INTO case_alerts (case_seq, position, alert_id, stream, record_id) VALUES (?, ?, ?, ?, ?)",
            (joined.seq, joined.alert_count, facts.alert_id, facts.stream, facts.record_id),
        )
        tie(self._file, joined.seq, facts.ties, facts.event_ms)
        self._file.run(
            "UPDATE cases SET alert_count = alert_count + 1, last_ms = max(last_ms, ?), version = version + ?, "
            "changed_ms = ?, changed_by = ? WHERE seq = ?",
            (facts.event_ms, int(not fresh), self._now_ms, LINKER, joined.seq),
        )
        self._dirty[joined.seq] = None
        return joined.seq

    def changed(self, alert_id: str, *, raised: bool) -> None:
        """The facts of an alert changed; ``raised``: its cases have another version with that."""
        for each in self._file.rows("SELECT case_seq FROM case_alerts WHERE alert_id = ?", (alert_id,)):
            if raised:
                self._file.run("UPDATE cases SET version = version + 1 WHERE seq = ?", (each["case_seq"],))
            self._dirty[each["case_seq"]] = None

    def finish(self) -> None:
        """Reckon anew what the cases say that were changed."""
        for seq in self._dirty:
            summary.refresh(self._file, seq)
        self._dirty.clear()

    def _joined(self, facts: AlertFacts) -> CandidateCase | None:
        within_ms, at_ms = self._settings.within, facts.event_ms
        found: dict[int, CandidateCase] = {}
        for each in facts.ties:
            if each.joins:
                near = (each.field, each.value, at_ms + within_ms, at_ms - within_ms, checks.ALERTS_MAX)
                found |= {row["seq"]: CandidateCase(**row) for row in self._file.rows(_CANDIDATES, near)}
        unresolved = [each for each in found.values() if each.state != "resolved"]
        if unresolved:
            return min(unresolved, key=lambda each: each.seq)
        recent = [each for each in found.values() if at_ms <= each.last_ms + self._settings.reopen]
        return max(recent, key=lambda each: each.seq, default=None)

    def _opened(self, facts: AlertFacts) -> CandidateCase:
        title = facts.message[: checks.TITLE_MAX] or facts.rule_id
        seq, case_id = rows.insert(self._file, title, LINKER, self._now_ms, facts.event_ms)
        for number, (name, value) in enumerate(list(facts.key.items())[: checks.KEY_MAX]):
            self._file.run("INSERT INTO case_keys VALUES (?, ?, ?, ?)", (seq, name, value, number))
        after = {"title": title, "state": "open", "alerts": [facts.alert_id]}
        rows.event(self._file, case_id, 1, "created", LINKER, self._now_ms, "", {}, after)
        return CandidateCase(seq, case_id, "open", None, 1, 0, facts.event_ms)

    def _woken(self, case: CandidateCase) -> None:
        """A snoozed case comes back, a resolved one is opened again."""
        state = "acknowledged" if case.assignee else "open"
        self._file.run(
            "UPDATE cases SET state = ?, snoozed_ms = NULL, resolved_ms = NULL, verdict = NULL WHERE seq = ?",
            (state, case.seq),
        )
        text, before, after = "a new alert joined", {"state": case.state}, {"state": state}
        rows.event(self._file, case.case_id, case.version + 1, "changed", LINKER, self._now_ms, text, before, after)


def keep_alert(file: CaseFile, facts: AlertFacts, suppression: int | None = None) -> None:
    """Store what is kept of an alert, and what it is found by, in a transaction."""
    number = file.run(
        "INSERT INTO alerts (alert_id, stream, record_id, rule_id, rule_version, severity, message, event_ms, entity, "
        "ties, amount, currency, suppressed_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(facts.alert_id, facts.stream, facts.record_id, facts.rule_id, facts.rule_version, facts.severity),
            *(facts.message, facts.event_ms, orjson.dumps(dict(facts.key)).decode()),
            orjson.dumps([[each.field, each.value, int(each.joins)] for each in facts.ties]).decode(),
            *(facts.amount, facts.currency, suppression),
        ),
    )
    if suppression is None:
        file.run("INSERT INTO texts (rowid, text) VALUES (?, ?)", (2 * number, facts.text()))


def tie(file: CaseFile, seq: int, ties: Iterable[Tie], at_ms: int) -> None:
    """Note that an alert of the case had these values at that time, in a transaction."""
    for each in ties:
        file.run(_TIE, (each.field, each.value, seq, int(each.joins), at_ms, at_ms))


def retie(file: CaseFile, seq: int) -> None:
    """Note anew by which values a case is joined, after alerts came or went otherwise, in a transaction."""
    file.run("DELETE FROM case_ties WHERE case_seq = ?", (seq,))
    alerts = file.rows(
        "SELECT a.ties, a.event_ms FROM case_alerts AS c JOIN alerts AS a USING (alert_id) WHERE c.case_seq = ?", (seq,)
    )
    for each in alerts:
        ties = (Tie(field, value, bool(joins)) for field, value, joins in orjson.loads(each["ties"]))
        tie(file, seq, ties, each["event_ms"])
    if not alerts:  # of a case that people made, what it is about
        (case,) = file.rows("SELECT opened_ms FROM cases WHERE seq = ?", (seq,))
        about = file.rows("SELECT field, value FROM case_keys WHERE case_seq = ? ORDER BY position", (seq,))
        tie(file, seq, ties_of({each["field"]: each["value"] for each in about}), case["opened_ms"])
