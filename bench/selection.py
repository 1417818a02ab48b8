"""What a selection costs nginx, against locations that answer a fixed text.

For 1, 64 and 1,024 registered ranks, without and with KV events, each with
precomputed hashes and with token ids, the same POST requests go by turns to

    /select   the module
    /fixed    reads the body into memory and answers (answer.c)
    /return   nginx's `return 200`, which reads the body and drops it

With events every rank has a ZMQ publisher of its own; together they publish
BLOCKS blocks, among them those of all prompts that are asked for.
"""

import json
import random
import statistics
import struct
import subprocess
import sys
import time

import msgpack
import zmq

from server import BLOCK, WAIT, Nginx, raise_limit, run, spread, wait_until

RANKS = (1, 64, 1024)
PROMPTS = 64
TOKENS = 8192
BLOCKS = 100_000
EVENT_BLOCKS = 64
BATCH_EVENTS = 8
CONNECTIONS = 16
ROUNDS = 7
FILES = 8192                # descriptors that 1,024 ranks need


def sample_answer(events):
    """An answer of the size that the module gives."""
    hit = TOKENS if events else 0
    return json.dumps(
        {"model_name": "default", "routing_group": "default",
         "worker_id": 1000, "dp_rank": 0,
         "endpoint": "http://engine-1000:8000", "block_size": BLOCK,
         "overlap": {"longest_matched": hit, "gpu": hit, "dp": {"0": hit},
                     "cpu": hit, "disk": hit},
         "effective_prefill_tokens": TOKENS - hit,
         "potential_decode_blocks": TOKENS // BLOCK}, separators=(",", ":"))


class Engines:
    """A publisher for each rank."""

    def __init__(self, count, processes=2):
        self.context = zmq.Context()
        self.context.set(zmq.MAX_SOCKETS, count + 8)
        self.sockets = [self.context.socket(zmq.XPUB) for _ in range(count)]
        self.missing = []
        self.ports = []
        self.next = [0] * count
        for publisher in self.sockets:
            publisher.setsockopt(zmq.XPUB_VERBOSE, 1)
            publisher.setsockopt(zmq.SNDHWM, 0)
            publisher.setsockopt(zmq.LINGER, 0)
            self.ports.append(publisher.bind_to_random_port(
                "tcp://127.0.0.1"))
            self.missing += [publisher] * processes

    def subscribed(self):
        """All worker processes to every rank."""
        for publisher in list(self.missing):
            if publisher.poll(0):
                publisher.recv()
                self.missing.remove(publisher)
        return not self.missing

    def publish(self, rank, events):
        self.sockets[rank].send_multipart(
            [b"kv-events", struct.pack(">Q", self.next[rank]),
             msgpack.packb([time.time(), events, 0])])
        self.next[rank] += 1

    def hold(self, prompts):
        """Each prompt on one rank."""
        wait_until(self.subscribed, "subscriptions")
        first = 1
        for number, prompt in enumerate(prompts):
            events = list(stored_events(prompt, first))
            first += len(prompt) // BLOCK
            for start in range(0, len(events), BATCH_EVENTS):
                self.publish(number % len(self.sockets),
                             events[start:start + BATCH_EVENTS])

    def stop(self):
        self.context.destroy()


def stored_events(prompt, first):
    """The events that store a prompt's blocks under the names first, ..."""
    count = len(prompt) // BLOCK
    for start in range(0, count, EVENT_BLOCKS):
        names = list(range(first + start,
                           first + min(start + EVENT_BLOCKS, count)))
        yield {"type": "BlockStored", "block_hashes": names,
               "parent_block_hash": names[0] - 1 if start else None,
               "token_ids": prompt[start * BLOCK:][:len(names) * BLOCK],
               "block_size": BLOCK, "lora_id": None, "medium": "GPU",
               "lora_name": None}


class Bench:
    """The prompts, whose first `shared` tokens are the same, and bodies."""

    def __init__(self, options, shared=0):
        self.options = options
        chance = random.Random(options.seed)
        size = TOKENS // BLOCK
        same = chance.choices(range(1000, 150000), k=shared)
        self.prompts = [
            same + chance.choices(range(1000, 150000), k=TOKENS - shared)
            for _ in range(PROMPTS)]
        self.filler = [chance.choices(range(1000, 150000), k=BLOCK * min(
                           size, BLOCKS - start))
                       for start in range(PROMPTS * size, BLOCKS, size)]
        self.bodies = {}
        self.write("8,192 token ids", "tokens", "".join(
            json.dumps({"token_ids": prompt}, separators=(",", ":")) + "\n"
            for prompt in self.prompts))
        tokens = self.bodies["8,192 token ids"].read_text()
        self.write("512 hashes", "hashes", subprocess.run(
            [options.build / "bench" / "prompts"], input=tokens, text=True,
            stdout=subprocess.PIPE, check=True).stdout)

    def write(self, label, name, text):
        path = self.options.build / "bench" / f"{name}.json"
        path.write_text(text)
        self.bodies[label] = path

    def scenario(self, events, ranks):
        nginx = engines = None
        try:
            nginx = Nginx(self.options, events, answer=sample_answer(events))
            if events:
                engines = Engines(ranks)
            for number in range(ranks):
                nginx.register(number,
                               engines.ports[number:][:1] if events else ())
            if events:
                engines.hold(self.prompts + self.filler)
                wait_until(lambda: nginx.index_blocks() == [BLOCKS] * 2,
                           "events")
            for label in ("512 hashes", "8,192 token ids"):
                self.measure(nginx, events, ranks, label)
        finally:
            if nginx:
                nginx.stop()
            if engines:
                engines.stop()

    def measure(self, nginx, events, ranks, label):
        requests = 2000 if label == "512 hashes" else 1200
        lines = subprocess.run(
            [self.options.build / "bench" / "load", str(nginx.port),
             str(CONNECTIONS), str(requests), str(ROUNDS),
             self.bodies[label], nginx.workers(),
             "/select", "/fixed", "/return"], text=True,
            stdout=subprocess.PIPE, check=True, timeout=WAIT).stdout
        turns = {}
        for line in lines.splitlines():
            path, *numbers = line.split("\t")
            turns.setdefault(path, []).append(list(map(float, numbers)))
        report(events, ranks, label, turns)


def report(events, ranks, label, turns):
    print(f"\n  {label}, {ranks} rank{'s' * (ranks > 1)}, KV events "
          f"{'on' if events else 'off'}")
    for path, rows in turns.items():
        cpu, rate, size, *_ = zip(*rows)
        print(f"    {path:8} {spread(cpu):>24} us CPU a request "
              f"{statistics.median(rate):9.0f} requests/s "
              f"{size[0]:5.0f} bytes")
    for path in ("/fixed", "/return"):
        ratios = [ours[0] / theirs[0]
                  for ours, theirs in zip(turns["/select"], turns[path])]
        print(f"    ratio to {path:8} {spread(ratios, 2)}")
    sys.stdout.flush()


def main(options):
    print(f"POST /select in nginx with 2 worker processes, {CONNECTIONS} "
          f"connections; {ROUNDS} turns each, median (min .. max)")
    enough = raise_limit(FILES)
    bench = Bench(options)
    for events in (False, True):
        for ranks in RANKS:
            if events and ranks == RANKS[-1] and not enough:
                print(f"\n  {ranks} ranks with events are left out: they "
                      f"need {FILES} descriptors")
                continue
            bench.scenario(events, ranks)


if __name__ == "__main__":
    run(main)
