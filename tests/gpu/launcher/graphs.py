"""Each kernel of graphs.cu: it ran in the range of its replay, and leads to the range of its capture. The kernels
that also run without a graph take as long in one, within 1 %.

    graphs.py TRACE.json SUMMARY.json
"""
import collections
import json
import re
import sys

trace, summary = (json.load(open(path)) for path in sys.argv[1:3])
events = trace["traceEvents"] if isinstance(trace, dict) else trace
kernels = [event for event in events if event.get("cat") == "kernel"]
updated = {3: 1, 4: 2}  # by an update, in place of kernels 1 and 2
number_of = lambda event: int(re.search(r"kernel<(?:\(int\))?(\d+)>", event["name"]).group(1))
wrong, counts = [], collections.Counter()
eager, replayed = collections.Counter(), collections.Counter()
for event in kernels:
    number = number_of(event)
    span, captured = event["args"].get("span"), event["args"].get("captured_in", "")
    if span == f"capture {number}" and not captured:
        eager[number] += event["dur"]
        continue
    replayed[number] += event["dur"]
    counts[span] += 1
    if captured.split(" > ")[-1] != f"capture {updated.get(number, number)}" or not span.startswith("replay "):
        wrong.append((number, span, captured))
expected = {"flat": 40, "updated": 40, "nested": 140, "conditional even": 40, "conditional odd": 40, "work": 60,
    "one": 400, "two": 400}
expected = {f"replay {form}": count for form, count in expected.items()}
print(len(kernels), "kernels;", dict(counts), "wrong:", wrong[:5], len(wrong))
assert not wrong and dict(counts) == expected, expected
# One replay of the condition after another runs kernels 20 to 23, all in its own range.
conditional = [event for event in kernels if 20 <= number_of(event) <= 23]
inside = sorted((event["ts"], number_of(event), event["args"]["span"]) for event in conditional)
for begin in range(0, len(inside), 4):
    replay = inside[begin:begin + 4]
    form = "even" if begin % 8 == 0 else "odd"
    assert [row[1:] for row in replay] == [(20 + row, f"replay conditional {form}") for row in range(4)], replay
for number, time in sorted(eager.items()):
    print(f"kernel {number}: eager {time:.1f} us, in a graph {replayed[number]:.1f} us")
    assert abs(replayed[number] / time - 1) <= 0.01, number
assert set(eager) == {41, 42, 43}


def replays(nodes, found):
    for node in nodes:
        graphs = (node.get("gpu") or {}).get("graphs")
        if graphs:
            number = lambda part: part["kernels"] + part["copies"] + part["sets"]
            parts = sorted((part["captured_in"], number(part)) for part in graphs["captured"])
            found[node["name"]] = (graphs["replays"], graphs["whole"], parts)
        replays(node.get("children", []), found)
    return found


# The same program recorded as a whole has the same numbers of kernels, copies and sets by capture.
found = replays(summary["tree"], {})
for form, (count, whole, parts) in sorted(found.items()):
    print(form, count, whole, parts)
    assert whole == count, "each replay is recorded as a whole"
    kernels = sum(number for captured, number in parts if captured.split(" > ")[-1].startswith("capture "))
    # The children of the condition are there once, whether or not they run.
    assert kernels == expected[form], (form, kernels)
assert set(found) == set(expected)
