"""Element-wise work with CuPy: some 20 launches a step. Prints the time of a step."""
import time

import cupy

from took import report

STEPS, WARM = 1_000, 100


def main():
    a, b = cupy.ones(4096, cupy.float32), cupy.full(4096, 0.5, cupy.float32)
    took = []
    for _ in range(STEPS):
        began = time.perf_counter()
        for _ in range(5):
            a = cupy.sqrt(a * b + 1.0) - a.mean()
        float(a[0])
        took.append(time.perf_counter() - began)
    report(took[WARM:], "a step")


main()
