-- How many alerts has each rule raised, and how many of them were taken back?
SELECT a.rule_id, a.rule_version, count(*) AS alerts, count(c.corrects) AS retracted
FROM alerts AS a
LEFT JOIN corrections AS c ON c.corrects = a.alert_id AND c.outcome = 'retracted'
GROUP BY a.rule_id, a.rule_version
ORDER BY a.rule_id, a.rule_version
