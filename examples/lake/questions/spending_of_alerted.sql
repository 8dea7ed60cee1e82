-- What did the accounts with an alert of severity high spend, alerts or not?
SELECT r.account_id, count(*) AS payments, sum(r.amount_cents) AS cents
FROM records_payments AS r
WHERE NOT r._duplicate
  AND r.account_id IN (SELECT p.account_id FROM records_payments AS p
                       INNER JOIN alerts AS a ON a.record_id = p._record_id WHERE a.severity = 'high')
GROUP BY r.account_id
ORDER BY r.account_id
