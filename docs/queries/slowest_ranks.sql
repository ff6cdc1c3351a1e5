-- Slowest ranks by span: how long the ranges of each name take on each rank, beside all ranks of the run.
WITH by_rank AS (
    SELECT run, domain, name, host, rank,
        COUNT(*) AS instances,
        CAST(SUM(duration_ns) AS BIGINT) AS total_ns,
        CAST(SUM(duration_ns) AS DOUBLE) / COUNT(*) AS mean_ns,
        MAX(duration_ns) AS max_ns
    FROM ranges
    GROUP BY run, domain, name, host, rank
),
by_run AS (
    SELECT run, domain, name, median(mean_ns) AS median_mean_ns, COUNT(*) AS ranks
    FROM by_rank
    GROUP BY run, domain, name
)
SELECT r.run, r.domain, r.name, r.host, r.rank, r.instances, r.total_ns, r.mean_ns, r.max_ns, b.ranks,
    r.mean_ns / b.median_mean_ns AS times_the_median
FROM by_rank r
JOIN by_run b ON b.run = r.run AND COALESCE(b.domain, '') = COALESCE(r.domain, '') AND b.name = r.name
WHERE b.median_mean_ns > 0
ORDER BY times_the_median DESC, total_ns DESC, run, name, host, rank
