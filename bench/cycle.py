"""Reservations over HTTP, from two servers that get the same load by turns:
an nginx with one worker process and one with two.

A cycle is POST /select_and_reserve, .../prefill_complete and DELETE.  Prompts
have 512 blocks, the first half of which is the same in all of them; LIVE
bookings of further such prompts stay.  With KV events every rank has a
publisher, and each of the prompts that are asked for is on one rank.
"""

import json
import random
import statistics
import subprocess

from selection import BLOCK, PROMPTS, TOKENS, Bench, Engines
from server import WAIT, Nginx, raise_limit, run, spread, wait_until

RANKS = (16, 1000)
LIVE = 1000
CONNECTIONS = 32
CYCLES = 1500
STEPS = 600
ROUNDS = 15
STEP_ROUNDS = 5
ROOM = 200                  # bookings for the room of one
FILES = 8192                # descriptors that 1,000 ranks need
SHARED = TOKENS // 2
CHUNK = 256                 # bytes
WAITS = "select_lock_waits_total"
WAITED = "select_lock_wait_nanoseconds_total"
USED = "select_zone_chunks_used"


class Fleet:
    def __init__(self, options, bench, events, ranks):
        self.options = options
        self.bench = bench
        self.events = events
        self.chance = random.Random(options.seed)
        self.same = json.loads(bench.bodies["512 hashes"].read_text()
                               .split("\n", 1)[0])
        self.servers = []
        self.engines = None
        try:
            for processes in (1, 2):
                self.servers.append(Nginx(options, events, processes,
                                          name=f"nginx-{processes}"))
            if events:
                self.engines = Engines(ranks, 3)
            for nginx in self.servers:
                for number in range(ranks):
                    nginx.register(number, self.engines.ports[number:][:1]
                                   if events else ())
            if events:
                self.engines.hold(bench.prompts)
                self.await_events(ranks)
        except BaseException:
            self.stop()
            raise

    def await_events(self, ranks):
        blocks, shared = TOKENS // BLOCK, SHARED // BLOCK
        held = PROMPTS * (blocks - shared) + min(ranks, PROMPTS) * shared
        wait_until(lambda: all(set(nginx.index_blocks()) == {held}
                               for nginx in self.servers), "events")

    def stop(self):
        for process in *self.servers, self.engines:
            if process:
                process.stop()

    def book(self, nginx, shared, count):
        """Bytes of the zone that a further booking takes."""
        before = nginx.metric(USED)
        ids = []
        for _ in range(count):
            own = [self.chance.randrange(-2 ** 63, 2 ** 63)
                   for _ in range(TOKENS // BLOCK - shared)]
            status, text = nginx.call("POST", "/select_and_reserve", {
                "block_hashes": self.same["block_hashes"][:shared] + own,
                "sequence_hashes":
                    self.same["sequence_hashes"][:shared] + own,
                "isl_tokens": TOKENS})
            ids.append(json.loads(text)["selection_id"])
        return (nginx.metric(USED) - before) * CHUNK / count, ids

    def room(self):
        """Bytes of a booking that shares nothing, half, all."""
        nginx, sizes = self.servers[0], []
        for shared in 0, SHARED // BLOCK, TOKENS // BLOCK:
            size, ids = self.book(nginx, shared, ROOM)
            sizes.append(size)
            for name in ids:
                nginx.call("DELETE", f"/reservations/{name}")
        return sizes

    def load(self, nginx, how, bookings, prompts):
        lines = subprocess.run(
            [self.options.build / "bench" / "cycle", str(nginx.port),
             str(CONNECTIONS), str(bookings), how, self.bench.bodies[prompts],
             nginx.workers()], text=True, stdout=subprocess.PIPE, check=True,
            timeout=WAIT).stdout
        return [list(map(float, line.split("\t")[1:]))
                for line in lines.splitlines()]

    def whole(self, nginx):
        """us of CPU, cycles a second; the lock: %, waits a 1,000 cycles"""
        before = sum(nginx.cpu()), nginx.metric(WAITED), nginx.metric(WAITS)
        [[us, rate]] = self.load(nginx, "whole", CYCLES, "512 hashes")
        after = sum(nginx.cpu()), nginx.metric(WAITED), nginx.metric(WAITS)
        cpu, waited, waits = (a - b for a, b in zip(after, before))
        return us, rate, waited / 1e7 / cpu, waits * us / 1e3 / cpu


def measure(options, bench, events, ranks):
    fleet = Fleet(options, bench, events, ranks)
    try:
        for nginx in fleet.servers:
            fleet.book(nginx, SHARED // BLOCK, LIVE)
        rounds = []
        for number in range(ROUNDS):
            order = (0, 1) if number % 2 else (1, 0)
            turn = {n: fleet.whole(fleet.servers[n]) for n in order}
            rounds.append((turn[0], turn[1]))
        steps = {prompts: [fleet.load(fleet.servers[0], "steps", STEPS,
                                      prompts) for _ in range(STEP_ROUNDS)]
                 for prompts in bench.bodies}
        report(events, ranks, rounds, steps, fleet.room())
    finally:
        fleet.stop()


def report(events, ranks, rounds, steps, sizes):
    print(f"\n  {ranks:,} ranks, KV events {'on' if events else 'off'}")
    one, two = ([turn[n] for turn in rounds] for n in (0, 1))
    for name, turns in ("1 process", one), ("2 processes", two):
        us, rate, *_ = zip(*turns)
        print(f"    cycle, {name:28} {spread(us):>24} us CPU "
              f"{statistics.median(rate):8.0f}/s")
    print(f"    {'ratio':35} "
          f"{spread([b[0] / a[0] for a, b in zip(one, two)], 2):>24}")
    _, _, waited, waits = zip(*two)
    print(f"    {'2 processes, waiting for the lock':35} "
          f"{spread(waited, 2):>24} % of CPU "
          f"{statistics.median(waits):6.0f} waits a 1,000 cycles")
    for prompts, turns in steps.items():
        for step, name in enumerate(("select_and_reserve",
                                     "prefill_complete", "DELETE")):
            print(f"    {name:18} {prompts:16} "
                  f"{spread([turn[step][0] for turn in turns]):>24} us CPU")
    print("    zone a booking: nothing shared {:.0f}, half {:.0f}, all {:.0f} "
          "bytes".format(*sizes), flush=True)


def main(options):
    print(f"Reservations over HTTP, {CONNECTIONS} connections, {LIVE:,} "
          f"bookings alive, seed {options.seed};\n{ROUNDS} turns each of "
          f"{CYCLES:,} cycles, median (min .. max)")
    enough = raise_limit(FILES)
    bench = Bench(options, SHARED)
    for events in (True, False):
        for ranks in RANKS:
            if events and ranks == RANKS[-1] and not enough:
                print(f"\n  {ranks:,} ranks with events are left out: they "
                      f"need {FILES} descriptors")
                continue
            measure(options, bench, events, ranks)


if __name__ == "__main__":
    run(main)
