BEGIN TRANSACTION;
CREATE TABLE alerts (
    seq INTEGER PRIMARY KEY, alert_id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, rule_id TEXT NOT NULL,
    rule_version INTEGER NOT NULL, rule_type TEXT NOT NULL, severity TEXT NOT NULL, score REAL, action TEXT,
    key TEXT NOT NULL, stream TEXT NOT NULL, record_id TEXT NOT NULL, event_time TEXT NOT NULL,
    ingest_time TEXT NOT NULL, value NUMERIC, threshold NUMERIC, message TEXT NOT NULL,
    detected_at TEXT, delivered_at TEXT NOT NULL, pipeline TEXT NOT NULL, batch_id INTEGER NOT NULL, body TEXT NOT NULL
);
INSERT INTO "alerts" VALUES(1,'id-t1','alert','card_burst',3,'velocity','high',40.0,'step_up','{"account_id":"a1"}','payments','t1','2026-01-01T00:00:07.120Z','2026-01-01T00:00:07.180Z',10,10,'10 payments by account a1 in 60 s (line: 10)','2026-01-01T00:00:07.300Z','2026-01-01T00:00:00.000Z','p',3,'{"schema_version":1,"alert_id":"id-t1","kind":"alert","rule_id":"card_burst","rule_version":3,"rule_type":"velocity","severity":"high","score":40,"action":"step_up","key":{"account_id":"a1"},"stream":"payments","record_id":"t1","event_time":"2026-01-01T00:00:07.120Z","ingest_time":"2026-01-01T00:00:07.180Z","value":10,"operator":">=","threshold":10,"window_start":"2025-12-31T23:59:07.120Z","window_end":"2026-01-01T00:00:07.120Z","evidence":{"count":10,"record_ids":["t1","t2","t1"]},"message":"10 payments by account a1 in 60 s (line: 10)","corrects":null,"detected_at":"2026-01-01T00:00:07.300Z","delivered_at":"2026-01-01T00:00:00.000Z"}');
INSERT INTO "alerts" VALUES(2,'id-t2','shadow','card_burst',3,'velocity','high',40.0,'step_up','{"a":"x"}','payments','t2','2026-01-01T00:00:07.120Z','2026-01-01T00:00:07.180Z',2.5,10,'10 payments by account a1 in 60 s (line: 10)','2026-01-01T00:00:07.300Z','2026-01-01T00:00:00.000Z','p',3,'{"schema_version":1,"alert_id":"id-t2","kind":"shadow","rule_id":"card_burst","rule_version":3,"rule_type":"velocity","severity":"high","score":40,"action":"step_up","key":{"a":"x"},"stream":"payments","record_id":"t2","event_time":"2026-01-01T00:00:07.120Z","ingest_time":"2026-01-01T00:00:07.180Z","value":2.5,"operator":">=","threshold":10,"window_start":"2025-12-31T23:59:07.120Z","window_end":"2026-01-01T00:00:07.120Z","evidence":{"count":10,"record_ids":["t1","t2","t2"]},"message":"10 payments by account a1 in 60 s (line: 10)","corrects":null,"detected_at":"2026-01-01T00:00:07.300Z","delivered_at":"2026-01-01T00:00:00.000Z"}');
CREATE TABLE batches (
    pipeline TEXT NOT NULL, batch_id INTEGER NOT NULL, alerts INTEGER NOT NULL, dead_letters INTEGER NOT NULL,
    late_records INTEGER NOT NULL, figures TEXT NOT NULL, delivered_at TEXT NOT NULL, PRIMARY KEY (pipeline, batch_id)
) WITHOUT ROWID;
INSERT INTO "batches" VALUES('p',3,2,2,1,'{"records":100}','2026-01-01T00:00:00.000Z');
CREATE TABLE dead_letters (
    seq INTEGER PRIMARY KEY, stream TEXT NOT NULL, "partition" TEXT NOT NULL, "offset" INTEGER NOT NULL,
    reason TEXT NOT NULL, detail TEXT NOT NULL, record_id TEXT, raw BLOB, delivered_at TEXT NOT NULL,
    pipeline TEXT NOT NULL, batch_id INTEGER NOT NULL, UNIQUE (stream, "partition", "offset", reason)
);
INSERT INTO "dead_letters" VALUES(1,'payments','in/a',5,'bad_json','no end',NULL,X'FF7B','2026-01-01T00:00:00.000Z','p',3);
INSERT INTO "dead_letters" VALUES(2,'payments','in/a',5,'duplicate_id','came before','t0',NULL,'2026-01-01T00:00:00.000Z','p',3);
CREATE TABLE late_records (
    seq INTEGER PRIMARY KEY, stream TEXT NOT NULL, "partition" TEXT NOT NULL, "offset" INTEGER NOT NULL,
    record_id TEXT NOT NULL, event_time TEXT NOT NULL, ingest_time TEXT NOT NULL, lateness_ms INTEGER NOT NULL,
    raw BLOB, delivered_at TEXT NOT NULL, pipeline TEXT NOT NULL, batch_id INTEGER NOT NULL,
    UNIQUE (stream, "partition", "offset")
);
INSERT INTO "late_records" VALUES(1,'payments','in/a',9,'t5','2026-01-01T00:00:00.000Z','2026-01-01T00:03:00.000Z',180000,X'7B7D','2026-01-01T00:00:00.000Z','p',3);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('schema_version','1');
CREATE TABLE rule_history (
    seq INTEGER PRIMARY KEY, pipeline TEXT NOT NULL, batch_id INTEGER NOT NULL, rule_id TEXT, version INTEGER,
    body TEXT NOT NULL, delivered_at TEXT NOT NULL, UNIQUE (pipeline, body)
);
INSERT INTO "rule_history" VALUES(1,'p',3,'r',2,'{"event": "published", "rule_id": "r", "version": 2}','2026-01-01T00:00:00.000Z');
CREATE TABLE runs (run_id INTEGER PRIMARY KEY, pipeline TEXT NOT NULL, started_at TEXT NOT NULL, ended_at TEXT);
INSERT INTO "runs" VALUES(1,'p','2026-01-01T00:00:00.000Z','2026-01-01T00:00:00.000Z');
CREATE INDEX alerts_by_time ON alerts (event_time);
CREATE INDEX alerts_by_rule ON alerts (rule_id, event_time);
CREATE VIEW evidence AS
    SELECT a.alert_id AS alert_id, e.key AS position, e.value AS record_id
    FROM alerts AS a, json_each(a.body, '$.evidence.record_ids') AS e;
COMMIT;
