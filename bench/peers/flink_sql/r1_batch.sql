INSERT INTO answers
SELECT 'account_count', transaction_id, CAST(figure AS DOUBLE) FROM (
  SELECT transaction_id, COUNT(*) OVER (
    PARTITION BY account_id ORDER BY event_time RANGE BETWEEN 59999 PRECEDING AND CURRENT ROW
  ) AS figure FROM tx
) WHERE figure >= 10;
