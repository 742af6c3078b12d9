-- Tokens of whole rows for trainers, by family.
SELECT dataset, family, count(*) AS rows, quantile_disc(tokens, 0.5) AS median, quantile_disc(tokens, 0.95) AS p95,
    max(tokens) AS longest
FROM (
    SELECT 'sft' AS dataset, family, greatest(prompt_tokens + completion_tokens, conversation_tokens) AS tokens FROM sft
    UNION ALL SELECT 'rft', '', greatest(prompt_tokens + completion_tokens, conversation_tokens) FROM rft
    UNION ALL SELECT 'preferences', kind, prompt_tokens + greatest(chosen_tokens, rejected_tokens) FROM preferences
    UNION ALL SELECT 'rl', '', prompt_tokens FROM rl
)
GROUP BY ALL ORDER BY dataset, rows DESC, family
