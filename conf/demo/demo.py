#!/usr/bin/python3
"""The demonstration: a router, three simulated engines, a conversation.

Starts nginx with the module and the engines, registers these over HTTP,
plays a multi-turn trace through the router and compares what it predicted
with what the engines really had cached.

Users talk to several assistants, each with a system prompt of its own: the
first question to an assistant goes anywhere, the next ones to where its
system prompt is cached.  First one user asks at a time, and predictions must
be right; then all at once, and load counts, too.  In the end the books must
be empty.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
import json
import signal
import sys
import threading
import time

from cache import BlockCache
from client import Load, Selector, call_engine, complete
from processes import (PORT, Busy, DemoError, Processes, check_port,
                       wait_until, worker_processes)
import report
from trace import Trace

MODEL = "demo"
BLOCK_SIZE = 16
ENGINES = ("map", "map", "array")
TRY = [("POST", "/v1/completions"), ("POST", "/select"),
       ("POST", "/overlap_scores"), ("GET", "/loads"), ("GET", "/workers"),
       ("GET", "/ready"), ("GET", "/status")]


@dataclass
class Row:
    turn: int
    user: str
    prompt: int
    alone: bool
    worker: int = None
    predicted: int = None
    real: int = None
    first: float = None
    active: int = None


class Demo:
    def __init__(self, options):
        self.options = options
        self.processes = Processes(options.build, options.nginx, options.conf)
        self.lock = threading.Lock()
        self.played = []
        self.rows = []
        self.known = []

    # Setting up

    def start(self):
        self.processes.claim()
        earlier = self.processes.stop()
        if earlier:
            report.say(f"Ended an earlier demonstration: {', '.join(earlier)}")
        port = check_port(self.options.port)
        self.nginx = self.processes.start_selector(port)
        self.selector = Selector(port, self.processes.run / "error.log")
        if not wait_until(self.selector.healthy, 5):
            self.selector.call("GET", "/health")
        self.workers = self.processes.configured_workers()
        if not wait_until(lambda: len(worker_processes(self.nginx))
                          == self.workers, 5):
            raise DemoError(f"nginx does not have {self.workers} worker "
                            f"processes after 5 s")
        report.say(f"router    {self.selector.url}  nginx pid {self.nginx}, "
                   f"{self.workers} worker processes")
        self.engines = {}
        for number, events in enumerate(ENGINES, 1):
            self.start_engine(number, events)

    def start_engine(self, number, events):
        engine = self.processes.start_engine(
            number, "--blocks", self.options.blocks, "--block-size",
            BLOCK_SIZE, "--events", events)
        engine["endpoint"] = f"http://127.0.0.1:{engine['http']}"
        self.engines[number] = engine
        report.say(f"engine {number}  {engine['endpoint']}  pid "
                   f"{engine['pid']}, {self.options.blocks} blocks, KV events "
                   f"on port {engine['kv_events']} ({events} form)")

    def register(self):
        for number, engine in self.engines.items():
            record = self.selector.call("POST", "/workers", {
                "worker_id": number, "model_name": MODEL,
                "endpoint": engine["endpoint"], "block_size": BLOCK_SIZE,
                "kv_events_endpoint":
                    f"tcp://127.0.0.1:{engine['kv_events']}",
                "max_num_batched_tokens": 8192,
                "total_kv_blocks": self.options.blocks},
                expect=201, needs=("lifecycle",))
            if record["lifecycle"] != "schedulable":
                reasons = record.get("not_schedulable_reasons", [])
                raise DemoError(f"worker {number} is {record['lifecycle']} "
                                f"after its registration: "
                                f"{'; '.join(reasons) or 'no reason given'}")
        for number, engine in self.engines.items():
            self.wait_for_subscriptions(number, engine)

    def wait_for_subscriptions(self, number, engine):
        def subscriptions():
            state = call_engine(engine["endpoint"], "/")
            return state["subscriptions"]

        wanted = self.workers
        if not wait_until(lambda: subscriptions() >= wanted, 10):
            raise DemoError(f"engine {number} has {subscriptions()} "
                            f"subscriptions to its KV events after 10 s; each "
                            f"of the {wanted} worker processes should have "
                            f"one")

    # Playing

    def play(self):
        options = self.options
        report.say(f"trace     {options.users} users, {options.rounds} "
                   f"questions each, seed {options.seed}")
        trace = Trace(options.seed, options.users)
        apart = max(options.rounds - options.together, 0)
        report.table_head()
        report.part("One user at a time")
        for number in range(apart):
            for user in trace.order(number):
                self.take_turn(trace.turn(user, number), True)
        report.part("All users at once (*: the cache changed between choice "
                    "and begin)")
        with ThreadPoolExecutor(options.users) as pool:
            threads = [pool.submit(self.go_on, trace, user, apart)
                       for user in trace.order(apart)]
        for thread in threads:
            thread.result()

    def go_on(self, trace, user, first):
        for number in range(first, self.options.rounds):
            self.take_turn(trace.turn(user, number), False)

    def take_turn(self, turn, alone):
        with self.lock:
            output = []
            self.played.append((turn.prompt, output))
            row = Row(len(self.played), turn.user, len(turn.prompt), alone)
        begin = time.monotonic()

        def started():
            row.first = time.monotonic() - begin
            row.active = self.selector.load().requests

        answer = complete(self.selector.url, {
            "model": MODEL, "prompt": turn.prompt, "stream": True,
            "max_tokens": turn.answer_tokens}, started)
        row.worker = answer.worker
        row.predicted = answer.predicted
        row.real = answer.cached
        output += answer.tokens
        if alone:
            self.known.append(self.wait_until_known(row, turn, output))
        turn.answer(output)
        with self.lock:
            self.rows.append(row)
            report.table_row(row)

    def wait_until_known(self, row, turn, output):
        """Events come in order: who knows the last full block of the answer
        knows every eviction before it.  The newest token is in no block yet.
        """
        blocks = (len(turn.prompt) + len(output) - 1) // BLOCK_SIZE
        known, seen = self.selector.wait_for_blocks(
            {"model_name": MODEL, "token_ids": turn.prompt + output},
            row.worker, blocks)
        if known is None:
            raise DemoError(f"turn {row.turn}: worker {row.worker} holds "
                            f"{blocks} blocks of this conversation, the "
                            f"selector knows {seen} after 2 s")
        return known

    # Ending

    def evicted(self):
        return sum(call_engine(engine["endpoint"], "/")[
            "evicted_blocks"] for engine in self.engines.values())

    def round_robin(self):
        """Cached tokens of the same trace, dealt to equal engines in turn."""
        caches = [BlockCache(self.options.blocks, BLOCK_SIZE)
                  for _ in self.engines]
        total = 0
        for number, (prompt, output) in enumerate(self.played):
            cache = caches[number % len(caches)]
            total += cache.begin(prompt)[0]
            for token in output:
                cache.extend(token)
            cache.end()
        return total

    def write_bodies(self):
        """{path of the API: file with a body for it}"""
        prompt = self.played[-1][0]
        select = {"model_name": MODEL, "token_ids": prompt}
        bodies = {"select": select, "overlap_scores": select,
                  "v1/completions": {"model": MODEL, "prompt": prompt,
                                     "max_tokens": 20, "stream": True}}
        files = {}
        for path, body in bodies.items():
            file = self.processes.run / f"{path.rpartition('/')[2]}.json"
            file.write_text(json.dumps(body) + "\n")
            files[f"/{path}"] = file
        return files

    def check_hints(self, files):
        for method, path in TRY:
            body = path in files and json.loads(files[path].read_text())
            status, _ = self.selector.raw(method, path, body or None)
            if status != 200:
                raise DemoError(f"{method} {path} answered {status} instead "
                                f"of 200")

    def check_books(self):
        if not wait_until(lambda: self.selector.load() == Load(0, 0, 0), 2):
            raise DemoError(f"the books are not empty 2 s after the last "
                            f"answer: {self.selector.load()}")

    def finish(self):
        self.check_books()
        report.summary(self.rows, self.known, self.round_robin(),
                       self.evicted())
        files = self.write_bodies()
        self.check_hints(files)
        wrong = [row.turn for row in self.rows
                 if row.alone and row.predicted != row.real]
        if wrong:
            raise DemoError("prediction and reality disagree in turn "
                            + ", ".join(map(str, wrong)))
        if not self.options.once:
            report.hints(self.selector.url, TRY, files, self.stop_command())

    def stop_command(self):
        build = self.options.build
        return "make stop" if build == "build" else f"make BUILD={build} stop"

    def run_all(self):
        self.start()
        self.register()
        self.play()
        self.finish()


def natural(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError("must be a number above 0")
    return int(text)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--stop", action="store_true", help="end an earlier demonstration")
    add("--once", action="store_true", help="end everything when played")
    add("--port", type=int, default=PORT, help="of the selector; 0: any")
    add("--build", default="build", help="build directory")
    add("--nginx", default="/usr/sbin/nginx", help="nginx binary")
    add("--conf", help="configuration instead of conf/nginx.conf")
    add("--seed", type=int, default=2, help="of the trace")
    add("--users", type=natural, default=6)
    add("--rounds", type=natural, default=5, help="questions of each user")
    add("--together", type=natural, default=2,
        help="of these asked by all users at once")
    add("--blocks", type=natural, default=128, help="of each engine's cache")
    return parser.parse_args()


def interrupted(*_):
    raise KeyboardInterrupt


def attempt(demo):
    """Returns (exit status, whether the processes shall go on)."""
    try:
        if demo.options.stop:
            ended = demo.processes.stop()
            report.say(f"Ended: {', '.join(ended)}" if ended
                       else "Nothing is running.")
        else:
            demo.run_all()
        return 0, not demo.options.once
    except DemoError as error:
        report.failure(f"The demonstration failed: {error}.")
        return 1, isinstance(error, Busy)
    except KeyboardInterrupt:
        report.say("\nInterrupted.")
        return 130, False


def main():
    demo = Demo(read_options())
    signal.signal(signal.SIGTERM, interrupted)
    try:
        status, keep = attempt(demo)
        if not keep:
            demo.processes.stop()
    except DemoError as error:
        report.failure(f"{error}.")
        status = 1
    except BaseException:
        demo.processes.stop()
        raise
    sys.exit(status)


if __name__ == "__main__":
    main()
