-- What each step dropped, by reason.
SELECT dataset, step, reason, count(*) AS rows, any_value(detail) AS example
FROM rejects GROUP BY ALL ORDER BY rows DESC, dataset, step, reason
