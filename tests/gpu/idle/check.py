#!/usr/bin/env python3
"""Compares the causes of idle time in a summary with those that the program idle.cu wrote down.

    check.py LOG SUMMARY.json

A cause in a range may differ by 1 % or 20 us; by EDGE for each idle time with a part in it, since a kernel's record
begins before its first instruction and ends after its last one; and by the calls of NVTX that begin and end the range.
Where two threads' operations begin together after an idle time, either may have ended it, and both answers are right.
"""
import json
import sys
from collections import Counter, defaultdict

EDGE = 2_500  # ns, both edges of an idle time


def truth(lines):
    states, operations, unsure, begin = defaultdict(list), [], Counter(), 0
    for line in lines:
        kind, *words = line.split()
        if kind == "begin":
            begin = int(words[0])
        elif kind == "unsure":
            unsure[words[0]] += int(words[1])
        elif kind == "state":
            thread, start, end = map(int, words[:3])
            states[thread].append((start, end, words[3], words[4]))
        else:
            thread, launched, start, end = map(int, words)
            operations.append((start, end, thread, launched))
    operations.sort()
    sums, gaps, ties = Counter(), Counter(), Counter()
    until = begin
    for number, operation in enumerate(operations):
        parts = causes_before(operation, until, states)
        sums.update(parts)
        gaps.update(parts.keys())
        start, end, thread, _ = operation
        for other in operations[number + 1 : number + 8]:
            if other[0] < start + EDGE and other[2] != thread and start > until:
                others = causes_before(other, until, states)
                for key in parts | others:
                    ties[key] += abs(parts[key] - others[key])
        until = max(until, end)
    return sums, gaps, unsure, ties


def causes_before(operation, until, states):
    """What the thread of an operation did from the end of the work before it."""
    start, _, thread, launched = operation
    parts, way, waited, wait = Counter(), Counter(), None, 0
    for state_start, state_end, cause, name in states[thread]:
        if state_start >= start:
            break
        if state_start < until < state_end and cause in ("synchronising", "copying"):
            waited, wait = name, until - state_start  # the device ran dry while the host waited
        for begin, end, what in (
            (max(state_start, until), min(state_end, launched, start), cause),
            (max(state_start, launched, until), min(state_end, start), after(operation, until)),
        ):
            if end <= begin:
                continue
            if what not in ("launching", "synchronising", "copying") and end - begin >= 20_000:
                waited = None
            into = way if waited and what == "launching" else parts
            into[name, what] += end - begin
            if into is way:
                by = waited
    if sum(way.values()) > 4 * wait:
        return parts + way
    if way:
        parts[by, "synchronising"] += sum(way.values())
    return parts


def after(operation, until):
    """Why an operation that was launched did not begin."""
    start, _, _, launched = operation
    rest = start - max(launched, until)
    return "unexplained" if rest > 50_000 else "launching" if launched > until else "dispatching"


def main():
    with open(sys.argv[1]) as log:
        expected, gaps, unsure, ties = truth(log)
    with open(sys.argv[2]) as file:
        idle = json.load(file)["idle"]
    found = Counter()
    for row in idle["spans"]:
        for cause, ns in row["causes"].items():
            found[row["name"] or "-", cause.removesuffix("_ns")] += ns
    wrong = 0
    for key in sorted(set(expected) | set(found)):
        if key[0] in ("-", "main") or not (expected[key] or found[key]):
            continue  # what the program prepares; and each thread's first call of NVTX, which takes longer
        allowed = max(expected[key] / 100, 20_000) + EDGE * gaps[key] + unsure[key[0]] + ties[key]
        is_wrong = abs(found[key] - expected[key]) > allowed
        wrong += is_wrong
        print(f"{'WRONG' if is_wrong else 'ok':5} {key[0]:8} {key[1]:13} {found[key]:>12} expected {expected[key]:>12}"
              f" in {gaps[key]} idle times")
    for device in idle["devices"]:
        causes = sum(device["causes"].values())
        assert device["wall_ns"] == device["busy_ns"] + causes, device
        unexplained = 100 * device["causes"]["unexplained_ns"] / max(causes, 1)
        print(f"device {device['device']}: unexplained {unexplained:.3f} %")
    print(f"late {idle['late']}, dropped calls {idle['dropped_calls']}, {wrong} wrong")
    sys.exit(wrong > 0)


main()
