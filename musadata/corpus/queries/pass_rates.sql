-- pass@k of first answers without seeded faults, by the unbiased estimator, over tasks with at least k samples.
WITH samples AS (
    SELECT task_id, teacher, count(*) AS n, count(*) FILTER (accepted) AS c
    FROM candidates
    WHERE turn = 1 AND fault = '' AND teacher <> 'human'
        AND (error_class IS NULL OR error_class NOT IN ('unsupported', 'infra'))
    GROUP BY ALL
), estimated AS (
    SELECT teacher, operator_family, k, n, c,
        CASE WHEN n - c < k THEN 1.0 ELSE 1 - coalesce(list_product([1 - k / i FOR i IN range(n - c + 1, n + 1)]), 1) END AS p
    FROM samples JOIN tasks USING (task_id), unnest([1, 2, 4, 8, 16]) AS ks (k)
    WHERE n >= k
)
SELECT teacher, operator_family, k, count(*) AS tasks, round(avg(p), 4) AS pass_at_k, round(avg(c / n), 4) AS avg_at_k
FROM estimated GROUP BY GROUPING SETS ((teacher, operator_family, k), (teacher, k))
ORDER BY teacher, operator_family NULLS FIRST, k
