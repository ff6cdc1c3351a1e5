"""Reads the lines of the program `soak`, a file per tier, checks that neither memory nor time grows, and draws both.

python3 tests/soak/plot.py LAYER.csv SUBSCRIBER.csv OUT.svg
"""

import csv
import math
import statistics
import sys

# The second half beside the first. What the allocator keeps of the system's memory is not in our hands.
MOST = {"resident_kib": 1.25, "heap_kib": 1.1, "ns_a_span": 1.1}
COLOURS = {"layer": "#2a78d6", "subscriber": "#d6632a"}
WIDTH, HEIGHT, LEFT, BOTTOM = 640, 200, 70, 40


def read(path):
    with open(path, newline="") as file:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]


def panel(top, tiers, key, title, scale=1.0):
    """Points over the logarithm of spans."""
    most_spans = max(rows[-1]["spans"] for rows in tiers.values())
    least_spans = min(rows[0]["spans"] for rows in tiers.values())
    # The top of what is usual: one line in a hundred may be above it.
    values = sorted(row[key] * scale for rows in tiers.values() for row in rows)
    most = values[int(len(values) * 0.99) - 1] * 1.25
    low, high = math.floor(math.log10(least_spans)), math.log10(most_spans)

    def place(spans, value):
        x = LEFT + (math.log10(spans) - low) / (high - low) * (WIDTH - LEFT - 20)
        y = top + HEIGHT - BOTTOM - min(value / most, 1) * (HEIGHT - BOTTOM - 24)
        return f"{x:.1f},{y:.1f}"

    base = top + HEIGHT - BOTTOM
    out = [f'<text x="{LEFT}" y="{top + 14}" font-weight="bold">{title}</text>']
    for power in range(low, math.floor(high) + 1):
        x = place(10**power, 0).split(",")[0]
        shown = f'10<tspan dy="-5" font-size="8">{power}</tspan>'
        out.append(f'<text x="{x}" y="{base + 16}" text-anchor="middle">{shown}</text>')
        out.append(f'<path d="M{x} {base}V{top + 24}" stroke="#8884"/>')
    for part in (0, 0.5, 1):
        y = base - part * (HEIGHT - BOTTOM - 24)
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{most * part:.0f}</text>')
        out.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - 20}" stroke="#8884"/>')
    for name, rows in tiers.items():
        points = " ".join(place(row["spans"], row[key] * scale) for row in rows)
        out.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[name]}" stroke-width="1.5"/>')
        if key == "resident_kib":
            points = " ".join(place(row["spans"], row["heap_kib"] * scale) for row in rows)
            out.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[name]}" stroke-dasharray="3 3"/>')
    return out


def main(layer, subscriber, path):
    tiers = {"layer": read(layer), "subscriber": read(subscriber)}
    failed = False
    for name, rows in tiers.items():
        warm = [row for row in rows if row["spans"] >= rows[-1]["spans"] / 100]
        middle = len(warm) // 2
        last = rows[-1]
        print(f"{name}: {last['spans']:.0f} spans, {last['threads']:.0f} threads, {last['seconds']:.0f} s")
        for key, most in MOST.items():
            halves = (warm[:middle], warm[middle:])
            first, second = (statistics.median(row[key] for row in half) for half in halves)
            print(f"  {key}: median {first:.1f} in the first half, {second:.1f} in the second")
            if second > first * most:
                print("  this grows")
                failed = True
    lines = panel(0, tiers, "resident_kib", "resident memory and heap (dashed), MiB, over spans", 1 / 1024)
    lines += panel(HEIGHT, tiers, "ns_a_span", "processor time per span, ns, with a summary each second")
    for index, (name, colour) in enumerate(COLOURS.items()):
        lines.append(f'<text x="{WIDTH - 20}" y="{14 + 14 * index}" text-anchor="end" fill="{colour}">{name}</text>')
    with open(path, "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {2 * HEIGHT}" ')
        file.write('font-family="sans-serif" font-size="11" fill="#888">\n' + "\n".join(lines) + "\n</svg>\n")
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
