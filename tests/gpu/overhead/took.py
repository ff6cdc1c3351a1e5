"""What the programs of this folder print: the median of all times, and the least median of a part of them."""
from statistics import median

PARTS = 8


def report(seconds, of_what):
    size = max(1, len(seconds) // PARTS)
    parts = [median(seconds[at : at + size]) for at in range(0, len(seconds) - size + 1, size)]
    print(f"measured {1e3 * median(seconds):.4f} {1e3 * min(parts):.4f} ms {of_what}")
