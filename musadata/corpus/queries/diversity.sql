-- How many kinds of kernels solve a task: accepted candidates, structures and techniques.
SELECT operator_family, count(DISTINCT task_id) AS solved_tasks, count(*) AS accepted,
    count(*) FILTER (kept) AS kept, count(DISTINCT structure) AS structures, count(DISTINCT algorithm) AS techniques,
    round(count(DISTINCT (task_id, structure)) / count(DISTINCT task_id), 2) AS structures_per_task
FROM candidates JOIN tasks USING (task_id) WHERE accepted
GROUP BY ALL ORDER BY accepted DESC, operator_family
