-- Regressions between runs: the mean of each span beside that of the run before, over all ranks. A change counts if it
-- is larger than the spread of both runs explains: `sigmas` above 3.
WITH by_run AS (
    SELECT run, domain, name,
        MIN(start_ns) AS start_ns,
        COUNT(*) AS instances,
        AVG(CAST(duration_ns AS DOUBLE)) AS mean_ns,
        COALESCE(stddev_samp(CAST(duration_ns AS DOUBLE)), 0) AS stddev_ns
    FROM ranges
    GROUP BY run, domain, name
),
beside AS (
    SELECT by_run.*,
        LAG(run) OVER (PARTITION BY domain, name ORDER BY start_ns, run) AS before_run,
        LAG(instances) OVER (PARTITION BY domain, name ORDER BY start_ns, run) AS before_instances,
        LAG(mean_ns) OVER (PARTITION BY domain, name ORDER BY start_ns, run) AS before_mean_ns,
        LAG(stddev_ns) OVER (PARTITION BY domain, name ORDER BY start_ns, run) AS before_stddev_ns
    FROM by_run
),
judged AS (
    SELECT beside.*,
        SQRT(stddev_ns * stddev_ns / instances + before_stddev_ns * before_stddev_ns / before_instances) AS error_ns
    FROM beside
    WHERE before_run IS NOT NULL AND before_mean_ns > 0
)
SELECT domain, name, before_run, run, before_instances, instances, before_mean_ns, mean_ns,
    (mean_ns / before_mean_ns - 1) * 100 AS percent,
    CASE WHEN error_ns > 0 THEN (mean_ns - before_mean_ns) / error_ns END AS sigmas
FROM judged
ORDER BY percent DESC, name, run
