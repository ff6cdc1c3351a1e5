-- Imbalance over time: each span by hour: its mean beside that of the whole run, and the busiest rank beside all ranks.
-- A slow hour has a large `times_the_run`. A straggler has a large `imbalance`.
WITH by_rank AS (
    SELECT run, domain, name, start_ns - start_ns % 3600000000000 AS hour_ns, host, rank,
        COUNT(*) AS instances,
        CAST(SUM(duration_ns) AS BIGINT) AS total_ns
    FROM ranges
    GROUP BY run, domain, name, start_ns - start_ns % 3600000000000, host, rank
),
numbered AS (
    SELECT by_rank.*,
        ROW_NUMBER() OVER (PARTITION BY run, domain, name, hour_ns ORDER BY total_ns DESC, host, rank) AS place
    FROM by_rank
),
by_hour AS (
    SELECT run, domain, name, hour_ns,
        CAST(SUM(instances) AS BIGINT) AS instances,
        CAST(SUM(total_ns) AS BIGINT) AS total_ns,
        COUNT(*) AS ranks,
        MAX(total_ns) AS most_ns,
        MAX(CASE WHEN place = 1 THEN rank END) AS busiest_rank,
        MAX(CASE WHEN place = 1 THEN host END) AS busiest_host
    FROM numbered
    GROUP BY run, domain, name, hour_ns
),
by_run AS (
    SELECT run, domain, name, CAST(SUM(total_ns) AS DOUBLE) / CAST(SUM(instances) AS DOUBLE) AS mean_ns
    FROM by_hour
    GROUP BY run, domain, name
)
SELECT h.run, h.domain, h.name, h.hour_ns, h.instances, h.ranks,
    CAST(h.total_ns AS DOUBLE) / h.instances AS mean_ns,
    CAST(h.total_ns AS DOUBLE) / h.instances / r.mean_ns AS times_the_run,
    CAST(h.most_ns AS DOUBLE) * h.ranks / h.total_ns AS imbalance,
    h.busiest_host, h.busiest_rank
FROM by_hour h
JOIN by_run r ON r.run = h.run AND COALESCE(r.domain, '') = COALESCE(h.domain, '') AND r.name = h.name
WHERE h.total_ns > 0
ORDER BY times_the_run DESC, imbalance DESC, run, name, hour_ns
