#!/usr/bin/env python3
"""Programs made at random in which threads launch kernels for ranges of other threads, which they write down.

    tracing-gpu -o none --json run.json python3 programs.py 30 truth.json
    python3 programs.py check truth.json run.json

Each launch is one kernel of PyTorch. What is in no row of the truth was launched outside of the ranges that wait, or by
a thread of Python that is older than the range: nobody can tell there who works for whom, because all threads sleep for
the interpreter lock (docs/gpu.md). The check fails if a row has too many.
"""
import json
import os
import queue
import random
import select
import sys
import threading
import time
from collections import Counter


def look(tid):
    """Whether a thread sleeps in a futex without a time limit."""
    with open(f"/proc/self/task/{tid}/syscall") as file:
        words = file.read().split()
    return len(words) > 4 and words[0] == "202" and int(words[2], 16) & 127 in (0, 9) and words[4] == "0x0"


def until_it_sleeps(tid):
    while not look(tid):
        time.sleep(0)


def compute(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Program:
    def __init__(self, number):
        import torch

        self.number, self.random = number, random.Random(number)
        self.kernel = lambda: torch.cuda._sleep(1_000)
        self.nvtx = torch.cuda.nvtx
        self.certain, self.most, self.launched = Counter(), Counter(), 0

    def name(self, name):
        return f"{name} {self.number}"

    def path(self, range, helper):
        return f"{self.name(range)} > [thread {self.name(helper)}]"

    def launch(self, times):
        for _ in range(times):
            self.kernel()
            self.launched += 1

    def start(self, name, work, *arguments):
        def body():
            with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as comm:
                comm.write(self.name(name))
            work(*arguments)

        thread = threading.Thread(target=body)
        thread.start()
        return thread

    def helper(self, name):
        jobs, numbers = queue.SimpleQueue(), queue.SimpleQueue()

        def work():
            numbers.put(threading.get_native_id())
            while job := jobs.get():
                waiter, launches, done = job
                until_it_sleeps(waiter)
                self.launch(launches)
                done.put(True)

        return jobs, self.start(name, work), numbers.get()

    def give(self, helper, launches):
        jobs, _, _ = helper
        done = queue.SimpleQueue()
        jobs.put((threading.get_native_id(), launches, done))
        done.get()

    def turns(self):
        helpers = [self.helper(f"h{each}") for each in range(self.random.randint(1, 3))]
        for turn in range(self.random.randint(1, 12)):
            which = turn % len(helpers)
            launches, name = self.random.randint(1, 50), self.random.choice(["train", "infer"])
            until_it_sleeps(helpers[which][2])
            compute(0.03 if turn == 0 else 0.0005)
            with self.nvtx.range(self.name(name)):
                self.give(helpers[which], launches)
        for jobs, thread, _ in helpers:
            jobs.put(None)
            thread.join()

    def in_one_range(self):
        is_older = self.random.random() < 0.3
        helper = self.helper("back") if is_older else None
        if is_older:
            time.sleep(0.03)
        with self.nvtx.range(self.name("all")):
            helper = helper or self.helper("back")
            for _ in range(self.random.randint(2, 6)):
                forward, launches = self.random.randint(1, 9), self.random.randint(1, 50)
                until_it_sleeps(helper[2])
                self.launch(forward)
                self.give(helper, launches)
                self.certain[self.name("all")] += forward
                if not is_older:
                    self.certain[self.path("all", "back")] += launches
        helper[0].put(None)
        helper[1].join()

    def join(self):
        launches, inside, waiter = self.random.randint(1, 90), self.random.randint(1, 9), threading.get_native_id()

        def work():
            until_it_sleeps(waiter)
            self.launch(launches)
            with self.nvtx.range(self.name("own")):
                self.launch(inside)
            self.launch(launches)

        with self.nvtx.range(self.name("join")):
            self.start("joined", work).join()
        self.certain[self.path("join", "joined")] += 2 * launches
        self.certain[f"{self.path('join', 'joined')} > {self.name('own')}"] += inside

    def idle(self, name):
        end, numbers = queue.SimpleQueue(), queue.SimpleQueue()

        def work():
            with self.nvtx.range(self.name(name)):
                numbers.put(threading.get_native_id())
                end.get()

        thread = self.start("idles", work)
        until_it_sleeps(numbers.get())
        return end, thread

    def two_wait(self):
        end, thread = self.idle("idle")
        helper = self.helper("of two")
        with self.nvtx.range(self.name("one of two")):
            self.give(helper, self.random.randint(1, 60))
        for which, each in ((end, thread), helper[:2]):
            which.put(None)
            each.join()

    def main_launches(self):
        end, thread = self.idle("idle")
        self.launch(self.random.randint(1, 30))
        end.put(None)
        thread.join()

    def event_loop(self):
        launches, (end, into) = self.random.randint(1, 60), os.pipe()

        def work():
            self.launch(launches)
            os.write(into, b"1")

        with self.nvtx.range(self.name("loop")):
            thread = self.start("worker", work)
            select.select([end], [], [])
        thread.join()
        os.close(end)
        os.close(into)

    def unrelated(self):
        stop, begun = threading.Event(), threading.Event()

        def work():
            while not stop.is_set():
                self.launch(1)
                begun.set()

        thread = self.start("busy", work)
        begun.wait()
        time.sleep(0.03)
        later, go = queue.SimpleQueue(), queue.SimpleQueue()
        other = self.start("later", lambda: (go.get(), compute(0.002), later.put(True)))
        compute(0.002)
        go.put(True)
        with self.nvtx.range(self.name("elsewhere")):
            later.get()
        stop.set()
        thread.join()
        other.join()


KINDS = [
    Program.turns,
    Program.in_one_range,
    Program.join,
    Program.two_wait,
    Program.main_launches,
    Program.event_loop,
    Program.unrelated,
]


def run(programs, truth):
    import torch

    torch.cuda._sleep(1_000)
    torch.cuda.synchronize()
    certain, launched = Counter(), 1
    for number in range(programs):
        program = Program(number)
        for _ in range(program.random.randint(1, 4)):
            program.random.choice(KINDS)(program)
        certain.update(program.certain)
        launched += program.launched
    torch.cuda.synchronize()
    with open(truth, "w") as file:
        json.dump({"certain": certain, "launched": launched}, file)


def paths(tree):
    """The path of each row with launches of its own. The rows stand one below the other, with their depths."""
    path = []
    for node in tree:
        path = [*path[: node["depth"]], node["name"]]
        if own := ((node.get("gpu") or {}).get("own") or {}).get("operations", 0):
            yield " > ".join(path), own


def check(truth, summary):
    with open(truth) as file:
        truth = json.load(file)
    with open(summary) as file:
        summary = json.load(file)
    found = Counter(dict(paths(summary["tree"])))
    certain = Counter(truth["certain"])
    wrong = {path: (count, certain[path]) for path, count in found.items() if count > certain[path]}
    missing = {path: (found[path], count) for path, count in certain.items() if found[path] < count}
    print(f"{truth['launched']} launched, {sum(found.values())} of {sum(certain.values())} in rows;"
          f" too many: {wrong}; too few: {missing}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(check(*sys.argv[2:]) if sys.argv[1] == "check" else run(int(sys.argv[1]), sys.argv[2]))
