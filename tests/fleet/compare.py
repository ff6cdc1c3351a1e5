"""Runs all queries on all engines, and compares their rows: `compare.py FOLDER RANKS ENGINES MASTER COMMAND`."""

import csv
import math
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "queries"))
import run  # noqa: E402

# What tests/examples/fleet.rs plants.
STRAGGLER, SLOW_HOUR, MIDNIGHT = 5, 17, 1_764_115_200
SECOND = 1_000_000_000
MOST_WAIT = 5_000_000
RANKS_OF_A_HOST, OF_HOST_EACH, MOST_LISTED = 8, 4, 2_048
CHILD = "--duckdb"


def same(left, right):
    """Whether two values are the same; floating-point numbers within what the order of a sum changes."""
    if isinstance(left, float) or isinstance(right, float):
        return left is not None and right is not None and math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-6)
    return left == right


def key(row):
    """A row without its floating-point numbers, which may differ in their last digits."""
    return tuple("" if isinstance(value, float) else str(value) for value in row)


def compare(name, first, second):
    """Fails unless both results have the same rows."""
    assert first[0] == second[0], (name, first[0], second[0])
    assert len(first[1]) == len(second[1]), f"{name}: {len(first[1])} and {len(second[1])} rows"
    for left, right in zip(sorted(first[1], key=key), sorted(second[1], key=key)):
        assert all(map(same, left, right)), f"{name}:\n{left}\n{right}"


def dictionaries(result):
    """Rows by the names of their columns."""
    return [dict(zip(result[0], row)) for row in result[1]]


def judged(steps, is_of_host):
    """How many exchanges of a rank with the straggler are judged: not the first, nor one that a rank does not list."""
    of_host = steps // OF_HOST_EACH
    of_all = steps - of_host
    from_all = of_all - 1 - max(1, of_all - MOST_LISTED)
    return from_all + (of_host - max(1, of_host - MOST_LISTED) if is_of_host else 0)


def check(folder, ranks, results):
    """Compares results with what was made."""
    with open(os.path.join(folder, "truth.csv"), encoding="utf-8") as file:
        truth = {(row["run"], int(row["rank"]), row["name"]): row for row in csv.DictReader(file)}
    found = {(row["run"], row["rank"], row["name"]): row for row in dictionaries(results["slowest_ranks"])}
    assert found.keys() == truth.keys(), found.keys() ^ truth.keys()
    for place, row in truth.items():
        for column in ["instances", "total_ns", "max_ns"]:
            assert found[place][column] == int(row[column]), (place, column)
    assert sum(int(row["instances"]) for row in truth.values()) == results["count"]
    slowest = next(row for row in dictionaries(results["over_time"]) if row["run"] == "monday")
    assert (slowest["name"], slowest["hour_ns"] // SECOND) == ("load", MIDNIGHT + SLOW_HOUR * 3600), slowest
    if ranks > 1:
        straggler = min(STRAGGLER, ranks - 1)
        stragglers = dictionaries(results["stragglers"])
        worst = [row for row in stragglers if row["run"] == "monday"][: ranks - 1]
        assert sorted(row["waiter"] for row in worst) == sorted(set(range(ranks)) - {straggler}), worst
        for row in worst:
            told = [row[column] for column in ["name", "straggler", "before_range", "before_state"]]
            assert told == ["AllReduce", straggler, "forward", "GPU work"], row
            assert 0 < row["cost_ns"] < row["waited_ns"], row
            steps = int(truth["monday", row["waiter"], "step"]["instances"])
            is_of_host = row["waiter"] // RANKS_OF_A_HOST == straggler // RANKS_OF_A_HOST
            assert row["collectives"] == judged(steps, is_of_host), row
        # The first exchange, in which some wait longer, is left out, and each other one is matched with itself.
        assert max(row["longest_ns"] for row in stragglers) <= MOST_WAIT, stragglers
        waited = {(row["run"], row["straggler"]) for row in stragglers if row["waited_ns"]}
        assert waited == {("monday", straggler), ("tuesday", 1)}, waited
        forward = next(
            row for row in dictionaries(results["slowest_ranks"]) if (row["run"], row["name"]) == ("monday", "forward")
        )
        assert forward["rank"] == straggler, forward
    worse = dictionaries(results["regressions"])[0]
    assert (worse["name"], round(worse["percent"])) == ("optimizer", 25) and worse["sigmas"] > 3, worse
    busiest = dictionaries(results["kernels"])[0]
    assert (busiest["span"], busiest["name"]) == ("forward", "sgemm_128x128"), busiest
    blamed = dictionaries(results["blame"])[0]
    assert (blamed["waiter"], blamed["waited_for"]) == ("step", "ncclAllReduce"), blamed
    idle = dictionaries(results["idle"])[0]
    assert idle["state"] == "host code", idle
    if ranks > STRAGGLER + 1:
        far = dictionaries(results["outliers"])
        assert any(row["name"] == "forward" and row["rank"] == ranks - 1 and "batch" in row["fields"] for row in far)


class Memory:
    """The largest resident memory of all of this process's descendants, and of the cluster."""

    def __init__(self):
        self.most, self.ended = 0, False
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        while not self.ended:
            lines = subprocess.run(["ps", "-eo", "rss=,args="], capture_output=True, text=True).stdout.splitlines()
            sizes = [line.split(None, 1) for line in lines]
            self.most = max(self.most, sum(int(size) for size, text in sizes if "org.apache.spark" in text))
            time.sleep(0.2)

    def end(self):
        self.ended = True
        self.thread.join()
        return self.most / 1024


def part(folder, ranks, into):
    """Links the first ranks of all runs into a folder."""
    for of_run in os.listdir(folder):
        for host in os.listdir(os.path.join(folder, of_run)) if of_run.startswith("run=") else []:
            for rank in os.listdir(os.path.join(folder, of_run, host)):
                if int(rank.split("=")[1]) < ranks:
                    place = os.path.join(into, of_run, host)
                    os.makedirs(place, exist_ok=True)
                    os.symlink(os.path.join(folder, of_run, host, rank), os.path.join(place, rank))
    return into


def results_of(engine):
    """The rows of all queries, and the seconds that each took."""
    results, seconds = {}, {}
    for name in run.names():
        began = time.monotonic()
        results[name] = run.rows(engine, name)
        seconds[name] = time.monotonic() - began
    results["count"] = engine.run("SELECT COUNT(*) FROM ranges")[1][0][0]
    return results, seconds


def child(folder):
    """DuckDB in this process, whose memory is therefore known: the results go to standard output."""
    results, seconds = results_of(run.engine("duckdb", folder))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    pickle.dump((results, seconds, most), sys.stdout.buffer)


def duckdb(folder):
    """DuckDB in a process of its own."""
    command = [sys.executable, os.path.abspath(__file__), CHILD, folder]
    return pickle.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def main():
    folder, ranks, engines, master = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(), sys.argv[4]
    print("| ranks | ranges | engine | seconds | of it the slowest | MB |\n|--:|--:|---|--:|---|--:|")
    counts = sorted({1, 8, ranks} & set(range(1, ranks + 1)))
    for count in counts:
        with tempfile.TemporaryDirectory() as linked:
            place = folder if count == ranks else part(folder, count, linked)
            both = {}
            for name in engines:
                memory = Memory() if name == "spark" else None
                if name == "duckdb":
                    results, seconds, most = duckdb(place)
                else:
                    settings = [("spark.executor.memory", "2g"), ("spark.sql.shuffle.partitions", "8")]
                    engine = run.engine("spark", place, master=master, settings=settings)
                    results, seconds = results_of(engine)
                    most = memory.end()
                    engine.close()
                slowest = max(seconds, key=seconds.get)
                print(
                    f"| {count} | {results['count']:,} | {name} | {sum(seconds.values()):.1f} "
                    f"| {slowest} {seconds[slowest]:.1f} | {most:,.0f} |",
                    flush=True,
                )
                both[name] = results
            first, *others = both.values()
            for name in run.names():
                for other in others:
                    compare(name, first[name], other[name])
            if count == ranks:
                for results in both.values():
                    check(folder, ranks, results)
    same_rows = f"; {', '.join(engines)} have the same rows" if len(engines) > 1 else ""
    print(f"the straggler, the slow hour, the slower run and the outliers are named{same_rows}")


if __name__ == "__main__":
    child(sys.argv[2]) if sys.argv[1] == CHILD else main()
