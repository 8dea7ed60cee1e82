"""The tables of labels and cases: those of version 1, and what each later version adds."""

from __future__ import annotations

TABLES = (
    """CREATE TABLE labels (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL, record_id TEXT NOT NULL, version INTEGER NOT NULL,
    is_fraud INTEGER NOT NULL CHECK (is_fraud IN (0, 1)), known_ms INTEGER NOT NULL, reason TEXT NOT NULL,
    who TEXT NOT NULL, at_ms INTEGER NOT NULL, case_id TEXT, UNIQUE (stream, record_id, version)) STRICT""",
    # Labels are append-only: one is followed by another, and never changed.
    """CREATE TRIGGER labels_stay BEFORE UPDATE ON labels BEGIN SELECT raise(ABORT, 'labels are only added'); END""",
    """CREATE TRIGGER labels_last BEFORE DELETE ON labels BEGIN SELECT raise(ABORT, 'labels are only added'); END""",
    """CREATE VIEW labels_now AS
    SELECT seq, stream, record_id, version, is_fraud, known_ms, reason, who, at_ms, case_id FROM labels AS l
    WHERE version = (SELECT max(version) FROM labels AS m WHERE m.stream = l.stream AND m.record_id = l.record_id)""",
    """CREATE TABLE cases (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, case_id TEXT NOT NULL UNIQUE, title TEXT NOT NULL, state TEXT NOT NULL,
    assignee TEXT, version INTEGER NOT NULL, opened_ms INTEGER NOT NULL, opened_by TEXT NOT NULL,
    changed_ms INTEGER NOT NULL, changed_by TEXT NOT NULL) STRICT""",
    """CREATE TABLE case_alerts (
    case_seq INTEGER NOT NULL, position INTEGER NOT NULL, alert_id TEXT NOT NULL, stream TEXT, record_id TEXT,
    PRIMARY KEY (case_seq, alert_id)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE case_keys (
    case_seq INTEGER NOT NULL, field TEXT NOT NULL, value TEXT NOT NULL, position INTEGER NOT NULL,
    PRIMARY KEY (case_seq, field)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE case_events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, case_id TEXT NOT NULL, kind TEXT NOT NULL, at_ms INTEGER NOT NULL,
    who TEXT NOT NULL, text TEXT NOT NULL, version INTEGER NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL)
    STRICT""",
    """CREATE TRIGGER events_stay BEFORE UPDATE ON case_events
    BEGIN SELECT raise(ABORT, 'events are only added'); END""",
    """CREATE TRIGGER events_last BEFORE DELETE ON case_events
    BEGIN SELECT raise(ABORT, 'events are only added'); END""",
    """CREATE TABLE keys (
    who TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, at_ms INTEGER NOT NULL, result TEXT NOT NULL,
    PRIMARY KEY (who, key)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX labels_by_known ON labels (known_ms)",
    "CREATE INDEX cases_by_state ON cases (state, seq)",
    "CREATE INDEX cases_by_assignee ON cases (assignee, seq)",
    "CREATE INDEX case_alerts_by_alert ON case_alerts (alert_id)",
    "CREATE INDEX case_alerts_by_record ON case_alerts (stream, record_id)",
    "CREATE INDEX case_keys_by_value ON case_keys (field, value)",
    "CREATE INDEX events_by_case ON case_events (case_id, number)",
    "CREATE INDEX keys_by_time ON keys (at_ms)",
)

# Version 2: alerts that are linked to cases, the summaries of cases, and the tables of queues, searches and acts.
_CASE_COLUMNS = (
    "severity INTEGER NOT NULL DEFAULT -1",
    "first_ms INTEGER NOT NULL DEFAULT 0",
    "last_ms INTEGER NOT NULL DEFAULT 0",
    "alert_count INTEGER NOT NULL DEFAULT 0",
    "retracted_count INTEGER NOT NULL DEFAULT 0",
    "money REAL",
    "decision INTEGER NOT NULL DEFAULT -1",
    "rules TEXT NOT NULL DEFAULT ''",
    "streams TEXT NOT NULL DEFAULT ''",
    "kinds TEXT NOT NULL DEFAULT ''",
    "summary TEXT NOT NULL DEFAULT '{}'",
    "escalated_to TEXT",
    "snoozed_ms INTEGER",
    "resolved_ms INTEGER",
    "verdict INTEGER",
    "merged_into INTEGER",
    "change_no INTEGER NOT NULL DEFAULT 0",
)
LABELS_NOW = """CREATE VIEW labels_now AS
    SELECT seq, stream, record_id, version, is_fraud, known_ms, reason, who, at_ms, case_id FROM labels AS l
    WHERE withdrawn = 0
    AND version = (SELECT max(version) FROM labels AS m WHERE m.stream = l.stream AND m.record_id = l.record_id)"""
TO_VERSION_2 = (
    *(f"ALTER TABLE cases ADD COLUMN {each}" for each in _CASE_COLUMNS),
    "ALTER TABLE labels ADD COLUMN withdrawn INTEGER NOT NULL DEFAULT 0",
    "DROP VIEW labels_now",
    LABELS_NOW,
    """CREATE TABLE alerts (
    number INTEGER PRIMARY KEY, alert_id TEXT NOT NULL UNIQUE, stream TEXT NOT NULL, record_id TEXT NOT NULL,
    rule_id TEXT NOT NULL, rule_version INTEGER NOT NULL, severity INTEGER NOT NULL, message TEXT NOT NULL,
    event_ms INTEGER NOT NULL, entity TEXT NOT NULL, ties TEXT NOT NULL, amount TEXT, currency TEXT,
    retracted INTEGER NOT NULL DEFAULT 0, decision INTEGER NOT NULL DEFAULT -1, gravest INTEGER NOT NULL DEFAULT -1,
    revised INTEGER NOT NULL DEFAULT 0, suppressed_by INTEGER) STRICT""",
    # By which values alerts join a case (``joins``), or a case is only found; from when to when alerts had them.
    """CREATE TABLE case_ties (
    field TEXT NOT NULL, value TEXT NOT NULL, case_seq INTEGER NOT NULL, joins INTEGER NOT NULL,
    first_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL, PRIMARY KEY (field, value, case_seq)) STRICT, WITHOUT ROWID""",
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    "INSERT INTO counters SELECT 'changes', coalesce(max(seq), 0) FROM cases",
    """CREATE TABLE marks (
    name TEXT PRIMARY KEY, batch INTEGER NOT NULL, step INTEGER NOT NULL, planned TEXT NOT NULL)
    STRICT, WITHOUT ROWID""",
    """CREATE TABLE acts (
    number INTEGER PRIMARY KEY AUTOINCREMENT, case_seq INTEGER NOT NULL, who TEXT NOT NULL, at_ms INTEGER NOT NULL,
    act TEXT NOT NULL, versions TEXT NOT NULL, before TEXT NOT NULL) STRICT""",
    """CREATE TABLE views (
    who TEXT NOT NULL, name TEXT NOT NULL, query TEXT NOT NULL, is_default INTEGER NOT NULL,
    PRIMARY KEY (who, name)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE suppressions (
    number INTEGER PRIMARY KEY AUTOINCREMENT, rules TEXT NOT NULL, entity TEXT NOT NULL, condition TEXT,
    reason TEXT NOT NULL, until_ms INTEGER NOT NULL, who TEXT NOT NULL, at_ms INTEGER NOT NULL,
    version INTEGER NOT NULL, ended_by TEXT) STRICT""",
    # The text of alert n stands under 2n, that of event n under 2n + 1; texts are only added.
    """CREATE VIRTUAL TABLE texts USING fts5(
    text, content='', tokenize="unicode61 remove_diacritics 2 tokenchars '_'")""",
    "UPDATE cases SET first_ms = opened_ms, last_ms = opened_ms, change_no = seq",
    """UPDATE cases SET resolved_ms = changed_ms WHERE state = 'resolved'""",
    "UPDATE cases SET alert_count = (SELECT count(*) FROM case_alerts WHERE case_seq = seq)",
    """INSERT INTO case_ties SELECT field, value, case_seq, (SELECT count(*) = 1 FROM case_keys AS o WHERE
    o.case_seq = k.case_seq), opened_ms, opened_ms FROM case_keys AS k JOIN cases ON seq = case_seq""",
    """INSERT INTO texts (rowid, text) SELECT 2 * number + 1, text FROM case_events WHERE kind = 'note'""",
    """INSERT INTO texts (rowid, text) SELECT 2 * number + 1, title || ' ' ||
    coalesce((SELECT group_concat(value, ' ') FROM case_keys WHERE case_seq = seq), '') || ' ' ||
    coalesce((SELECT group_concat(alert_id || ' ' || coalesce(record_id, ''), ' ') FROM case_alerts
    WHERE case_seq = seq), '') FROM case_events JOIN cases USING (case_id) WHERE kind = 'created'""",
    "CREATE INDEX cases_by_change ON cases (change_no)",
    "CREATE INDEX cases_by_snooze ON cases (snoozed_ms) WHERE snoozed_ms IS NOT NULL",
    "CREATE INDEX cases_by_merge ON cases (merged_into) WHERE merged_into IS NOT NULL",
    "CREATE INDEX case_ties_by_case ON case_ties (case_seq)",
    "CREATE INDEX alerts_by_suppression ON alerts (suppressed_by) WHERE suppressed_by IS NOT NULL",
    "CREATE INDEX acts_by_case ON acts (case_seq, number)",
)

# By which the lake knows the file: when it was made, in epoch milliseconds, and a number of its own. A file from before
# has nothing there: the lake has its rows under no identity.
TO_VERSION_6 = ("CREATE TABLE IF NOT EXISTS identity (made_ms INTEGER NOT NULL, token TEXT NOT NULL) STRICT",)
