-- Stragglers, and who waits for them in collective operations of NCCL. An operation has one number in its communicator
-- on all ranks, and ends on all of them together. So the rank with the shortest one came last, and each other rank
-- waited for the rest of its own. The clocks of the ranks are not compared. `waited_ns` is that time. `cost_ns` is what
-- it costs at most: the part of it in which nothing else ran on the device of the waiter.
--
-- The query leaves out the first operation of each communicator, because processes start at different times;
-- operations that some rank does not list, or a process with two profilers lists twice; and names for which not every
-- rank needs all others.
--
-- `before_range` and `before_state` are what the straggler did for longest before an operation, if that took longer
-- than on the waiter by at least half of the wait. They are those of most of `waited_ns`, and NULL where nothing
-- explains it.
WITH members AS (
    SELECT run, communicator, COUNT(*) AS ranks
    FROM (SELECT DISTINCT run, communicator, host, rank, pid FROM collectives) each_once
    GROUP BY run, communicator
),
judged AS (
    SELECT collectives.*,
        COUNT(*) OVER (PARTITION BY run, communicator, number, host, rank, pid) AS times
    FROM collectives
    WHERE number > 0 AND name IN ('AllReduce', 'AllGather', 'ReduceScatter')
),
ordered AS (
    SELECT run, communicator, number, name, rank, duration_ns, alone_ns, before_range, before_state,
        COALESCE(before_ns, 0) AS before_ns,
        ROW_NUMBER() OVER (
            PARTITION BY run, communicator, number, name ORDER BY duration_ns, rank, host, pid
        ) AS place,
        COUNT(*) OVER (PARTITION BY run, communicator, number, name) AS present
    FROM judged
    WHERE times = 1
),
pairs AS (
    SELECT w.run, w.name, l.rank AS straggler, w.rank AS waiter, l.before_range, l.before_state,
        w.duration_ns - l.duration_ns AS waited_ns,
        LEAST(w.duration_ns - l.duration_ns, w.alone_ns) AS cost_ns,
        CASE
            WHEN COALESCE(w.before_range, '') = COALESCE(l.before_range, '')
                AND COALESCE(w.before_state, '') = COALESCE(l.before_state, '')
            THEN l.before_ns - w.before_ns
            ELSE l.before_ns
        END AS longer_ns
    FROM ordered w
    JOIN ordered l
        ON l.run = w.run AND l.communicator = w.communicator AND l.number = w.number AND l.name = w.name
    JOIN members m ON m.run = w.run AND m.communicator = w.communicator AND m.ranks = w.present
    WHERE l.place = 1 AND w.place > 1
),
explained AS (
    SELECT run, name, straggler, waiter, waited_ns, cost_ns,
        CASE WHEN 2 * longer_ns >= waited_ns THEN before_range END AS before_range,
        CASE WHEN 2 * longer_ns >= waited_ns THEN before_state END AS before_state
    FROM pairs
),
by_part AS (
    SELECT run, name, straggler, waiter, before_range, before_state,
        COUNT(*) AS collectives,
        SUM(waited_ns) AS waited_ns,
        SUM(cost_ns) AS cost_ns,
        MAX(waited_ns) AS longest_ns,
        ROW_NUMBER() OVER (
            PARTITION BY run, name, straggler, waiter
            ORDER BY SUM(waited_ns) DESC, COALESCE(before_state, ''), COALESCE(before_range, '')
        ) AS place
    FROM explained
    GROUP BY run, name, straggler, waiter, before_range, before_state
)
SELECT run, name, straggler, waiter,
    CAST(SUM(collectives) AS BIGINT) AS collectives,
    CAST(SUM(waited_ns) AS BIGINT) AS waited_ns,
    CAST(SUM(cost_ns) AS BIGINT) AS cost_ns,
    MAX(longest_ns) AS longest_ns,
    CAST(SUM(waited_ns) AS DOUBLE) / SUM(collectives) AS mean_wait_ns,
    MAX(CASE WHEN place = 1 THEN before_range END) AS before_range,
    MAX(CASE WHEN place = 1 THEN before_state END) AS before_state
FROM by_part
GROUP BY run, name, straggler, waiter
ORDER BY cost_ns DESC, waited_ns DESC, run, name, straggler, waiter
