-- Which spans make calls wait: over all ranks of a run. `waited_for` is NULL where a call was woken from no span.
SELECT run, waiter, waited_for, resource,
    CAST(SUM(waits) AS BIGINT) AS waits,
    CAST(SUM(time_ns) AS BIGINT) AS time_ns,
    MAX(longest_ns) AS longest_ns,
    COUNT(DISTINCT rank) AS ranks,
    MAX(p99_without_ns) AS p99_without_ns
FROM waits
GROUP BY run, waiter, waited_for, resource
ORDER BY time_ns DESC, run, waiter, waited_for, resource
