-- Idle causes by rank: what the devices of each rank did from their first operation to their last.
SELECT run, host, rank, device, state,
    CAST(SUM(time_ns) AS BIGINT) AS time_ns,
    100 * CAST(SUM(time_ns) AS DOUBLE) / CAST(SUM(of_ns) AS DOUBLE) AS percent
FROM states
WHERE subject = 'device'
GROUP BY run, host, rank, device, state
HAVING SUM(time_ns) > 0
ORDER BY CASE WHEN state = 'busy' THEN 1 ELSE 0 END, time_ns DESC, run, host, rank, device, state
