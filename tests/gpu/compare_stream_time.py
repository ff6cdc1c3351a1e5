#!/usr/bin/env python3
"""Compares stream times with the times of the kernels in them, as Nsight Systems saw them.

usage: compare_stream_time.py RUN.json FOLDER ALONE.json

RUN.json is what `gpu_check accuracy RUN.json` wrote under Nsight Systems, and FOLDER has nvtx_kern_sum.csv of that run,
the output of `nsys stats --format csv`; ALONE.json is of a run without a tool. Each range is around one kernel, and as
many more kernels of that length are between two events that the program recorded by hand.

Prints the medians side by side, a line a range and run, `!!` before what must not be, and exits with 1 if there is any.
Behind work that is queued, the median may be off by 3 % or 3 us. On an idle stream it is at most 10 us above, since the
start is reached before the launch arrives. The shortest is no shorter than the shortest kernel by more than what two
events resolve.

A tool makes launches, events and ranges slower, and machines differ: where a median is beyond these bounds under Nsight
Systems, the pair by hand is looked at. Behind queued work ours must be within 150 ns of that; on an idle stream the
bound is that of the run without a tool.
"""

import json
import sys
from pathlib import Path

import compare_activity
from compare_activity import line, number, rows_of, text, title

INSTANCES = 40
RESOLUTION_NS = 500
LIKE_BY_HAND_NS = 150


def read(path):
    """Times of the ranges, and medians by hand."""
    both = json.loads(Path(path).read_text())
    rows = both["summary"]["stream_ranges"]
    return {row["name"]: row["times"] for row in rows if row["name"].startswith(("queued ", "idle "))}, both["by_hand"]


def compare(run, kernels, with_tool):
    ours, by_hand = run
    if len(ours) != 6:
        line(False, "ranges", f"{len(ours)}, not 6", "")
    beyond = 0
    for name, times in ours.items():
        kernel = kernels.get(name)
        median, hand = times["median_ns"], by_hand[name]
        mine = f"{times['instances']} / {times['min_ns']:,} / {median:,.0f}"
        if kernel is None:
            line(False, name, mine, "-", "not in Nsight's table")
            continue
        count, least, middle = int(number(kernel, "Kern Inst")), number(kernel, "Min"), number(kernel, "Med")
        above = median - middle
        is_queued = name.startswith("queued ")
        near = abs(above) <= max(0.03 * middle, 3_000) if is_queued else above <= 10_000
        note = f"{above / 1e3:+.2f} us, by hand {(hand - middle) / 1e3:+.2f}"
        if not near and with_tool:
            near = not is_queued or abs(median - hand) <= LIKE_BY_HAND_NS
            beyond += near
            note += ", beyond the bound"
        good = times["instances"] == count == INSTANCES and times["min_ns"] >= least - RESOLUTION_NS and near
        line(good, name, mine, f"{count} / {least:,.0f} / {middle:,.0f}", note)
    return beyond


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    kernels = {text(row, "NVTX Range").lstrip(":"): row for row in rows_of(Path(sys.argv[2]) / "nvtx_kern_sum.csv")}
    title("Under Nsight Systems, and its kernels: instances, least, median in ns")
    beyond = compare(read(sys.argv[1]), kernels, True)
    title("Without a tool, and the same kernels")
    compare(read(sys.argv[3]), kernels, False)
    if beyond:
        print(f"\n{beyond} medians are beyond the bound where Nsight Systems is there")
    print(f"\n{compare_activity.failures} rows differ" if compare_activity.failures else "\nall rows agree")
    sys.exit(compare_activity.failures > 0)


if __name__ == "__main__":
    main()
