-- Kernels by span: which kernels the spans of each name launch, and how long these run.
WITH by_span AS (
    SELECT run, span, name,
        COUNT(*) AS instances,
        CAST(SUM(duration_ns) AS BIGINT) AS total_ns,
        MAX(duration_ns) AS max_ns,
        COUNT(DISTINCT rank) AS ranks
    FROM kernels
    GROUP BY run, span, name
)
SELECT run, span, name, instances, total_ns, CAST(total_ns AS DOUBLE) / instances AS mean_ns, max_ns, ranks,
    100 * CAST(total_ns AS DOUBLE) / CAST(SUM(total_ns) OVER (PARTITION BY run) AS DOUBLE) AS percent
FROM by_span
ORDER BY total_ns DESC, run, span, name
