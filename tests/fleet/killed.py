"""Kills a writer in the middle, and reads its closed files: `killed.py FOLDER PROCESS`.

The spans of the closed files count from 1 without a gap: nothing that was closed is lost.
"""

import glob
import os
import signal
import sys
import time

import pyarrow.parquet

FILES = 5
folder, writer = sys.argv[1], int(sys.argv[2])
closed = os.path.join(folder, "run=killed", "host=unknown", "rank=0", "ranges-*.parquet")
opened = os.path.join(os.path.dirname(closed), ".ranges-*.parquet.open")
while len(glob.glob(closed)) < FILES or not glob.glob(opened):
    os.kill(writer, 0)
    time.sleep(0.01)
os.kill(writer, signal.SIGKILL)
while os.path.exists(f"/proc/{writer}"):
    with open(f"/proc/{writer}/stat", encoding="utf-8") as state:
        if state.read().rsplit(")", 1)[1].split()[0] == "Z":  # ended, and nobody has asked how
            break
    time.sleep(0.01)
spans = []
for path in sorted(glob.glob(closed)):
    spans += pyarrow.parquet.ParquetFile(path).read(columns=["span_id"])["span_id"].to_pylist()
assert spans == list(range(1, len(spans) + 1)), "spans are missing"
left = glob.glob(opened)
assert len(left) <= 1, left
print(f"{len(glob.glob(closed))} closed files with {len(spans)} rows, and {len(left)} open file, which engines ignore")
