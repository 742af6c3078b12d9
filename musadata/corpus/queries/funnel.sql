-- What became of the tasks: annotated, with a candidate, with an accepted one, solved first time, solved by repair.
SELECT
    operator_family,
    count(*) AS tasks,
    count(annotation_id) AS annotated,
    count(*) FILTER (candidates > 0) AS answered,
    count(*) FILTER (accepted > 0) AS solved,
    count(*) FILTER (first > 0) AS solved_at_once,
    count(*) FILTER (accepted > 0 AND first = 0) AS solved_by_repair
FROM tasks
LEFT JOIN (SELECT task_id, any_value(annotation_id) AS annotation_id FROM annotations GROUP BY ALL) USING (task_id)
LEFT JOIN (
    SELECT task_id, count(*) AS candidates, count(*) FILTER (accepted) AS accepted,
        count(*) FILTER (accepted AND turn = 1) AS first
    FROM candidates GROUP BY ALL
) USING (task_id)
GROUP BY ROLLUP (operator_family)
ORDER BY tasks DESC, operator_family
