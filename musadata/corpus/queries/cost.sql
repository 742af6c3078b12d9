-- Tokens that were paid for, by stage and teacher, and for each accepted candidate.
SELECT dataset, teacher, count(*) AS replies, sum(usage.prompt_tokens) AS prompt_tokens,
    sum(usage.completion_tokens) AS completion_tokens, count(*) FILTER (accepted) AS accepted,
    round(sum(usage.completion_tokens) / nullif(count(*) FILTER (accepted), 0)) AS tokens_per_accepted
FROM (
    SELECT 'annotations' AS dataset, teacher, usage, grounded AS accepted FROM annotations
    UNION ALL SELECT 'candidates', teacher, usage, accepted FROM candidates
)
GROUP BY ALL ORDER BY completion_tokens DESC, dataset, teacher
