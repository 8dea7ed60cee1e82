"""Version 4 of the file: what each suppression hid, counted as it comes."""

from __future__ import annotations

TO_VERSION_4 = (
    "ALTER TABLE suppressions ADD COLUMN hidden INTEGER NOT NULL DEFAULT 0",
    # The event time of the latest alert that it hid.
    "ALTER TABLE suppressions ADD COLUMN hidden_ms INTEGER",
    # Records that are labelled as fraud, of those whose alerts it hid.
    "ALTER TABLE suppressions ADD COLUMN frauds INTEGER NOT NULL DEFAULT 0",
    """UPDATE suppressions SET hidden = (SELECT count(*) FROM alerts WHERE suppressed_by = suppressions.number),
    hidden_ms = (SELECT max(event_ms) FROM alerts WHERE suppressed_by = suppressions.number),
    frauds = (SELECT count(*) FROM (SELECT DISTINCT a.stream, a.record_id FROM alerts AS a
    JOIN labels_now AS l USING (stream, record_id) WHERE a.suppressed_by = suppressions.number AND l.is_fraud = 1))""",
)
