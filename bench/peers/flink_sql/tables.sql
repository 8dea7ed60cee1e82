CREATE TEMPORARY TABLE tx (
  transaction_id STRING,
  account_id STRING,
  merchant_id STRING,
  amount_cents BIGINT,
  payment_type STRING,
  event_time BIGINT,
  ts AS TO_TIMESTAMP_LTZ(event_time, 3),
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${input}', 'format' = 'json');

CREATE TEMPORARY TABLE answers (
  rule_id STRING,
  transaction_id STRING,
  figure DOUBLE
) WITH ('connector' = 'filesystem', 'path' = '${output}', 'format' = 'json');
