-- Which records triggered alerts, and how late were they?
SELECT a.rule_id, a.record_id, r.amount_cents, r.country
FROM alerts AS a
INNER JOIN records_payments AS r ON r._record_id = a.record_id
WHERE NOT r._duplicate
ORDER BY a.record_id, a.rule_id
