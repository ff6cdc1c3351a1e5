"""Element-wise work with CuPy: some 20 launches a step."""
import cupy

from took import measure


def main():
    a, b = cupy.ones(4096, cupy.float32), cupy.full(4096, 0.5, cupy.float32)

    def step():
        nonlocal a
        for _ in range(5):
            a = cupy.sqrt(a * b + 1.0) - a.mean()
        float(a[0])

    measure(step, 2_000, "a step")


main()
