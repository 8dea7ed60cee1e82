"""Version 3 of the file: counts of rules by hour and day, and what keeps them exact. ``day``: of the epoch, in UTC."""

from __future__ import annotations

DAY_MS, HOUR_MS = 86_400_000, 3_600_000

_TABLES = (
    # ``amount``: of alerts that were not retracted, over all currencies.
    """CREATE TABLE rule_days (
    day INTEGER NOT NULL, rule_id TEXT NOT NULL, version INTEGER NOT NULL, kind TEXT NOT NULL,
    alerts INTEGER NOT NULL, retracted INTEGER NOT NULL DEFAULT 0, hidden INTEGER NOT NULL DEFAULT 0,
    amount REAL NOT NULL DEFAULT 0, PRIMARY KEY (day, rule_id, version, kind)) STRICT, WITHOUT ROWID""",
    # Of the last days alone.
    """CREATE TABLE rule_hours (
    hour INTEGER NOT NULL, rule_id TEXT NOT NULL, kind TEXT NOT NULL, alerts INTEGER NOT NULL,
    PRIMARY KEY (hour, rule_id, kind)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE rule_values (
    day INTEGER NOT NULL, rule_id TEXT NOT NULL, version INTEGER NOT NULL, bucket INTEGER NOT NULL,
    alerts INTEGER NOT NULL, PRIMARY KEY (day, rule_id, version, bucket)) STRICT, WITHOUT ROWID""",
    # Records and entities that both rules have alerts on; ``led``: records whose decision rests on the other first.
    # Of a rule with itself: its records, and its entities of the day.
    """CREATE TABLE rule_pairs (
    day INTEGER NOT NULL, rule_id TEXT NOT NULL, other TEXT NOT NULL, records INTEGER NOT NULL DEFAULT 0,
    entities INTEGER NOT NULL DEFAULT 0, led INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (day, rule_id, other)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE rule_entities (
    day INTEGER NOT NULL, entity TEXT NOT NULL, rule_id TEXT NOT NULL,
    PRIMARY KEY (day, entity, rule_id)) STRICT, WITHOUT ROWID""",
    """CREATE TABLE rule_labels (
    day INTEGER NOT NULL, rule_id TEXT NOT NULL, version INTEGER NOT NULL, kind TEXT NOT NULL,
    label_day INTEGER NOT NULL, is_fraud INTEGER NOT NULL, currency TEXT NOT NULL, alerts INTEGER NOT NULL,
    amount REAL NOT NULL, PRIMARY KEY (day, rule_id, version, kind, label_day, is_fraud, currency))
    STRICT, WITHOUT ROWID""",
    # Alerts that open no case: of shadow rules, and of rules that only feed others.
    """CREATE TABLE asides (
    alert_id TEXT PRIMARY KEY, kind TEXT NOT NULL, stream TEXT NOT NULL, record_id TEXT NOT NULL,
    rule_id TEXT NOT NULL, rule_version INTEGER NOT NULL, event_ms INTEGER NOT NULL, amount TEXT, currency TEXT,
    retracted INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID""",
    "CREATE INDEX asides_by_record ON asides (stream, record_id)",
    "CREATE INDEX asides_by_time ON asides (event_ms)",
    "CREATE INDEX alerts_by_record ON alerts (stream, record_id)",
    # Of the rule that the first decision on the record rests on first; null: nothing is decided yet.
    "ALTER TABLE alerts ADD COLUMN led TEXT",
)
# What is known of alerts that came before: not their figures, and none of shadow rules.
_FILLED = (
    """INSERT INTO rule_days SELECT event_ms / 86400000, rule_id, rule_version, 'alert', count(*), sum(retracted),
    sum(suppressed_by IS NOT NULL), coalesce(sum(CAST(amount AS REAL)) FILTER (WHERE retracted = 0), 0.0) FROM alerts
    GROUP BY 1, 2, 3""",
    "INSERT INTO rule_hours SELECT event_ms / 3600000, rule_id, 'alert', count(*) FROM alerts GROUP BY 1, 2",
    """INSERT INTO rule_labels SELECT a.event_ms / 86400000, a.rule_id, a.rule_version, 'alert', l.at_ms / 86400000,
    l.is_fraud, coalesce(a.currency, ''), count(*), sum(coalesce(CAST(a.amount AS REAL), 0.0)) FROM labels_now AS l
    JOIN alerts AS a ON a.stream = l.stream AND a.record_id = l.record_id WHERE a.retracted = 0
    GROUP BY 1, 2, 3, 5, 6, 7""",
    "INSERT INTO rule_entities SELECT DISTINCT event_ms / 86400000, entity, rule_id FROM alerts",
    """INSERT INTO rule_pairs (day, rule_id, other, records) SELECT day, one, other, count(*) FROM
    (SELECT DISTINCT a.event_ms / 86400000 AS day, a.rule_id AS one, b.rule_id AS other, a.stream, a.record_id
    FROM alerts AS a JOIN alerts AS b ON b.stream = a.stream AND b.record_id = a.record_id) GROUP BY 1, 2, 3""",
    """INSERT INTO rule_pairs (day, rule_id, other, entities) SELECT a.day, a.rule_id, b.rule_id, count(*)
    FROM rule_entities AS a JOIN rule_entities AS b ON b.day = a.day AND b.entity = a.entity WHERE TRUE GROUP BY 1, 2, 3
    ON CONFLICT DO UPDATE SET entities = excluded.entities""",
)
TO_VERSION_3 = (*_TABLES, *_FILLED)
TO_VERSION_5 = (
    # Of a rule with itself: records on which its cooldown held its alert back. With another: records of its alerts
    # whose decision rests first on the other, which was in its cooldown there.
    """CREATE TABLE rule_cooled (
    day INTEGER NOT NULL, rule_id TEXT NOT NULL, other TEXT NOT NULL, records INTEGER NOT NULL,
    PRIMARY KEY (day, rule_id, other)) STRICT, WITHOUT ROWID""",
    # Whose decisions were counted: they may come again.
    """CREATE TABLE cooled_records (
    day INTEGER NOT NULL, stream TEXT NOT NULL, record_id TEXT NOT NULL,
    PRIMARY KEY (stream, record_id)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX cooled_records_by_day ON cooled_records (day)",
)
