"""POST /select while KV events stream in, and GET /workers, for many ranks.

An nginx with one worker process.  A worker of ENGINES ranks holds the prompts
that are asked for, another one of as many ranks stores and removes MESSAGES
times BLOCKS blocks a second (publish.c), all others have an endpoint that is
silent.  Requests with 512 hashes become due at random times, RATE a second;
what is measured is the time from then to the whole answer.
"""

import subprocess
import time

from selection import Bench, Engines, stored_events
from server import (WAIT, BenchError, Nginx, raise_limit, run, spread,
                    wait_until)
from stream import MESSAGE, Publisher, Turns

RANKS = (10, 100, 1000, 4000)
ENGINES = 5
WORKER = 10                 # ranks of the silent workers
HELD = 100                  # messages
MESSAGES = 500              # a second
RATE = 500
REQUESTS = 800
CONNECTIONS = 16
ROUNDS = 4
LISTS = 15
FILES = 18000               # descriptors that 4,000 ranks need


class Crowd:
    def __init__(self, options, bench, ranks):
        self.options = options
        self.bodies = bench.bodies["512 hashes"]
        self.turns = Turns(options)
        self.nginx = self.engines = self.publisher = None
        try:
            self.nginx = Nginx(options, True, processes=1, turns=self.turns)
            self.engines = Engines(ENGINES)
            self.publisher = Publisher(options, ENGINES)
            self.fill(bench, ranks)
        except BaseException:
            self.stop()
            raise

    def fill(self, bench, ranks):
        self.nginx.register(0, self.engines.ports)
        self.nginx.register(1, self.publisher.ports)
        for number in range(2, 2 + (ranks - 2 * ENGINES) // WORKER):
            self.nginx.register(number, [self.publisher.silent] * WORKER)
        self.publisher.ask("wait 1")
        wait_until(self.engines.subscribed, "subscriptions")
        first = 1
        for number, prompt in enumerate(bench.prompts):
            self.engines.publish(number % ENGINES,
                                 list(stored_events(prompt, first)))
            first += len(prompt) // 16
        self.publisher.ask(f"grow {HELD}")
        wait_until(lambda: self.nginx.index_blocks()
                   == [first - 1 + HELD * MESSAGE], "events")

    def stop(self):
        for process in self.nginx, self.engines, self.publisher:
            if process:
                process.stop()

    def select(self, streaming):
        """us: p50 and p99 of the answers; ms: the longest turns"""
        if streaming:
            self.publisher.tell(f"turn {MESSAGES}")
        start, first = time.monotonic(), self.turns.count()
        line = subprocess.run(
            [self.options.build / "bench" / "load", str(self.nginx.port),
             str(CONNECTIONS), f"{REQUESTS}@{RATE}", "1", self.bodies,
             self.nginx.workers(), "/select"], text=True,
            stdout=subprocess.PIPE, check=True, timeout=WAIT).stdout
        clock, cpu, _ = map(max, zip(*self.turns.since(first)))
        if streaming:
            sent = int(self.publisher.ask("stop"))
            if sent < 0.9 * MESSAGES * (time.monotonic() - start):
                raise BenchError("the events did not keep their rate")
        return *map(float, line.split("\t")[-2:]), clock, cpu

    def list_workers(self):
        """ms of answers, their size, ms of CPU of the turn"""
        times, first = [], self.turns.count()
        for _ in range(LISTS):
            start = time.monotonic()
            size = len(self.nginx.call("GET", "/workers")[1])
            times.append((time.monotonic() - start) * 1e3)
        turn = max(cpu for _, cpu, _ in self.turns.since(first))
        return times, size, turn


def measure(options, bench, ranks):
    crowd = Crowd(options, bench, ranks)
    try:
        rounds = {False: [], True: []}
        crowd.select(False)
        for number in range(ROUNDS):
            for streaming in (number % 2 == 1, number % 2 == 0):
                rounds[streaming].append(crowd.select(streaming))
        print(f"\n  {ranks:,} ranks")
        for streaming, name in ((False, "alone"), (True, "events stream")):
            p50, p99, clock, cpu = zip(*rounds[streaming])
            print(f"    /select, {name:14} {spread(p50, 0):>18} us p50 "
                  f"{spread(p99, 0):>20} p99; longest turn "
                  f"{max(cpu):.2f} ms CPU, {max(clock):.2f} on the clock")
        times, size, turn = crowd.list_workers()
        print(f"    GET /workers, {size / 1000:6.0f} kB  "
              f"{spread(times, 2):>22} ms; longest turn {turn:.2f} ms CPU",
              flush=True)
    finally:
        crowd.stop()


def main(options):
    print(f"Many ranks in nginx; {RATE} requests a second, 512 hashes each; "
          f"{MESSAGES} messages\na second store and remove {MESSAGE} blocks "
          f"each; {ROUNDS} rounds, median (min .. max), seed {options.seed}")
    enough = raise_limit(FILES)
    bench = Bench(options)
    for ranks in RANKS:
        if ranks == RANKS[-1] and not enough:
            print(f"\n  {ranks:,} ranks are left out: they need {FILES} "
                  "descriptors")
            continue
        measure(options, bench, ranks)


if __name__ == "__main__":
    run(main)
