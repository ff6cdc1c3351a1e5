"""Receives pushes at PORT until SUMMARY is there and no more come, and compares both.

    receive.py PORT SUMMARY PUSHES [delta] [expect-header]

It decodes with OpenTelemetry's own protobuf definitions (PyPI's `opentelemetry-proto`). PUSHES: there are at least so
many; with 1 there is one, and each bucket must be the same. Prints what it compared.
"""
import gzip
import http.server
import json
import math
import os
import sys
import threading
import time
from collections import Counter

from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service

port, path, least, is_delta = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), "delta" in sys.argv
pushes = []


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        assert self.path == "/v1/metrics", self.path
        assert self.headers["Content-Type"] == "application/x-protobuf", self.headers
        request = service.ExportMetricsServiceRequest.FromString(body)
        answer = service.ExportMetricsServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
        pushes.append((dict(self.headers), request))

    def log_message(self, *_):
        pass


def value_of(any_value):
    return getattr(any_value, any_value.WhichOneof("value"))


def points(metric):
    data = getattr(metric, metric.WhichOneof("data"))
    return {tuple(value_of(one.value) for one in point.attributes): point for point in data.data_points}


def metrics_of(request):
    (of_resource,) = request.resource_metrics
    (of_scope,) = of_resource.scope_metrics
    assert of_scope.scope.name == "tracing-gpu", of_scope.scope
    resource = {one.key: value_of(one.value) for one in of_resource.resource.attributes}
    return resource, {metric.name: metric for metric in of_scope.metrics}


def buckets(point):
    assert (point.scale, point.zero_count, len(point.negative.bucket_counts)) == (3, 0, 0), point
    found = Counter({point.positive.offset + at: n for at, n in enumerate(point.positive.bucket_counts) if n})
    assert sum(found.values()) == point.count, f"{found} is not {point.count}"
    return found


def compare(name, rows):
    """Rows of the summary, by span, and the points of the metric: those of the last push, or of all deltas."""
    compared = 0
    used = pushes if is_delta else pushes[-1:]
    for span, times in rows.items():
        found = [points(metrics_of(request)[1][name]).get((span,)) for _, request in used
                 if name in metrics_of(request)[1]]
        found = [point for point in found if point]
        count, total = sum(point.count for point in found), sum(point.sum for point in found)
        assert count == times["instances"], f"{span}: {count} is not {times['instances']}"
        # Each window rounds to 1 ns, and the rate of the clock becomes more exact from one reading to the next.
        close = lambda s, ns: abs(s - ns / 1e9) <= len(pushes) * 1.5e-9 + ns / 1e9 * (1e-7 if least == 1 else 1e-5)
        assert close(total, times["total_ns"]), f"{span}: {total} {times}"
        all_buckets = sum((buckets(point) for point in found), Counter())
        if least == 1:
            (point,) = found
            assert close(point.min, times["min_ns"]) and close(point.max, times["max_ns"]), f"{span}: {point} {times}"
            known = Counter({at - 240: n for at, n in times["histogram"]})
            assert all_buckets == known, f"{span}: {all_buckets} is not {known}"
            # The shortest and the longest duration are in the first and the last bucket, whose bounds are 1.6 % higher.
            for ns, at in ((times["min_ns"], min(known)), (times["max_ns"], max(known))):
                higher = ns / 1e9 * 2 ** (0.17882 / 8)
                assert 2 ** (at / 8) * 0.99999 < higher <= 2 ** ((at + 1) / 8) * 1.00001, f"{span}: {ns} is not in {at}"
            if span.startswith("one of "):
                wanted = int(span.split("^")[1].split()[0])
                upper = 2 ** ((max(known) + 1) / 8)
                assert times["instances"] == 1 and upper >= 2 ** wanted * 1e-6, f"{span} ends below {upper}"
        compared += 1
    return compared


server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Receiver)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("listening", flush=True)
until = time.monotonic() + 60
done = None
while done is None and time.monotonic() < until:
    time.sleep(0.05)
    if os.path.exists(path) and os.path.getsize(path) and len(pushes) >= least:
        quiet = len(pushes)
        time.sleep(1.5)  # nothing comes after the last push
        done = True if quiet == len(pushes) else None
assert done, f"{len(pushes)} pushes, and a summary: {os.path.exists(path)}"
assert least > 1 or len(pushes) == 1, f"{len(pushes)} pushes"
summary = json.load(open(path))
resource, metrics = metrics_of(pushes[-1][1])
process = summary["process"]
expected = {"host.name": process["host"], "process.pid": process["pid"], "tracing_gpu.run": process["run_id"],
            "tracing_gpu.rank": process["rank"], "service.name": "shop", "deployment.environment": "test",
            "service.instance.id": f"{process['host']}:{process['pid']}"}
for key, value in expected.items():
    assert resource.get(key) == value, f"{key}: {resource}"
if "expect-header" in sys.argv:
    assert pushes[-1][0].get("x-key") == "7", pushes[-1][0]
ranges = {row["name"]: row["times"] for row in summary["ranges"]}
calls = {row["name"]: row["latency"] for row in summary["calls"]}
assert len(ranges) == 18 and len(calls) == 1, (list(ranges), list(calls))
compared = compare("tracing_gpu.range.duration", ranges) + compare("tracing_gpu.call.duration", calls)
for name, metric in metrics.items():
    data = getattr(metric, metric.WhichOneof("data"))
    if metric.WhichOneof("data") != "gauge":
        assert data.aggregation_temporality == (1 if is_delta else 2), metric
    for point in data.data_points:
        assert point.start_time_unix_nano < point.time_unix_nano, metric
if not is_delta:
    states = {key[1]: point.as_double for key, point in points(metrics["tracing_gpu.call.state"]).items()}
    (known,) = (row["states"] for row in summary["calls"])
    for state, ns in known.items():
        if state.endswith("_ns"):
            assert math.isclose(states[state[:-3]], ns / 1e9, rel_tol=1e-4, abs_tol=1e-6), (states, known)
print(f"{len(pushes)} pushes{' of deltas' if is_delta else ''}: {compared} histograms as in the summary")
