-- Failed candidates by error class and first finding, seeded faults apart.
SELECT error_class, fault <> '' AS seeded, coalesce(findings[1].rule, '') AS rule, count(*) AS candidates,
    any_value(candidate_id) AS example
FROM candidates WHERE NOT accepted GROUP BY ALL ORDER BY candidates DESC, error_class, rule
