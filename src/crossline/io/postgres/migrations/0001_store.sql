-- The tables of a store. Names are found by search_path: the schema is whatever the sink was given.
-- Texts are as records have them, but for what PostgreSQL's texts cannot hold: see texts.py beside this folder.

-- What was delivered, each once, by a digest of pipeline, kind and id. It is what keeps a delivery that comes again from
-- standing twice: a unique index over partitions by time would have to have the time in it.
CREATE TABLE delivered (
    identity uuid PRIMARY KEY,
    month date NOT NULL
);

CREATE SEQUENCE alerts_seq;
CREATE TABLE alerts (
    seq bigint NOT NULL DEFAULT nextval('alerts_seq'),
    alert_id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    rule_id text NOT NULL,
    rule_version bigint NOT NULL,
    rule_type text NOT NULL,
    severity text NOT NULL,
    score double precision,
    action text,
    entities text[] NOT NULL,
    stream text NOT NULL,
    record_id text COLLATE "C" NOT NULL,
    event_time timestamptz NOT NULL,
    ingest_time timestamptz NOT NULL,
    value double precision,
    threshold double precision,
    message text NOT NULL,
    corrects text COLLATE "C",
    outcome text,
    detected_at timestamptz,
    delivered_at timestamptz NOT NULL,
    pipeline text NOT NULL,
    batch_id bigint NOT NULL,
    at_partition text,
    at_offset bigint,
    body json NOT NULL
) PARTITION BY RANGE (event_time);
COMMENT ON COLUMN alerts.entities IS 'field=value of each field of the key';
COMMENT ON COLUMN alerts.corrects IS 'of a correction: the alert_id of what it corrects';
COMMENT ON COLUMN alerts.outcome IS 'of a correction: retracted, amended or reinstated';
COMMENT ON COLUMN alerts.at_offset IS 'where the record stands at which it fired, with at_partition';
COMMENT ON COLUMN alerts.body IS 'the whole alert as it was delivered';
CREATE TABLE alerts_default PARTITION OF alerts DEFAULT;
CREATE INDEX alerts_by_id ON alerts (alert_id);
CREATE INDEX alerts_by_time ON alerts (event_time, seq);
CREATE INDEX alerts_by_rule ON alerts (rule_id, event_time, seq);
CREATE INDEX alerts_by_record ON alerts (record_id);
CREATE INDEX alerts_by_entity ON alerts USING gin (entities);
CREATE INDEX alerts_by_corrected ON alerts (corrects) WHERE corrects IS NOT NULL;

CREATE SEQUENCE decisions_seq;
CREATE TABLE decisions (
    seq bigint NOT NULL DEFAULT nextval('decisions_seq'),
    decision_id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    decision text NOT NULL,
    score double precision NOT NULL,
    policy_version bigint NOT NULL,
    revision bigint NOT NULL,
    revises text COLLATE "C",
    because text COLLATE "C",
    stream text NOT NULL,
    record_id text COLLATE "C" NOT NULL,
    event_time timestamptz NOT NULL,
    decided_at timestamptz,
    delivered_at timestamptz NOT NULL,
    pipeline text NOT NULL,
    batch_id bigint NOT NULL,
    body json NOT NULL
) PARTITION BY RANGE (event_time);
COMMENT ON COLUMN decisions.revises IS 'of a revision: the decision_id of the first decision on the record';
COMMENT ON COLUMN decisions.because IS 'of a revision: the alert_id of the correction that brought it about';
CREATE TABLE decisions_default PARTITION OF decisions DEFAULT;
CREATE INDEX decisions_by_id ON decisions (decision_id);
CREATE INDEX decisions_by_record ON decisions (record_id, seq);
CREATE INDEX decisions_by_time ON decisions (event_time, seq);
CREATE INDEX decisions_by_revised ON decisions (revises) WHERE revises IS NOT NULL;
CREATE INDEX decisions_not_allowed ON decisions (event_time, seq) WHERE decision <> 'allow';

CREATE SEQUENCE dead_letters_seq;
CREATE TABLE dead_letters (
    seq bigint NOT NULL DEFAULT nextval('dead_letters_seq'),
    stream text NOT NULL,
    "partition" text NOT NULL,
    "offset" bigint NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    record_id text COLLATE "C",
    raw bytea,
    delivered_at timestamptz NOT NULL,
    pipeline text NOT NULL,
    batch_id bigint NOT NULL
) PARTITION BY RANGE (delivered_at);
CREATE TABLE dead_letters_default PARTITION OF dead_letters DEFAULT;
CREATE INDEX dead_letters_by_reason ON dead_letters (reason, seq);
CREATE INDEX dead_letters_by_seq ON dead_letters (seq);
CREATE INDEX dead_letters_by_record ON dead_letters (record_id) WHERE record_id IS NOT NULL;

CREATE SEQUENCE late_records_seq;
CREATE TABLE late_records (
    seq bigint NOT NULL DEFAULT nextval('late_records_seq'),
    stream text NOT NULL,
    "partition" text NOT NULL,
    "offset" bigint NOT NULL,
    record_id text COLLATE "C" NOT NULL,
    event_time timestamptz NOT NULL,
    ingest_time timestamptz NOT NULL,
    lateness_ms bigint NOT NULL,
    raw bytea,
    delivered_at timestamptz NOT NULL,
    pipeline text NOT NULL,
    batch_id bigint NOT NULL
) PARTITION BY RANGE (delivered_at);
CREATE TABLE late_records_default PARTITION OF late_records DEFAULT;
CREATE INDEX late_records_by_record ON late_records (record_id);

CREATE SEQUENCE rule_events_seq;
CREATE TABLE rule_events (
    seq bigint NOT NULL DEFAULT nextval('rule_events_seq') PRIMARY KEY,
    rule_id text,
    version bigint,
    event text,
    body json NOT NULL,
    delivered_at timestamptz NOT NULL,
    pipeline text NOT NULL,
    batch_id bigint NOT NULL
);
CREATE INDEX rule_events_by_rule ON rule_events (rule_id, version, seq);

CREATE SEQUENCE batches_seq;
CREATE TABLE batches (
    seq bigint NOT NULL DEFAULT nextval('batches_seq'),
    alerts bigint NOT NULL,
    decisions bigint NOT NULL,
    dead_letters bigint NOT NULL,
    late_records bigint NOT NULL,
    figures json NOT NULL,
    delivered_at timestamptz NOT NULL,
    pipeline text NOT NULL,
    batch_id bigint NOT NULL
) PARTITION BY RANGE (delivered_at);
COMMENT ON TABLE batches IS 'one row a batch: what it gave, and figures of it';
CREATE TABLE batches_default PARTITION OF batches DEFAULT;
CREATE INDEX batches_by_number ON batches (pipeline, batch_id);

CREATE TABLE runs (
    run_id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    pipeline text NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at timestamptz
);

-- What investigators and other systems find out about records. crossline writes nothing here.
CREATE TABLE labels (
    stream text NOT NULL,
    record_id text COLLATE "C" NOT NULL,
    is_fraud boolean NOT NULL,
    fraud_id text,
    labelled_at timestamptz NOT NULL DEFAULT now(),
    labelled_by text NOT NULL DEFAULT current_user,
    note text,
    PRIMARY KEY (stream, record_id, labelled_at)
);
COMMENT ON TABLE labels IS 'verdicts on records; of several on one record the latest counts';

-- The records that an alert rests on, as far as it names them: the last 50.
CREATE VIEW evidence AS
    SELECT a.alert_id, e.position - 1 AS position, e.record_id, a.rule_id, a.event_time, a.pipeline
    FROM alerts AS a, json_array_elements_text(a.body -> 'evidence' -> 'record_ids')
        WITH ORDINALITY AS e (record_id, position);

-- Alerts with their last correction: outcome is null where nothing was corrected. Filter by outcome IS DISTINCT
-- FROM 'retracted' for those that stand. A correction has the event time of its alert.
CREATE VIEW alerts_now AS
    SELECT a.seq, a.alert_id, a.kind, a.rule_id, a.rule_version, a.rule_type, a.severity, a.score, a.action, a.entities,
        a.stream, a.record_id, a.event_time, a.ingest_time, a.threshold, a.detected_at, a.delivered_at, a.pipeline,
        c.outcome, CASE WHEN c.seq IS NULL THEN a.value ELSE c.value END AS value,
        coalesce(c.message, a.message) AS message, coalesce(c.body, a.body) AS body
    FROM alerts AS a
    LEFT JOIN LATERAL (
        SELECT seq, outcome, value, message, body FROM alerts AS c
        WHERE c.corrects = a.alert_id AND c.event_time = a.event_time AND c.pipeline = a.pipeline
        ORDER BY c.seq DESC LIMIT 1
    ) AS c ON true
    WHERE a.corrects IS NULL;

-- Decisions with the last revision of each, which has the event time of what it revises.
CREATE VIEW decisions_now AS
    SELECT d.seq, d.decision_id, coalesce(r.decision, d.decision) AS decision, coalesce(r.score, d.score) AS score,
        d.policy_version, coalesce(r.revision, d.revision) AS revision, d.stream, d.record_id, d.event_time,
        coalesce(r.decided_at, d.decided_at) AS decided_at, d.pipeline, coalesce(r.body, d.body) AS body
    FROM decisions AS d
    LEFT JOIN LATERAL (
        SELECT decision, score, revision, decided_at, body FROM decisions AS r
        WHERE r.revises = d.decision_id AND r.event_time = d.event_time AND r.pipeline = d.pipeline
        ORDER BY r.revision DESC, r.seq DESC LIMIT 1
    ) AS r ON true
    WHERE d.revises IS NULL;

-- The latest verdict on each record.
CREATE VIEW labels_now AS
    SELECT DISTINCT ON (stream, record_id) stream, record_id, is_fraud, fraud_id, labelled_at, labelled_by, note
    FROM labels
    ORDER BY stream, record_id, labelled_at DESC;
