#!/usr/bin/env python3
"""Compares what `nsys stats` says of a database of ours with our own summary of the same run, value by value.

usage: compare_stats.py SUMMARY.json FOLDER
       compare_stats.py --reports               their names, on one line

Both files are of one run: `TRACING_GPU=sqlite=run.sqlite,json=SUMMARY.json`. FOLDER has the output of `nsys stats
--format csv run.sqlite` as REPORT.csv, for the reports of REPORTS below.

Prints a line a report, and `!!` lines for rows that are in one of the two only and for values that differ by more than
their last printed digit; exits with 1 if there is any. Times of ranges may differ by 1 ns an instance, since a database
has whole nanoseconds, and by a part in 100,000: a database converts the clock's ticks by its rate as measured so far, a
summary by that of the whole run.
"""

import sys
from collections import defaultdict

from compare_activity import MEMORY, arguments, exact_name, function_name, label, number, rows_of, text

REPORTS = [
    "nvtx_pushpop_sum", "nvtx_startend_sum", "nvtx_sum", "nvtx_pushpop_trace", "nvtx_gpu_proj_sum",
    "nvtx_gpu_proj_trace", "nvtx_kern_sum",
    "cuda_api_sum", "cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "cuda_gpu_sum",
    "cuda_gpu_trace", "cuda_kern_exec_sum",
]


failures = 0


def wrong(report, what):
    global failures
    failures += 1
    print(f"!! {report}: {what}")


class Table:
    """A report of nsys and the rows of ours that it must consist of."""

    def __init__(self, folder, report, key):
        self.report, self.values = report, 0
        self.theirs = defaultdict(list)
        for row in rows_of(folder / f"{report}.csv"):
            self.theirs[key(row)].append(row)
        self.ours = defaultdict(list)

    def want(self, key, **columns):
        """A row of ours: by the heading, with _ for blank, the value, and by how much it may be off."""
        self.ours[key].append({name.replace("_", " "): value for name, value in columns.items()})

    def compare(self):
        for key in sorted(self.ours.keys() | self.theirs.keys(), key=str):
            ours, theirs = self.ours[key], self.theirs[key]
            if len(ours) != len(theirs):
                wrong(self.report, f"{key}: {len(ours)} rows of ours, {len(theirs)} of nsys")
                continue
            # Several of one key: kernels of one name on one thread, say. In the order of their values.
            first = next(iter(ours[0]))
            ours.sort(key=lambda row: row[first][0])
            theirs.sort(key=lambda row: number(row, first))
            for mine, other in zip(ours, theirs):
                for name, (value, off) in mine.items():
                    self.values += 1
                    there = number(other, name)
                    if abs(there - value) > off:
                        wrong(self.report, f"{key}: {name} {value:,.4f} of ours, {there:,.4f} of nsys")
        print(f"   {self.report:<24} {sum(map(len, self.ours.values())):>5} rows, {self.values:>6} values")


def times(prefix, t, total):
    """The columns of durations: their values, and half of the last digit that is printed."""
    columns = {
        total: (t["total_ns"], 0),
        f"{prefix}Avg": (t["total_ns"] / t["instances"], 0.0501),
        f"{prefix}Min": (t["min_ns"], 0),
        f"{prefix}Max": (t["max_ns"], 0),
        f"{prefix}StdDev": (t["stddev_ns"], 0.0501 + t["stddev_ns"] * 1e-9),
    }
    if t["median_exact"] and t["median_ns"] is not None:
        columns[f"{prefix}Med"] = (t["median_ns"], 0.0501)
    return columns


def near(columns, total, t):
    """The same columns where both sides made nanoseconds of ticks."""
    for name, (value, off) in columns.items():
        instances = t["instances"] if name == total else 1
        columns[name] = (value, off + instances + value * 1e-5)
    return columns


def share(rows, off=0):
    whole = sum(row["times"]["total_ns"] for row in rows)
    return lambda row: {"Time (%)": (100 * row["times"]["total_ns"] / whole if whole else 0, 0.0501 + off)}


def ranges(summary, folder):
    push_pop, start_end = {"PushPop"}, {"StartEnd"}
    reports = {"nvtx_pushpop_sum": push_pop, "nvtx_startend_sum": start_end, "nvtx_sum": push_pop | start_end}
    for report, styles in reports.items():
        both = len(styles) > 1
        table = Table(folder, report, lambda row: (text(row, "Range"), text(row, "Style") if both else ""))
        rows = [row for row in summary["ranges"] if row["style"] in styles]
        percent = share(rows, 0.002)
        for row in rows:
            key = (label(row["domain"], row["name"]), row["style"] if both else "")
            t = row["times"]
            table.want(key, **near(times("", t, "Total Time"), "Total Time", t), **percent(row),
                Instances=(t["instances"], 0))
        table.compare()
    # Each instance, so their number and their sum.
    table, sums = Table(folder, "nvtx_pushpop_trace", lambda row: text(row, "Name")), {}
    for name, instances in table.theirs.items():
        total = str(sum(number(row, "Duration") for row in instances))
        sums[name] = [{"Instances": str(len(instances)), "Total": total}]
    table.theirs = defaultdict(list, sums)
    for row in summary["ranges"]:
        if row["style"] == "PushPop":
            t = row["times"]
            table.want(label(row["domain"], row["name"]), Total=(t["total_ns"], t["instances"] + t["total_ns"] * 1e-5),
                Instances=(t["instances"], 0))
    table.compare()


def projections(gpu, folder):
    table = Table(folder, "nvtx_gpu_proj_sum", lambda row: (text(row, "Range"), text(row, "Style")))
    # Start/end ranges are no level and no child in our table: the ranges in those of this program have their names.
    lifetimes = {label(row["domain"], row["name"]) for row in gpu["projections"] if row["style"] == "StartEnd"}
    for row in gpu["projections"]:
        t, n = row["projected"], row["projected"]["instances"]
        nesting = {
            "Avg Range Lvl": (row["level_sum"] / n, 0.0501),
            "Avg Num Child": (row["children_sum"] / n, 0.0501),
        }
        table.want(
            (label(row["domain"], row["name"]), row["style"]),
            **times("Proj ", t, "Total Proj Time"),
            **{
                "Total Range Time": (row["range_total_ns"], n + row["range_total_ns"] * 1e-5),
                "Range Instances": (n, 0),
                "Total GPU Ops": (row["operations"], 0),
                "Avg GPU Ops": (row["operations"] / n, 0.0501),
                **({} if label(row["domain"], row["name"]) in lifetimes else nesting),
            },
        )
    table.compare()
    # Each instance, so their number, and the sums of their times and operations.
    table, sums = Table(folder, "nvtx_gpu_proj_trace", lambda row: (text(row, "Name"), text(row, "Style"))), {}
    for key, instances in table.theirs.items():
        total = lambda column: str(sum(number(row, column) for row in instances))
        sums[key] = [{"Instances": str(len(instances)), "Total": total("Projected Duration"),
            "Operations": total("NumGPUOps")}]
    table.theirs = defaultdict(list, sums)
    for row in gpu["projections"]:
        t = row["projected"]
        table.want(
            (label(row["domain"], row["name"]), row["style"]),
            Instances=(t["instances"], 0), Total=(t["total_ns"], 0), Operations=(row["operations"], 0),
        )
    table.compare()
    key = lambda name, style, pid, tid, kernel: (name, style, pid, tid, exact_name(kernel))
    columns = ("NVTX Range", "Style", "PID", "TID", "Kernel Name")
    table = Table(folder, "nvtx_kern_sum", lambda row: key(*(text(row, column) for column in columns)))
    for row in gpu["range_kernels"]:
        name = label(*row["range"]) if row["range"] else ""
        table.want(
            key(name, row["style"] or "", str(row["pid"]), str(row["tid"]), row["kernel"]),
            **times("", row["times"], "Total Time"),
            **{"NVTX Inst": (row["range_instances"], 0), "Kern Inst": (row["kernel_instances"], 0)},
        )
    table.compare()


def calls(gpu, folder):
    table = Table(folder, "cuda_api_sum", lambda row: text(row, "Name"))
    percent = share(gpu["calls"])
    for row in gpu["calls"]:
        t = row["times"]
        table.want(function_name(row["name"]), **times("", t, "Total Time"), **percent(row),
            **{"Num Calls": (t["instances"], 0)})
    table.compare()


def work(gpu, folder):
    table = Table(folder, "cuda_gpu_kern_sum", lambda row: exact_name(text(row, "Name")))
    percent = share(gpu["kernels"])
    for row in gpu["kernels"]:
        t = row["times"]
        table.want(exact_name(row["name"]), **times("", t, "Total Time"), **percent(row), Instances=(t["instances"], 0))
    table.compare()
    by_time = Table(folder, "cuda_gpu_mem_time_sum", lambda row: text(row, "Operation"))
    by_size = Table(folder, "cuda_gpu_mem_size_sum", lambda row: text(row, "Operation"))
    percent = share(gpu["memory"])
    for row in gpu["memory"]:
        t, s = row["times"], row["sizes"]
        by_time.want(MEMORY[row["kind"]], **times("", t, "Total Time"), **percent(row), Count=(t["instances"], 0))
        megabytes = {
            "Total (": s["total_bytes"], "Avg (": s["total_bytes"] / s["count"], "Min (": s["min_bytes"],
            "Max (": s["max_bytes"],
            "StdDev (": s["stddev_bytes"], "Med (": s["median_bytes"],
        }
        by_size.want(MEMORY[row["kind"]], **{name: (value / 1e6, 0.000501) for name, value in megabytes.items()},
            Count=(s["count"], 0))
    by_time.compare()
    by_size.compare()
    everything = Table(folder, "cuda_gpu_sum", lambda row: (text(row, "Category"), exact_name(text(row, "Operation"))))
    percent = share(gpu["kernels"] + gpu["memory"])
    named = [(("CUDA_KERNEL", exact_name(row["name"])), row) for row in gpu["kernels"]]
    named += [(("MEMORY_OPER", exact_name(MEMORY[row["kind"]])), row) for row in gpu["memory"]]
    for key, row in named:
        t = row["times"]
        everything.want(key, **times("", t, "Total Time"), **percent(row), Instances=(t["instances"], 0))
    everything.compare()


def instances(gpu, folder):
    """Reports with a row an operation: their numbers and sums by name."""
    named = {exact_name(row["name"]): row["times"] for row in gpu["kernels"]}
    kernels = dict(named)
    named.update({exact_name(MEMORY[row["kind"]]): row["times"] for row in gpu["memory"]})
    trace = Table(folder, "cuda_gpu_trace", lambda row: exact_name(text(row, "Name")))
    sums = {
        name: [{"Instances": str(len(rows)), "Total": str(sum(number(row, "Duration") for row in rows))}]
        for name, rows in trace.theirs.items()
    }
    trace.theirs = defaultdict(list, sums)
    for name, t in named.items():
        trace.want(name, Total=(t["total_ns"], 0), Instances=(t["instances"], 0))
    trace.compare()
    # A row a thread and function; kernels of graphs have no launch of their own and are not in it.
    executions = Table(folder, "cuda_kern_exec_sum", lambda row: exact_name(text(row, "Kernel Name")))
    print(f"   {executions.report:<24} {sum(map(len, executions.theirs.values())):>5} rows")
    for name, rows in executions.theirs.items():
        count = sum(number(row, "Count") for row in rows)
        if name not in kernels or count > kernels[name]["instances"]:
            wrong(executions.report, f"{name}: {count:.0f} of {kernels.get(name, {}).get('instances')}")


def main():
    if sys.argv[1:] == ["--reports"]:
        return print(*REPORTS)
    summary, gpu, folder = arguments(__doc__)
    ranges(summary, folder)
    projections(gpu, folder)
    calls(gpu, folder)
    work(gpu, folder)
    instances(gpu, folder)
    print(f"\n{failures} values or rows differ" if failures else "\nall values agree")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
