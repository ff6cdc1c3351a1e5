#!/usr/bin/env python3
"""Compares what `gpu_check activity SUMMARY.json` wrote with what Nsight Systems saw of `gpu_check activity none`.

usage: compare_activity.py SUMMARY.json FOLDER [PERCENT [KERNELS]]

FOLDER has the output of `nsys stats --format csv` as REPORT.csv, for the reports cuda_gpu_kern_sum, cuda_api_sum,
cuda_gpu_mem_time_sum, cuda_gpu_mem_size_sum, nvtx_gpu_proj_sum and nvtx_kern_sum; and, if there is one,
cuda_api_sum.all.csv: cuda_api_sum of another run of the same under `nsys profile --cuda-trace-all-apis=true`.

Prints both side by side, a line a row, `!!` before what must not be, and exits with 1 if there is any: kernels, counts,
sizes, API functions, ranges, their instances or operations that differ; averages of kernels that differ by more than
PERCENT (3); projected totals that differ by more than 5 % where all kernels of the range are 100 us or longer. Times of
copies and of API calls are printed only: they are the machine's mood. With KERNELS, a regular expression, only the
averages of such kernels are judged, and Nsight may leave out any API function: for PyTorch, whose other kernels take as
long as where its memory happens to lie wants.
"""

import csv
import json
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

KERNEL_TOLERANCE = 0.03
JUDGED = ""
PROJECTION_TOLERANCE = 0.05
LONG_KERNEL_NS = 100_000

# Calls that are in a table only because a tool is there: a function, whose table it may be in, and why. Nothing else is
# forgiven, so an entry wants evidence: the same program, run without that tool, does not make the call.
CALLS_OF_NSYS = {
    "cuCtxSynchronize": "where a device is reset; our table has every driver call of the program, and not this",
    "cuLibraryUnload": "the CUDA runtime and cuBLAS make it when the process exits, after our report",
}
CALLS_OF_OURS = {
}
# Functions that one of the two sees more often: how many more Nsight Systems has, and why.
MORE_IN_NSYS = {
    "cuStreamDestroy_v2": (1, "cuBLAS makes it when the process exits, after our report"),
    "cuInit": (-1, "Nsight Systems is loaded inside of the first one, and does not see that"),
}

# Functions that Nsight Systems leaves out unless it is told to trace all. Looked at only where there is no
# cuda_api_sum.all.csv; with one their counts are compared like all others.
LEFT_OUT_BY_NSYS = {
    "cuCtxGetCurrent", "cuCtxGetDevice", "cuDeviceGet", "cuDeviceGetAttribute", "cuDeviceGetCount", "cuDeviceGetName",
    "cuDevicePrimaryCtxRetain", "cuDriverGetVersion", "cuModuleGetFunction",
    # Absent from a recording by 2025.3.1 of this workload, whose other calls it has to the last one; all of them only
    # ask, or set something.
    "cuCtxGetLimit", "cuDeviceGetUuid", "cuDeviceTotalMem_v2", "cuFuncGetAttribute",
    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    "cudaDeviceGetAttribute", "cudaFuncGetAttributes", "cudaFuncSetAttribute", "cudaGetDevice", "cudaGetLastError",
    "cudaGetDeviceCount", "cudaGetSymbolAddress", "cudaSetDevice",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
}

MEMORY = {
    "HtoD": "[CUDA memcpy Host-to-Device]", "DtoH": "[CUDA memcpy Device-to-Host]",
    "DtoD": "[CUDA memcpy Device-to-Device]",
    "HtoA": "[CUDA memcpy Host-to-Array]", "AtoH": "[CUDA memcpy Array-to-Host]",
    "AtoA": "[CUDA memcpy Array-to-Array]",
    "AtoD": "[CUDA memcpy Array-to-Device]", "DtoA": "[CUDA memcpy Device-to-Array]",
    "HtoH": "[CUDA memcpy Host-to-Host]",
    "PtoP": "[CUDA memcpy Peer-to-Peer]", "Unknown": "[CUDA memcpy Unknown]", "Set": "[CUDA memset]",
}

failures = 0


def line(good, name, ours, theirs, note=""):
    """One row: the same figures of both."""
    global failures
    failures += not good
    print(f"{'  ' if good else '!!'} {name[:60]:<60}  {ours:>30}  {theirs:>30}  {note}")


def title(text):
    print(f"\n {text:<61}  {'tracing-gpu':>30}  {'Nsight Systems':>30}")


def deviation(ours, theirs):
    return (ours - theirs) / theirs if theirs else (0.0 if not ours else float("inf"))


def rows_of(path):
    """The rows of a report as dictionaries; none where it had no data."""
    text = path.read_text(encoding="utf-8", errors="replace").splitlines()
    for number, header in enumerate(text):
        if header.count(",") > 3 and re.search(r"\((ns|MB|%)\)", header):
            rows = []
            for row in csv.DictReader(text[number:]):
                if None in row.values():
                    break  # what follows the table
                rows.append(row)
            return rows
    if any("SKIPPED" in part or "no data" in part for part in text):
        return []
    sys.exit(f"{path} has no table: {text[:3]}")


def number(row, column):
    """The figure of the column whose heading starts so."""
    value = next(value for key, value in row.items() if key.startswith(column))
    return float(value.replace(",", "") or 0)


def text(row, column):
    return next(value for key, value in row.items() if key.startswith(column))


def exact_name(kernel):
    """Two demanglers write spaces, and casts of template arguments, in their own ways."""
    return re.sub(r"\s|\((int|unsigned int|unsigned|long|bool)\)(?=[\w-])", "", kernel)


def base_name(kernel):
    """Without template arguments, parameters and the type that it returns."""
    depth, kept = 0, []
    for letter in kernel:
        if letter in "<(":
            depth += 1
        elif letter in ">)":
            depth -= 1
        elif depth == 0:
            kept.append(letter)
    return "".join(kept).split()[-1] if "".join(kept).split() else kernel


def pair_kernels(ours, theirs):
    """Names of ours to names of theirs: the same text, else the same base name, in the order of their counts."""
    pairs = {}
    exact = {exact_name(name): name for name in theirs}
    for name in ours:
        if exact_name(name) in exact:
            pairs[name] = exact[exact_name(name)]
    taken = set(pairs.values())
    left = defaultdict(list)
    for name in theirs:
        if name not in taken:
            left[base_name(name)].append(name)
    by_base = defaultdict(list)
    for name in ours:
        if name not in pairs:
            by_base[base_name(name)].append(name)
    for base, names in by_base.items():
        names.sort(key=lambda name: ours[name])
        for name, other in zip(names, sorted(left[base], key=lambda name: theirs[name])):
            pairs[name] = other
    return pairs


def compare_kernels(gpu, rows):
    title("Kernels (cuda_gpu_kern_sum): executions, average in ns")
    ours = {}
    for row in gpu["kernels"]:
        times = row["times"]
        ours[row["name"]] = (times["instances"], times["total_ns"] / max(times["instances"], 1))
    theirs = {}
    for row in rows:
        instances = number(row, "Instances")
        theirs[text(row, "Name")] = (int(instances), number(row, "Total Time") / instances)
    pairs = pair_kernels(ours, theirs)
    for name, (count, average) in ours.items():
        other = pairs.get(name)
        if other is None:
            line(False, name, f"{count} x {average:,.1f}", "-", "not in Nsight's table")
            continue
        other_count, other_average = theirs[other]
        off = deviation(average, other_average)
        good = count == other_count and (abs(off) <= KERNEL_TOLERANCE or not re.search(JUDGED, name))
        note = f"{off:+.2%}" + ("" if name == other else f"  there: {other}")
        line(good, name, f"{count} x {average:,.1f}", f"{other_count} x {other_average:,.1f}", note)
    for name in theirs.keys() - set(pairs.values()):
        line(False, name, "-", f"{theirs[name][0]} x {theirs[name][1]:,.1f}", "not in our table")
    return pairs


def compare_memory(gpu, time_rows, size_rows):
    ours = {MEMORY[row["kind"]]: row for row in gpu["memory"]}
    title("Copies and sets by time (cuda_gpu_mem_time_sum): operations, total in ns")
    theirs = {text(row, "Operation"): row for row in time_rows}
    for name in sorted(ours.keys() | theirs.keys()):
        mine = (ours[name]["times"]["instances"], ours[name]["times"]["total_ns"]) if name in ours else (0, 0)
        other = (int(number(theirs[name], "Count")), number(theirs[name], "Total Time")) if name in theirs else (0, 0)
        line(mine[0] == other[0], name, f"{mine[0]} / {mine[1]:,}", f"{other[0]} / {other[1]:,.0f}",
            f"{deviation(mine[1], other[1]):+.2%}")
    title("Copies and sets by size (cuda_gpu_mem_size_sum): operations, total, largest in MB")
    theirs = {text(row, "Operation"): row for row in size_rows}
    for name in sorted(ours.keys() | theirs.keys()):
        sizes = ours[name]["sizes"] if name in ours else {"count": 0, "total_bytes": 0, "max_bytes": 0}
        mine = (sizes["count"], sizes["total_bytes"] / 1e6, sizes["max_bytes"] / 1e6)
        columns = ("Count", "Total (", "Max (")
        other = tuple(number(theirs[name], column) if name in theirs else 0 for column in columns)
        # Nsight prints three decimals.
        good = mine[0] == other[0] and all(abs(a - b) < 0.001 for a, b in zip(mine[1:], other[1:]))
        line(good, name, f"{mine[0]} / {mine[1]:,.3f} / {mine[2]:,.3f}",
            f"{other[0]:.0f} / {other[1]:,.3f} / {other[2]:,.3f}")


def function_name(name):
    """As Nsight Systems writes it: without a version of four digits."""
    return re.sub(r"_v\d{4}$", "", name)


def counts_of_calls(rows):
    counts = Counter()
    for row in rows:
        counts[function_name(text(row, "Name"))] += int(number(row, "Num Calls"))
    return counts


def compare_calls(gpu, rows, rows_of_all):
    title("API functions (cuda_api_sum): calls, average in ns")
    ours, totals = Counter(), Counter()
    for row in gpu["calls"] or []:
        ours[function_name(row["name"])] += row["times"]["instances"]
        totals[function_name(row["name"])] += row["times"]["total_ns"]
    theirs = counts_of_calls(rows)
    averages = {}
    for row in rows:
        averages[function_name(text(row, "Name"))] = number(row, "Total Time") / max(number(row, "Num Calls"), 1)
    every = counts_of_calls(rows_of_all) if rows_of_all is not None else None
    for name in sorted(ours.keys() | theirs.keys(), key=lambda name: (-totals[name], name)):
        mine = f"{ours[name]} x {totals[name] / ours[name]:,.0f}" if name in ours else "-"
        other = f"{theirs[name]} x {averages[name]:,.0f}" if name in theirs else "-"
        if name in ours and name in theirs:
            more, why = MORE_IN_NSYS.get(name, (0, ""))
            line(theirs[name] - ours[name] in (0, more), name, mine, other, why if theirs[name] != ours[name] else "")
        elif name in theirs:
            line(name in CALLS_OF_NSYS, name, mine, other, CALLS_OF_NSYS.get(name, "not in our table"))
        elif name in CALLS_OF_OURS:
            line(True, name, mine, other, CALLS_OF_OURS[name])
        elif every is not None:
            good = every[name] == ours[name]
            line(good, name, mine, f"{every[name]}", "Nsight Systems leaves it out unless it traces all")
        else:
            good = bool(JUDGED) or name in LEFT_OUT_BY_NSYS
            line(good, name, mine, other, "left out by Nsight Systems, not compared")
    if every is not None:
        more = {name: count for name, count in every.items() if name not in ours and name not in theirs}
        if more:
            print(f"   only where Nsight Systems traces all, calls inside of other calls among them: {more}")


def label(domain, name):
    return f"{domain or ''}:{name}"


def compare_projections(gpu, rows, kernel_rows):
    title("Ranges on the GPU (nvtx_gpu_proj_sum): instances, operations, total in ns")
    shortest = defaultdict(lambda: float("inf"))
    for row in kernel_rows:
        key = (text(row, "NVTX Range"), text(row, "Style"))
        shortest[key] = min(shortest[key], number(row, "Avg"))
    ours = {(label(row["domain"], row["name"]), row["style"]): row for row in gpu["projections"]}
    theirs = {(text(row, "Range"), text(row, "Style")): row for row in rows}
    for key in sorted(ours.keys() | theirs.keys()):
        name = f"{key[0]} ({key[1]})"
        if key not in ours or key not in theirs:
            line(False, name, "a row" if key in ours else "-", "a row" if key in theirs else "-", "only in one table")
            continue
        mine, other = ours[key], theirs[key]
        counts = (mine["projected"]["instances"], mine["operations"])
        other_counts = (int(number(other, "Range Instances")), int(number(other, "Total GPU Ops")))
        total, other_total = mine["projected"]["total_ns"], number(other, "Total Proj Time")
        off, timed = deviation(total, other_total), LONG_KERNEL_NS <= shortest[key] < float("inf")
        good = counts == other_counts and (not timed or abs(off) <= PROJECTION_TOLERANCE)
        note = f"{off:+.2%}" + ("" if timed else "  (time not judged: no kernels, or short ones)")
        line(good, name, f"{counts[0]} / {counts[1]} / {total:,}",
            f"{other_counts[0]} / {other_counts[1]} / {other_total:,.0f}", note)


def compare_range_kernels(gpu, rows, pairs):
    title("Kernels by range (nvtx_kern_sum): threads, (range instances, executions), total in ns")
    ours, theirs = defaultdict(list), defaultdict(list)
    for row in gpu["range_kernels"]:
        name = label(*row["range"]) if row["range"] else ""
        key = (name, row["style"] or "", pairs.get(row["kernel"], row["kernel"]))
        ours[key].append((row["range_instances"], row["kernel_instances"], row["times"]["total_ns"]))
    for row in rows:
        key = (text(row, "NVTX Range"), text(row, "Style"), text(row, "Kernel Name"))
        theirs[key].append((int(number(row, "NVTX Inst")), int(number(row, "Kern Inst")), number(row, "Total Time")))
    # CUPTI before 13.5 does not say which replay ran a kernel in a condition: Nsight Systems has it in no range, and we
    # have it in the ranges of its replays, which the program knows (graphs.cu, graphs.py).
    for key in [key for key in theirs if not key[0] and key not in ours]:
        there = [other for other in ours if other[0].startswith(":replay conditional") and other[2] == key[2]]
        sums = lambda rows: (sum(row[1] for row in rows), sum(row[2] for row in rows))
        (count, total), (other_count, other_total) = sums(sum((ours[it] for it in there), [])), sums(theirs[key])
        if count == other_count and abs(deviation(total, other_total)) <= KERNEL_TOLERANCE:
            for other in there:
                print(f"   {base_name(key[2])} is in {other[0]} here, and in no range in Nsight's table")
                del ours[other]
            del theirs[key]
    for key in sorted(ours.keys() | theirs.keys()):
        # A row a thread, whose ids are others in another run.
        mine, other = sorted(ours[key]), sorted(theirs[key])
        total, other_total = (sum(row[2] for row in side) for side in (mine, other))
        off = deviation(total, other_total)
        good = [row[:2] for row in mine] == [row[:2] for row in other]
        good &= bool(JUDGED) or abs(off) <= KERNEL_TOLERANCE  # else a few executions of a microsecond are in it
        side = lambda rows, total: f"{len(rows)}: {' '.join(f'{row[0]},{row[1]}' for row in rows)}: {total:,.0f}"
        name = f"{key[0] or '(none)'} ({key[1]}) {base_name(key[2])}"
        line(good, name, side(mine, total), side(other, other_total), f"{off:+.2%}")


def arguments(usage):
    """A summary, its GPU part, and the folder of reports, from the command line."""
    if len(sys.argv) not in (3, 4, 5):
        sys.exit(usage)
    summary, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    gpu = summary.get("gpu")
    if not gpu:
        sys.exit(f"{sys.argv[1]} has nothing of the GPU's: {summary.get('note_figures')}")
    return summary, gpu, folder


def main():
    global KERNEL_TOLERANCE, JUDGED
    if len(sys.argv) > 3:
        KERNEL_TOLERANCE = float(sys.argv[3]) / 100
    JUDGED = sys.argv[4] if len(sys.argv) > 4 else ""
    _, gpu, folder = arguments(__doc__)
    rows = lambda report: rows_of(folder / f"{report}.csv")
    every = folder / "cuda_api_sum.all.csv"
    pairs = compare_kernels(gpu, rows("cuda_gpu_kern_sum"))
    compare_memory(gpu, rows("cuda_gpu_mem_time_sum"), rows("cuda_gpu_mem_size_sum"))
    compare_calls(gpu, rows("cuda_api_sum"), rows_of(every) if every.exists() else None)
    compare_projections(gpu, rows("nvtx_gpu_proj_sum"), rows("nvtx_kern_sum"))
    compare_range_kernels(gpu, rows("nvtx_kern_sum"), pairs)
    print(f"\n{failures} rows differ" if failures else "\nall rows agree")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
