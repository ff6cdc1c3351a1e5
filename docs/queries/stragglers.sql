-- Stragglers, and who waits for them: in each collective operation of NCCL the rank that is there last waits least, so
-- its range, or kernel, is the shortest. The others wait for the rest of theirs. Where the ranks of a run share several
-- communicators, the n-th operation of one name on each rank may belong to different ones.
WITH collectives AS (
    SELECT 'range' AS what, run, host, rank, pid, name, start_ns, duration_ns FROM ranges WHERE domain = 'NCCL'
    UNION ALL
    SELECT 'kernel' AS what, run, host, rank, pid, name, start_ns, duration_ns FROM kernels
    WHERE name LIKE 'ncclDevKernel%' OR name LIKE 'ncclKernel%'
),
numbered AS (
    SELECT what, run, host, rank, name, duration_ns,
        ROW_NUMBER() OVER (PARTITION BY what, run, host, rank, pid, name ORDER BY start_ns, duration_ns) AS number
    FROM collectives
),
shortest AS (
    SELECT what, run, name, number, MIN(duration_ns) AS least_ns, COUNT(*) AS ranks
    FROM numbered
    GROUP BY what, run, name, number
    HAVING COUNT(*) > 1
),
last_ones AS (
    SELECT n.what, n.run, n.name, n.number, MIN(n.rank) AS rank
    FROM numbered n
    JOIN shortest s ON s.what = n.what AND s.run = n.run AND s.name = n.name AND s.number = n.number
    WHERE n.duration_ns = s.least_ns
    GROUP BY n.what, n.run, n.name, n.number
),
waits AS (
    SELECT n.what, n.run, n.name, l.rank AS straggler, n.rank AS waiter,
        COUNT(*) AS collectives,
        CAST(SUM(n.duration_ns - s.least_ns) AS BIGINT) AS waited_ns,
        MAX(n.duration_ns - s.least_ns) AS longest_ns
    FROM numbered n
    JOIN shortest s ON s.what = n.what AND s.run = n.run AND s.name = n.name AND s.number = n.number
    JOIN last_ones l ON l.what = n.what AND l.run = n.run AND l.name = n.name AND l.number = n.number
    WHERE n.rank <> l.rank
    GROUP BY n.what, n.run, n.name, l.rank, n.rank
)
SELECT what, run, name, straggler, waiter, collectives, waited_ns, longest_ns,
    CAST(waited_ns AS DOUBLE) / collectives AS mean_wait_ns
FROM waits
ORDER BY waited_ns DESC, what, run, name, straggler, waiter
