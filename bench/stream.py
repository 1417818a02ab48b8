"""KV events over ZMQ into an nginx with one worker process.

Engines in another process (publish.c) send BLOCKS blocks at once, to an index
that grows from empty.  How many blocks a second enter it, and how long the
turns of the event loop are meanwhile (turns.c): the time in which no request
is looked at.
"""

import mmap
import struct
import subprocess
import time

from server import BenchError, Nginx, run, spread, wait_until

RANKS = (1, 64)
MESSAGE = 512               # blocks
BLOCKS = 2048 * MESSAGE
ROUNDS = 5


class Turns:
    """Of the event loop of an nginx that is started with `environment`."""

    SIZE = 16 << 20

    def __init__(self, options):
        path = options.build / "bench" / "turns"
        with path.open("w+b") as file:
            file.truncate(self.SIZE)
            self.map = mmap.mmap(file.fileno(), self.SIZE)
        self.environment = {
            "LD_PRELOAD": str(options.build / "bench" / "turns.so"),
            "BENCH_TURNS": str(path)}

    def count(self):
        return struct.unpack_from("Q", self.map)[0]

    def since(self, first):
        """Of each turn: milliseconds, those of CPU, and page faults."""
        last = self.count()
        if last == first:
            raise BenchError("no turn was measured")
        numbers = struct.unpack_from(f"{3 * (last - first)}Q", self.map,
                                     8 + 24 * first)
        return [(clock / 1e6, cpu / 1e6, faults) for clock, cpu, faults
                in zip(numbers[::3], numbers[1::3], numbers[2::3])]


class Publisher:
    """The program publish; its ranks' ports, and that of a silent socket."""

    def __init__(self, options, ranks):
        self.process = subprocess.Popen(
            [options.build / "bench" / "publish", str(ranks)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        *self.ports, self.silent = self.answer().split()

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise BenchError("publish has ended")
        return line

    def ask(self, line):
        self.tell(line)
        return self.answer()

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def quantile(values, part):
    return sorted(values)[round(part * (len(values) - 1))]


def measure(options, ranks):
    """One round: million blocks a second, and the turns."""
    turns = Turns(options)
    nginx = publisher = None
    try:
        nginx = Nginx(options, True, processes=1, turns=turns)
        publisher = Publisher(options, ranks)
        nginx.register(0, publisher.ports)
        publisher.ask("wait 1")
        first = turns.count()
        start = float(publisher.ask(f"grow {BLOCKS // MESSAGE}"))
        wait_until(lambda: nginx.index_blocks() == [BLOCKS], "events")
        rate = BLOCKS / (time.monotonic() - start) / 1e6
        return rate, turns.since(first)
    finally:
        if nginx:
            nginx.stop()
        if publisher:
            publisher.stop()


def report(ranks, rounds):
    rates, turns = zip(*rounds)
    busy = [BLOCKS / sum(cpu for _, cpu, _ in t) / 1e3 for t in turns]
    print(f"\n  {ranks} rank{'s' * (ranks > 1)}: {spread(rates, 2)} million "
          f"blocks/s, {spread(busy, 2)} by the loop's CPU time")
    print(f"    {'turns, ms':34} {'p50':>8} {'p99.9':>8} {'longest':>8} "
          f"{'above 2':>10}")
    turns = sum(turns, [])
    for name, times in (
            ("on the clock", [clock for clock, _, _ in turns]),
            ("CPU time", [cpu for _, cpu, _ in turns]),
            ("CPU time, without a page fault",
             [cpu for _, cpu, faults in turns if faults == 0])):
        quantiles = " ".join(f"{quantile(times, part):8.3f}"
                             for part in (0.5, 0.999, 1))
        above = f"{sum(t > 2 for t in times)} of {len(times)}"
        print(f"    {name:34} {quantiles} {above:>10}")


def main(options):
    print(f"{BLOCKS:,} blocks over ZMQ into an empty index in nginx, 8 events "
          f"of 64 blocks\na message; {ROUNDS} rounds, median (min .. max)")
    rounds = {ranks: [] for ranks in RANKS}
    for _ in range(ROUNDS):
        for ranks in RANKS:
            rounds[ranks].append(measure(options, ranks))
    for ranks in RANKS:
        report(ranks, rounds[ranks])


if __name__ == "__main__":
    run(main)
