"""The router against bare proxy_pass, in one nginx, to the same engines.

Requests have 8,192 token ids.  By turns they go to

    /routed   an upstream block with select_route
    /bare     one with the engines as its servers, which nginx takes in turn

First they become due at random times, RATE a second, and are answered with
EVENTS events, INTERVAL apart, a chunk each (engine.c).  Then they follow one
another and are answered with one event, or with EVENTS at once: what a request
costs, and what an event of an answer does.  At last one goes at a time, with
one event, to /routed, /bare and /again, which is as /bare: how much later the
first byte of the answer comes, and how much such a difference says.
"""

import json
import statistics
import subprocess
import sys

from selection import BLOCK, PROMPTS, TOKENS, Bench, Engines
from server import WAIT, BenchError, Nginx, raise_limit, run, wait_until
from stream import quantile

SCENARIOS = ((True, 16), (True, 1000), (False, 16))
ENGINES = 16
EVENTS = 100
INTERVAL = 2000             # us
CONNECTIONS = 64
REQUESTS = 128
RATE = 250                  # a second
RAPID = 500                 # requests as soon as a connection is free
ROUNDS = 9
PAIRS = 800
FILES = 8192                # descriptors that 1,000 ranks need
BODY = "8,192 ids"

UPSTREAMS = """
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_buffering off;

    upstream routed {{
        select_route selector;
        keepalive 512;
    }}

    upstream bare {{
        {servers}
        keepalive 512;
    }}
"""

LOCATIONS = """
        location /routed/ {
            proxy_pass http://routed;
        }

        location ~ ^/(bare|again)/ {
            proxy_pass http://bare;
        }
"""


class Simulated:
    """The program engine."""

    def __init__(self, options):
        self.process = subprocess.Popen(
            [options.build / "bench" / "engine", str(ENGINES), str(INTERVAL)],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ports = self.process.stdout.readline().split()
        if len(self.ports) != ENGINES:
            raise BenchError("the engines did not start")

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


class Router:
    def __init__(self, options, bench, events, ranks):
        self.options = options
        self.body = bench.bodies[BODY]
        self.nginx = self.simulated = self.publishers = None
        try:
            self.simulated = Simulated(options)
            self.nginx = Nginx(
                options, events, locations=LOCATIONS,
                upstreams=UPSTREAMS.format(servers=" ".join(
                    f"server 127.0.0.1:{port};"
                    for port in self.simulated.ports)))
            if events:
                self.publishers = Engines(ranks)
            for number in range(ranks):
                port = self.simulated.ports[number % ENGINES]
                self.nginx.register(
                    number, self.publishers.ports[number:][:1]
                    if events else (), f"http://127.0.0.1:{port}")
            if events:
                self.publishers.hold(bench.prompts)
                wait_until(lambda: self.nginx.index_blocks()
                           == [PROMPTS * TOKENS // BLOCK] * 2, "events")
        except BaseException:
            self.stop()
            raise

    def stop(self):
        for process in self.nginx, self.simulated, self.publishers:
            if process:
                process.stop()

    def load(self, connections, requests, rounds, *paths):
        """For each path its turns, as load prints them."""
        lines = subprocess.run(
            [self.options.build / "bench" / "load", str(self.nginx.port),
             str(connections), str(requests), str(rounds), self.body,
             self.nginx.workers(), *paths], text=True,
            stdout=subprocess.PIPE, check=True, timeout=WAIT).stdout
        turns = {path: [] for path in paths}
        for line in lines.splitlines():
            path, *numbers = line.split("\t")
            turns[path].append(list(map(float, numbers)))
        return turns.values()


def spread(values, digits=1):
    return "{1:.{0}f} ({2:.{0}f} .. {3:.{0}f})".format(
        digits, *(quantile(values, part) for part in (0.5, 0.1, 0.9)))


def differences(ours, theirs, column):
    return [a[column] - b[column] for a, b in zip(ours, theirs)]


def measure(options, bench, events, ranks):
    router = Router(options, bench, events, ranks)
    try:
        paced = router.load(CONNECTIONS, f"{REQUESTS}@{RATE}", ROUNDS,
                            f"/routed/{EVENTS}", f"/bare/{EVENTS}")
        rapid = router.load(CONNECTIONS, RAPID, ROUNDS,
                            "/routed/1", "/bare/1",
                            f"/routed/at-once/{EVENTS}",
                            f"/bare/at-once/{EVENTS}")
        single = router.load(1, 1, PAIRS, "/routed/1", "/bare/1", "/again/1")
        print(f"\n  {ranks:,} ranks, KV events {'on' if events else 'off'}")
        report(*paced)
        report_rapid(*rapid)
        report_first(*single)
    finally:
        router.stop()


def report(routed, bare):
    for name, turns in ("/routed", routed), ("/bare", bare):
        cpu, _, _, chunks, *_ = zip(*turns)
        print(f"    {name:18} {spread(cpu):>24} us CPU a request, "
              f"{statistics.median(chunks):.1f} chunks")
    print(f"    {'added':18} {spread(differences(routed, bare, 0)):>24} us, "
          f"ratio {spread([a[0] / b[0] for a, b in zip(routed, bare)], 2)}")


def report_rapid(routed, bare, routed_whole, bare_whole):
    request = differences(routed, bare, 0)
    whole = differences(routed_whole, bare_whole, 0)
    event = [(a - b) / (EVENTS - 1) for a, b in zip(whole, request)]
    print(f"    {'added, one event':18} {spread(request):>24} us to "
          f"{statistics.median([turn[0] for turn in bare]):.1f}")
    print(f"    {'added, an event':18} {spread(event, 2):>24} us")


def report_first(routed, bare, again):
    print(f"    first byte of /bare "
          f"{statistics.median([turn[4] for turn in bare]):.0f} us; ", end="")
    print(", ".join(
        f"{name} later by {quantile(differences(turns, bare, 4), 0.5):.0f} "
        f"p50, {quantile(differences(turns, bare, 4), 0.99):.0f} p99"
        for name, turns in (("/routed", routed), ("/again", again))))
    sys.stdout.flush()


def main(options):
    print(f"Router in nginx with 2 worker processes, {ENGINES} engines, "
          f"{RATE} requests a second,\n{TOKENS:,} ids, {EVENTS} events an "
          f"answer; {ROUNDS} turns, median (10 % .. 90 %),\n"
          f"seed {options.seed}")
    enough = raise_limit(FILES)
    bench = Bench(options)
    bench.write(BODY, "completions", "".join(
        json.dumps({"model": "default", "prompt": prompt, "max_tokens": EVENTS,
                    "stream": True}, separators=(",", ":")) + "\n"
        for prompt in bench.prompts))
    for events, ranks in SCENARIOS:
        if ranks > ENGINES and not enough:
            print(f"\n  {ranks:,} ranks are left out: they need {FILES} "
                  "descriptors")
            continue
        measure(options, bench, events, ranks)


if __name__ == "__main__":
    run(main)
