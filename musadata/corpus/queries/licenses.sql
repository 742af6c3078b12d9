-- Under which licences tasks and rows for trainers stand.
SELECT license, count(*) FILTER (dataset = 'tasks') AS tasks, count(*) FILTER (dataset = 'sft') AS sft,
    count(*) FILTER (dataset = 'rft') AS rft, count(*) FILTER (dataset = 'preferences') AS preferences,
    count(*) FILTER (dataset = 'rl') AS rl
FROM (
    SELECT provenance.license AS license, 'tasks' AS dataset FROM tasks
    UNION ALL SELECT license, 'sft' FROM sft UNION ALL SELECT license, 'rft' FROM rft
    UNION ALL SELECT license, 'preferences' FROM preferences UNION ALL SELECT license, 'rl' FROM rl
)
GROUP BY ALL ORDER BY tasks DESC, license
