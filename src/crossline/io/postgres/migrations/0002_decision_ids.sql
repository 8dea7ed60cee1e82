-- A decision is found by its id through ``delivered``: a second index of random ids was the dearest of all of its table.
-- Whoever writes ``delivered`` states the time that partitions go by: of a decision its ``event_time``, under which it
-- stands in ``decisions``. Rows of before have none but for decisions.
ALTER TABLE delivered ADD COLUMN at timestamptz;
COMMENT ON COLUMN delivered.identity IS 'of a decision with an id of its own: see identity_of_decision; else a digest';
COMMENT ON COLUMN delivered.at IS 'event_time of alerts and decisions, else delivered_at; null: delivered before version 2';

-- The first half of the id as it is, so that the start of an id finds it. The second half with a digest of the pipeline.
CREATE FUNCTION identity_of_decision(decision_id text, pipeline text) RETURNS uuid
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (left(replace(decision_id, '-', ''), 16) || lpad(to_hex((
        ('x' || right(replace(decision_id, '-', ''), 16))::bit(64)
        # ('x' || encode(substr(sha256(convert_to(pipeline, 'UTF8')), 1, 8), 'hex'))::bit(64)
    )::bigint), 16, '0'))::uuid;

INSERT INTO delivered (identity, month, at)
    SELECT identity_of_decision(decision_id, pipeline), date_trunc('month', event_time AT TIME ZONE 'UTC')::date, event_time
    FROM decisions
    WHERE decision_id ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
    ORDER BY 1
    ON CONFLICT (identity) DO NOTHING;

-- An older crossline that still runs would note decisions under other identities, and would write them twice after its
-- update. It fails here, and holds its batch until it is updated.
ALTER TABLE delivered ADD CONSTRAINT written_by_a_crossline_of_these_tables CHECK (at IS NOT NULL) NOT VALID;

DROP INDEX decisions_by_id;
-- Ids that are no UUID: crossline makes none.
CREATE INDEX decisions_by_other_id ON decisions (decision_id) WHERE octet_length(decision_id) <> 36;

-- A decision by its id, for queries by hand; several pipelines of a schema may have one each.
CREATE FUNCTION decision_of(id uuid) RETURNS SETOF decisions LANGUAGE sql STABLE STRICT AS $$
    SELECT d.* FROM (
        SELECT DISTINCT at FROM delivered
        WHERE identity >= overlay(id::text PLACING '0000-000000000000' FROM 20)::uuid
            AND identity <= overlay(id::text PLACING 'ffff-ffffffffffff' FROM 20)::uuid
    ) AS n CROSS JOIN LATERAL (
        SELECT * FROM decisions WHERE event_time = n.at AND decision_id = id::text OFFSET 0
    ) AS d
$$;
