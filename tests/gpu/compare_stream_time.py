#!/usr/bin/env python3
"""Compares stream times with the times of the kernels in them, as Nsight Systems saw them in the same run.

usage: compare_stream_time.py SUMMARY.json FOLDER

The summary is what `gpu_check accuracy SUMMARY.json` wrote under Nsight Systems; FOLDER has nvtx_kern_sum.csv of that run, the output of `nsys
stats --format csv`. Each range is around one kernel.

Prints both side by side, a line a range, `!!` before what must not be, and exits with 1 if there is any. Behind work that is queued, the median
may be off by 3 % or 3 us. On an idle stream it is at most 10 us above, and the shortest no shorter than the shortest kernel by more than what
two events resolve: the start is reached before the launch arrives.
"""

import json
import sys
from pathlib import Path

import compare_activity
from compare_activity import line, number, rows_of, text, title

INSTANCES = 40
RESOLUTION_NS = 500


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    rows = json.loads(Path(sys.argv[1]).read_text())["stream_ranges"]
    kernels = {text(row, "NVTX Range").lstrip(":"): row for row in rows_of(Path(sys.argv[2]) / "nvtx_kern_sum.csv")}
    ours = {row["name"]: row["times"] for row in rows if row["name"].startswith(("queued ", "idle "))}
    title("Stream time and kernels (nvtx_kern_sum): instances, least, median in ns")
    if len(ours) != 6:
        line(False, "ranges", f"{len(ours)}, not 6", "")
    for name, times in ours.items():
        kernel = kernels.get(name)
        mine = (times["instances"], times["min_ns"], times["median_ns"])
        if kernel is None:
            line(False, name, f"{mine[0]} / {mine[1]:,} / {mine[2]:,.1f}", "-", "not in Nsight's table")
            continue
        other = (int(number(kernel, "Kern Inst")), number(kernel, "Min"), number(kernel, "Med"))
        above = mine[2] - other[2]
        if name.startswith("queued "):
            near = abs(above) <= max(0.03 * other[2], 3_000)
        else:
            near = mine[1] >= other[1] - RESOLUTION_NS and above <= 10_000
        good = mine[0] == other[0] == INSTANCES and near
        note = f"{above / 1e3:+.1f} us"
        line(good, name, f"{mine[0]} / {mine[1]:,} / {mine[2]:,.1f}", f"{other[0]} / {other[1]:,.0f} / {other[2]:,.1f}", note)
    print(f"\n{compare_activity.failures} rows differ" if compare_activity.failures else "\nall rows agree")
    sys.exit(compare_activity.failures > 0)


if __name__ == "__main__":
    main()
