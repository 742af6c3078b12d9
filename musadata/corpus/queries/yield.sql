-- Rows for trainers for each task of an operator family.
WITH made AS (
    SELECT operator_family, 'sft' AS dataset FROM sft UNION ALL SELECT operator_family, 'rft' FROM rft
    UNION ALL SELECT operator_family, 'preferences' FROM preferences
    UNION ALL SELECT extra_info.operator_family, 'rl' FROM rl
), counted AS (
    SELECT operator_family, count(*) FILTER (dataset = 'sft') AS sft, count(*) FILTER (dataset = 'rft') AS rft,
        count(*) FILTER (dataset = 'preferences') AS preferences, count(*) FILTER (dataset = 'rl') AS rl
    FROM made GROUP BY ALL
)
SELECT operator_family, tasks, sft, rft, preferences, rl,
    round((sft + rft + preferences + rl) / tasks, 2) AS rows_per_task
FROM (SELECT operator_family, count(*) AS tasks FROM tasks GROUP BY ALL) JOIN counted USING (operator_family)
ORDER BY rows_per_task, operator_family
