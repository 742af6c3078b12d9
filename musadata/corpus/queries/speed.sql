-- Speedups over eager PyTorch, where a device measured them: accepted candidates, and the best of each task.
SELECT operator_family, count(*) AS timed, round(quantile_disc(speedup, 0.5), 2) AS median,
    round(max(speedup), 2) AS best, count(DISTINCT task_id) AS tasks,
    count(DISTINCT task_id) FILTER (speedup > 1.1) AS tasks_faster
FROM candidates JOIN tasks USING (task_id) WHERE accepted AND speedup IS NOT NULL
GROUP BY ALL ORDER BY timed DESC, operator_family
