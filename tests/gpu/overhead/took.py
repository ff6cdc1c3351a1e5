"""What the programs of this folder share: when they are warm, when a profiler measures, and what a step took."""
import ctypes
import os
import time
from statistics import median

PARTS, SETTLE = 8, 5


def measure(step, count, of_what, in_windows=True):
    """Calls `step` when it is the turn of this program. Prints the median of `count` steps within the range that a
    profiler is asked to measure, the least median of an eighth of them, and the median of as many before and after it;
    0 for the last one if the range begins and ends with the program."""
    before = after = []
    for _ in range(count // 5):
        step()
    wait_for_turn()
    if in_windows:
        before = times(step, count // 2)
        profile("cuProfilerStart")
    inside = times(step, count)
    if in_windows:
        profile("cuProfilerStop")
        after = times(step, count // 2)
    size = count // PARTS
    parts = [median(inside[at : at + size]) for at in range(0, count - size + 1, size)]
    outside = median(before + after) if in_windows else 0
    print(f"measured {1e3 * median(inside):.4f} {1e3 * min(parts):.4f} {1e3 * outside:.4f} ms {of_what}")


def times(step, count):
    took = []
    for number in range(-SETTLE, count):
        began = time.perf_counter()
        step()
        if number >= 0:
            took.append(time.perf_counter() - began)
    return took


def profile(function):
    getattr(ctypes.CDLL("libcuda.so.1"), function)()


def wait_for_turn():
    """Says that the program is warm, and waits until no other one measures: `run` starts those of a round at once."""
    turn = os.environ.get("OVERHEAD_TURN")
    if turn:
        open(turn + ".warm", "w").close()
        with open(turn) as gate:
            gate.readline()
