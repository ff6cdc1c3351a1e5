"""Two servers in turn under `wrk`; see `server`.

python3 tests/soak/server.py SERVER SECONDS BLOCK CONNECTIONS [off|registry [ROUNDS [layer|subscriber]]]
"""

import re
import statistics
import subprocess
import sys

UNITS = {"us": 1e-3, "ms": 1, "s": 1e3, "m": 6e4}


class Server:
    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        self.blocks = []

    def ask(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return [int(word) for word in self.process.stdout.readline().split(",")]

    def block(self, seconds, connections):
        before = self.ask()
        wrk = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", f"http://127.0.0.1:{self.port}/"]
        said = subprocess.run(wrk, capture_output=True, text=True, check=True).stdout
        after = self.ask()
        failed = re.search(r"Non-2xx.*|Socket errors: (?!connect 0, read 0, write 0).*", said)
        if failed:
            sys.exit(f"{failed.group()}\n{said}")
        latency, unit = re.search(r"99%\s+([\d.]+)(us|ms|s|m)\b", said).groups()
        self.blocks.append({
            "requests a second": float(re.search(r"Requests/sec:\s+([\d.]+)", said).group(1)),
            "99th percentile, ms": float(latency) * UNITS[unit],
            "processor time a request, us": (after[1] - before[1]) / (after[0] - before[0]) / 1e3,
            "resident memory, KiB": after[2],
        })

    def end(self):
        self.process.stdin.close()
        return self.process.stdout.read().strip()


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.4g} ({low:.4g} to {high:.4g})"


def main(path, seconds, block, connections, without="off", rounds="10000", measured="layer"):
    seconds, block = int(seconds), int(block)
    if seconds < 6 * block:
        sys.exit("the spread of blocks wants three pairs at least: more seconds, or shorter blocks")
    servers = {mode: Server(path, mode, rounds) for mode in (without, measured)}
    for server in servers.values():
        server.block(max(block // 2, 1), connections)  # warm
        server.blocks.clear()
    for turn in range(seconds // (2 * block)):
        for mode in (without, measured) if turn % 2 == 0 else (measured, without):
            servers[mode].block(block, connections)
    off, on = servers[without].blocks, servers[measured].blocks
    print(f"{len(off)} blocks of {block} s each way, {connections} connections; medians, and quartiles in brackets")
    for key in off[0]:
        print(f"{key}: off {quartiles([row[key] for row in off])}, on {quartiles([row[key] for row in on])}")
        if "memory" not in key:
            print(f"  on/off by pair: {quartiles([b[key] / a[key] for a, b in zip(off, on)])}")
            same = [b[key] / a[key] for a, b in zip(off, off[1:])]
            print(f"  off/off, a block and the next: {quartiles(same)}")
    memory = [row["resident memory, KiB"] for row in on]
    print(f"memory with the {measured}: {memory[0]} KiB after the first block, {memory[-1]} KiB after the last")
    print(servers[measured].end())
    servers[without].end()


if __name__ == "__main__":
    main(*sys.argv[1:])
