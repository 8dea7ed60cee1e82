INSERT INTO answers
SELECT 'account_sum', transaction_id, CAST(figure AS DOUBLE) FROM (
  SELECT transaction_id, SUM(amount_cents) OVER (
    PARTITION BY account_id ORDER BY ts RANGE BETWEEN INTERVAL '9:59.999' MINUTE TO SECOND PRECEDING AND CURRENT ROW
  ) AS figure FROM tx
) WHERE figure > 200000;

INSERT INTO answers
SELECT 'merchant_count', transaction_id, CAST(figure AS DOUBLE) FROM (
  SELECT transaction_id, COUNT(*) OVER (
    PARTITION BY merchant_id ORDER BY ts RANGE BETWEEN INTERVAL '9.999' SECOND PRECEDING AND CURRENT ROW
  ) AS figure FROM tx
) WHERE figure >= 25;

INSERT INTO answers
SELECT 'pair_sum', transaction_id, CAST(figure AS DOUBLE) FROM (
  SELECT transaction_id, SUM(amount_cents) OVER (
    PARTITION BY account_id, merchant_id ORDER BY ts
    RANGE BETWEEN INTERVAL '16:39.999' MINUTE TO SECOND PRECEDING AND CURRENT ROW
  ) AS figure FROM tx
) WHERE figure > 100000;

INSERT INTO answers
SELECT 'cash_average', transaction_id, figure FROM (
  SELECT transaction_id, AVG(CAST(amount_cents AS DOUBLE)) OVER (
    PARTITION BY account_id ORDER BY ts RANGE BETWEEN INTERVAL '4:59.999' MINUTE TO SECOND PRECEDING AND CURRENT ROW
  ) AS figure FROM tx WHERE payment_type = 'CSH'
) WHERE figure > 50000;
