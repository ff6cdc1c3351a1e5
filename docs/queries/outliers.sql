-- Outliers with their fields: the 20 longest ranges of each name and run that are far above its mean.
WITH by_name AS (
    SELECT run, domain, name,
        AVG(CAST(duration_ns AS DOUBLE)) AS mean_ns,
        stddev_samp(CAST(duration_ns AS DOUBLE)) AS stddev_ns
    FROM ranges
    GROUP BY run, domain, name
    HAVING COUNT(*) > 99
),
far AS (
    SELECT r.run, r.domain, r.name, r.host, r.rank, r.thread, r.start_ns, r.duration_ns, r.fields, r.span_id, b.mean_ns,
        ROW_NUMBER() OVER (
            PARTITION BY r.run, r.domain, r.name
            ORDER BY r.duration_ns DESC, r.start_ns, r.host, r.rank, r.thread
        ) AS place
    FROM ranges r
    JOIN by_name b ON b.run = r.run AND COALESCE(b.domain, '') = COALESCE(r.domain, '') AND b.name = r.name
    WHERE r.duration_ns > b.mean_ns + 5 * b.stddev_ns
)
SELECT run, domain, name, host, rank, thread, start_ns, duration_ns, duration_ns / mean_ns AS times_the_mean, fields
FROM far
WHERE place <= 20
ORDER BY times_the_mean DESC, run, name, start_ns, host, rank
