-- cases.db as version 1 of its tables wrote it
PRAGMA application_id = 1668443235;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE case_alerts (
    case_seq INTEGER NOT NULL, position INTEGER NOT NULL, alert_id TEXT NOT NULL, stream TEXT, record_id TEXT,
    PRIMARY KEY (case_seq, alert_id)) STRICT, WITHOUT ROWID;
INSERT INTO "case_alerts" VALUES(1,0,'al1','payments','t1');
INSERT INTO "case_alerts" VALUES(1,1,'al2',NULL,NULL);
INSERT INTO "case_alerts" VALUES(2,0,'al3','payments','t3');
CREATE TABLE case_events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, case_id TEXT NOT NULL, kind TEXT NOT NULL, at_ms INTEGER NOT NULL,
    who TEXT NOT NULL, text TEXT NOT NULL, version INTEGER NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL)
    STRICT;
INSERT INTO "case_events" VALUES(1,'00000000-0000-4000-8000-000000000001','created',1767225600001,'ada','',1,'{}','{"title":"Burst on a1","state":"open","key":{"account_id":"a1"},"alerts":[{"alert_id":"al1","stream":"payments","record_id":"t1"},{"alert_id":"al2","stream":null,"record_id":null}],"assignee":null}');
INSERT INTO "case_events" VALUES(2,'00000000-0000-4000-8000-000000000001','note',1767225600002,'bob','called the customer',1,'{}','{}');
INSERT INTO "case_events" VALUES(3,'00000000-0000-4000-8000-000000000001','changed',1767225600003,'bob','',2,'{"state":"open","assignee":null}','{"state":"acknowledged","assignee":"bob"}');
INSERT INTO "case_events" VALUES(4,'00000000-0000-4000-8000-000000000002','created',1767225600004,'ada','',1,'{}','{"title":"Ring","state":"open","key":{"account_id":"a2","zone":"n"},"alerts":[{"alert_id":"al3","stream":"payments","record_id":"t3"}],"assignee":null}');
INSERT INTO "case_events" VALUES(5,'00000000-0000-4000-8000-000000000002','changed',1767225600005,'ada','',2,'{"state":"open"}','{"state":"resolved","label":{"is_fraud":false,"records":[["payments","t3"]]}}');
CREATE TABLE case_keys (
    case_seq INTEGER NOT NULL, field TEXT NOT NULL, value TEXT NOT NULL, position INTEGER NOT NULL,
    PRIMARY KEY (case_seq, field)) STRICT, WITHOUT ROWID;
INSERT INTO "case_keys" VALUES(1,'account_id','a1',0);
INSERT INTO "case_keys" VALUES(2,'account_id','a2',0);
INSERT INTO "case_keys" VALUES(2,'zone','n',1);
CREATE TABLE cases (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, case_id TEXT NOT NULL UNIQUE, title TEXT NOT NULL, state TEXT NOT NULL,
    assignee TEXT, version INTEGER NOT NULL, opened_ms INTEGER NOT NULL, opened_by TEXT NOT NULL,
    changed_ms INTEGER NOT NULL, changed_by TEXT NOT NULL) STRICT;
INSERT INTO "cases" VALUES(1,'00000000-0000-4000-8000-000000000001','Burst on a1','acknowledged','bob',2,1767225600001,'ada',1767225600003,'bob');
INSERT INTO "cases" VALUES(2,'00000000-0000-4000-8000-000000000002','Ring','resolved',NULL,2,1767225600004,'ada',1767225600005,'ada');
CREATE TABLE keys (
    who TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL, at_ms INTEGER NOT NULL, result TEXT NOT NULL,
    PRIMARY KEY (who, key)) STRICT, WITHOUT ROWID;
INSERT INTO "keys" VALUES('ada','k1','86ffbf5f248357d62792bdf78700d1a2c101da990558c73a532f6a5d088e8c0f',1767225600001,'{"case_id":"00000000-0000-4000-8000-000000000001","title":"Burst on a1","state":"open","assignee":null,"version":1,"opened_ms":1767225600001,"opened_by":"ada","changed_ms":1767225600001,"changed_by":"ada","about":{"account_id":"a1"},"alerts":[{"alert_id":"al1","stream":"payments","record_id":"t1"},{"alert_id":"al2","stream":null,"record_id":null}]}');
CREATE TABLE labels (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL, record_id TEXT NOT NULL, version INTEGER NOT NULL,
    is_fraud INTEGER NOT NULL CHECK (is_fraud IN (0, 1)), known_ms INTEGER NOT NULL, reason TEXT NOT NULL,
    who TEXT NOT NULL, at_ms INTEGER NOT NULL, case_id TEXT, UNIQUE (stream, record_id, version)) STRICT;
INSERT INTO "labels" VALUES(1,'payments','t9',1,1,1767225600000,'chargeback','ada',1767225600000,NULL);
INSERT INTO "labels" VALUES(2,'payments','t3',1,0,1767225500000,'known','ada',1767225600005,'00000000-0000-4000-8000-000000000002');
CREATE TRIGGER labels_stay BEFORE UPDATE ON labels BEGIN SELECT raise(ABORT, 'labels are only added'); END;
CREATE TRIGGER labels_last BEFORE DELETE ON labels BEGIN SELECT raise(ABORT, 'labels are only added'); END;
CREATE VIEW labels_now AS
    SELECT seq, stream, record_id, version, is_fraud, known_ms, reason, who, at_ms, case_id FROM labels AS l
    WHERE version = (SELECT max(version) FROM labels AS m WHERE m.stream = l.stream AND m.record_id = l.record_id);
CREATE TRIGGER events_stay BEFORE UPDATE ON case_events
    BEGIN SELECT raise(ABORT, 'events are only added'); END;
CREATE TRIGGER events_last BEFORE DELETE ON case_events
    BEGIN SELECT raise(ABORT, 'events are only added'); END;
CREATE INDEX labels_by_known ON labels (known_ms);
CREATE INDEX cases_by_state ON cases (state, seq);
CREATE INDEX cases_by_assignee ON cases (assignee, seq);
CREATE INDEX case_alerts_by_alert ON case_alerts (alert_id);
CREATE INDEX case_alerts_by_record ON case_alerts (stream, record_id);
CREATE INDEX case_keys_by_value ON case_keys (field, value);
CREATE INDEX events_by_case ON case_events (case_id, number);
CREATE INDEX keys_by_time ON keys (at_ms);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('labels',2);
INSERT INTO "sqlite_sequence" VALUES('cases',2);
INSERT INTO "sqlite_sequence" VALUES('case_events',5);
COMMIT;
