"""Traces of requests with shared prefixes, made up or measured.

    trace.py conversation|tool [--seed N] [--lines N] [--dir DIR]
    trace.py --check FILE

The format is that of the public Mooncake traces: a JSON object a line with
`timestamp` (milliseconds), `input_length`, `output_length` (tokens) and
`hash_ids`.  An id stands for 512 tokens; the last one may stand for fewer.
It has one predecessor in the whole file, so equal ids mean equal prefixes.

The two shapes are modelled on two of those traces.  A request is new, or it
goes on where an earlier one ended, or it leaves one halfway.  How often, how
long ago that one was and how much is added are drawn from the quantiles that
were measured; the rest follows.  The name of a made file tells shape and
seed.  --check prints the statistics of a file beside those of the traces.
"""

import argparse
import bisect
import collections
import json
import math
import pathlib
import random
import statistics
import sys

TOKENS = 512                # of an id

# Quantile tables: (part, value), read with straight lines between logarithms.
CONVERSATION = {
    "lines": 12031,
    "root": True,           # all requests begin with the same id
    "burst": (3.0, 10.2, 2.0, 6, 19),   # seconds; requests: mean, deviation
    "goes_on": 0.348,
    "leaves": 0.072,
    "bias": (0.0, 1),       # towards requests of so many ids when one is
                            # taken up again
    "age": ((0, 20), (0.1, 62), (0.5, 165), (0.9, 610), (0.99, 1900),
            (1, 3000)),
    "added": ((0, 1), (0.3, 1), (0.5, 2), (0.9, 20), (0.99, 53), (1, 90)),
    "input": ((0, 600), (0.1, 1500), (0.5, 5200), (0.9, 21500),
              (0.99, 76000), (1, 126195)),
    "output": ((0, 1), (0.1, 60), (0.5, 350), (0.9, 597), (0.997, 2000),
               (1, 2000)),
}

TOOL = {
    "lines": 3993,
    "root": False,
    "rate": 3.9,            # a second, Poisson
    "goes_on": 0.348,
    "leaves": 0.115,
    "bias": (0.8, 80),
    "age": ((0, 3), (0.1, 22), (0.5, 180), (0.9, 500), (0.99, 800),
            (1, 1000)),
    "added": ((0, 1), (0.6, 1), (0.9, 2), (0.99, 4), (1, 8)),
    "same": 0.15,           # nothing is added at all
    "input": ((0, 200), (0.1, 900), (0.5, 6300), (0.9, 19500),
              (0.99, 48000), (1, 191378)),
    "output": ((0, 3), (0.1, 20), (0.5, 69), (0.9, 389), (0.99, 700),
               (1, 893)),
}

SHAPES = {"conversation": CONVERSATION, "tool": TOOL}

# What was measured in the public traces, in the order in which it is printed.
TARGETS = {
    "conversation": (
        "12,031", "3,537 s, 3.4", "12,035 / 6,909 / 27,367 / 85,401 / 126,195",
        "343 / 350 / 597 / 2,000", "24 / 14 / 54 / 167 / 247",
        "182,790, 138,646", "36.6 %", "1", "61.3 / 32.9 / 5.8 %",
        "42 / 123 / 483 / 1,482", "1 / 2 / 20 / 53", "4,591 / 5,885"),
    "tool": (
        "3,993", "1,022 s, 3.9", "15,325 / 11,587 / 38,615 / 66,458 / 191,378",
        "149 / 69 / 389 / 893", "30.5 / 23 / 76 / 130 / 374",
        "43,924, 25,673", "64.0 %", "2,211", "55.4 / 33.5 / 10.3 %",
        "6 / 64 / 294 / 608", "0 / 1 / 2 / 4", "5,544 / 7,032"),
}

NAMES = (
    "lines", "span, requests a second",
    "input tokens: mean / p50 / p90 / p99 / max",
    "output tokens: mean / p50 / p90 / max",
    "ids of a request: mean / p50 / p90 / p99 / max",
    "unique ids, of them used once", "ids found in an endless cache",
    "different first ids", "new / goes on / leaves",
    "age of what is reused, s: p10 / p50 / p90 / p99",
    "ids added to it: p10 / p50 / p90 / p99",
    "different ids in 60 s: p50 / max")


def draw(chance, table):
    """A number with these quantiles."""
    part = chance.random()
    for (low, small), (high, large) in zip(table, table[1:]):
        if part <= high:
            at = (part - low) / (high - low)
            return small * (large / small) ** at
    return table[-1][1]


class Request:
    def __init__(self, time, tokens, ids):
        self.time = time
        self.tokens = tokens
        self.ids = ids


class Generator:
    """Makes the requests of a shape one after another."""

    def __init__(self, shape, seed):
        self.shape = shape
        self.chance = random.Random(seed)
        self.unused = 0
        self.limit = shape["input"][-1][1]
        self.times = []
        self.made = []
        self.root = self.fresh(1) if shape["root"] else []

    def fresh(self, count):
        self.unused += count
        return list(range(self.unused - count, self.unused))

    def arrivals(self):
        """Times in milliseconds, without end."""
        now = 0.0
        while True:
            if "rate" in self.shape:
                yield int(now * 1000)
                now += self.chance.expovariate(self.shape["rate"])
            else:
                every, mean, deviation, least, most = self.shape["burst"]
                size = round(self.chance.gauss(mean, deviation))
                for _ in range(min(max(size, least), most)):
                    yield int(now * 1000)
                now += every

    def lines(self, count):
        for time, _ in zip(self.arrivals(), range(count)):
            request = self.request(time)
            self.times.append(time)
            self.made.append(request)
            yield {"timestamp": time, "input_length": request.tokens,
                   "output_length": max(1, round(draw(self.chance,
                                                      self.shape["output"]))),
                   "hash_ids": request.ids}

    def request(self, time):
        kind = self.chance.random()
        if kind < self.shape["goes_on"] + self.shape["leaves"]:
            earlier = self.earlier(time)
            if earlier and kind < self.shape["goes_on"]:
                return self.goes_on(time, earlier)
            if earlier and len(earlier.ids) > 4:
                return self.leaves(time, earlier)
        tokens = round(draw(self.chance, self.shape["input"]))
        ids = self.root + self.fresh(max(0, math.ceil(tokens / TOKENS)
                                         - len(self.root)))
        return Request(time, tokens, ids)

    def earlier(self, time):
        """A request that is as old as drawn, or none."""
        power, longest = self.shape["bias"]
        for _ in range(60):
            past = time - draw(self.chance, self.shape["age"]) * 1000
            at = bisect.bisect(self.times, past)
            if past < 0 or at == 0:
                continue
            found = self.made[max(0, at - self.chance.randint(1, 6))]
            if self.chance.random() > (min(len(found.ids), longest)
                                       / longest) ** power:
                continue
            if found.tokens < 0.9 * self.limit:
                return found
        return None

    def goes_on(self, time, earlier):
        if self.chance.random() < self.shape.get("same", 0):
            return Request(time, earlier.tokens, earlier.ids)
        whole = earlier.tokens // TOKENS
        return self.longer(time, earlier.ids[:whole])

    def leaves(self, time, earlier):
        kept = self.chance.randint(len(self.root) + 1, len(earlier.ids) - 2)
        return self.longer(time, earlier.ids[:kept])

    def longer(self, time, ids):
        added = round(draw(self.chance, self.shape["added"]))
        tokens = (len(ids) + added) * TOKENS - self.chance.randint(0,
                                                                   TOKENS - 1)
        tokens = min(tokens, self.limit)
        return Request(time, tokens, ids + self.fresh(
            math.ceil(tokens / TOKENS) - len(ids)))


class Measure:
    """The statistics of a trace, line by line."""

    def __init__(self):
        self.times, self.inputs, self.outputs, self.counts = [], [], [], []
        self.uses = collections.Counter()
        self.touched = {}           # id: time of its last use
        self.before = {}            # id: the one before it
        self.ends = set()           # ids at which a request ended
        self.firsts = set()
        self.kinds = collections.Counter()
        self.ages, self.added = [], []
        self.hits = 0
        self.recent = collections.deque()
        self.window = collections.Counter()
        self.windows = []

    def add(self, line):
        time, ids = line["timestamp"], line["hash_ids"]
        if len(ids) != math.ceil(line["input_length"] / TOKENS):
            sys.exit("a line has another number of ids than its length needs")
        self.times.append(time)
        self.inputs.append(line["input_length"])
        self.outputs.append(line["output_length"])
        self.counts.append(len(ids))
        self.firsts.update(ids[:1])
        for before, number in zip([None] + ids, ids):
            if self.before.setdefault(number, before) != before:
                sys.exit(f"id {number} follows different ids")
        self.classify(time, ids)
        self.uses.update(ids)
        self.touched.update(dict.fromkeys(ids, time))
        whole = line["input_length"] // TOKENS
        self.ends.update(ids[max(0, whole - 1):])
        self.slide(time, ids)

    def classify(self, time, ids):
        known = 0
        while known < len(ids) and ids[known] in self.touched:
            known += 1
        self.hits += known
        if known == 0 or known == 1 and len(self.firsts) == 1:
            self.kinds["new"] += 1
            return
        end = ids[known - 1]
        self.kinds["goes on" if end in self.ends else "leaves"] += 1
        self.ages.append((time - self.touched[end]) / 1000)
        self.added.append(len(ids) - known)

    def slide(self, time, ids):
        self.recent.append((time, ids))
        self.window.update(ids)
        while self.recent[0][0] <= time - 60000:
            for number in self.recent.popleft()[1]:
                self.window[number] -= 1
                if self.window[number] == 0:
                    del self.window[number]
        if time >= 60000:
            self.windows.append(len(self.window))

    def rows(self):
        span = (self.times[-1] - self.times[0]) / 1000
        count = len(self.times)
        once = sum(1 for uses in self.uses.values() if uses == 1)
        shares = [100 * self.kinds[kind] / count
                  for kind in ("new", "goes on", "leaves")]
        return (
            f"{count:,}", f"{span:,.0f} s, {count / max(span, 1):.1f}",
            quantiles(self.inputs, (0.5, 0.9, 0.99, 1), True),
            quantiles(self.outputs, (0.5, 0.9, 1), True),
            quantiles(self.counts, (0.5, 0.9, 0.99, 1), True),
            f"{len(self.uses):,}, {once:,}",
            f"{100 * self.hits / sum(self.counts):.1f} %",
            f"{len(self.firsts):,}",
            " / ".join(f"{share:.1f}" for share in shares) + " %",
            quantiles(self.ages, (0.1, 0.5, 0.9, 0.99)),
            quantiles(self.added, (0.1, 0.5, 0.9, 0.99)),
            quantiles(self.windows, (0.5, 1)))


def quantiles(values, parts, mean=False):
    if not values:
        return "none"
    values = sorted(values)
    chosen = [values[round(part * (len(values) - 1))] for part in parts]
    if mean:
        chosen.insert(0, statistics.fmean(values))
    return " / ".join(f"{value:,.0f}" for value in chosen)


def check(path):
    measure = Measure()
    with path.open() as file:
        for line in file:
            measure.add(json.loads(line))
    shape = "conversation" if len(measure.firsts) == 1 else "tool"
    print(f"{path.name}\n")
    print(f"  {'':50} {'this file':44} public trace, {shape}")
    for row in zip(NAMES, measure.rows(), TARGETS[shape]):
        print("  {:50} {:44} {}".format(*row))


def make(options):
    shape = SHAPES[options.shape]
    count = options.lines or shape["lines"]
    path = options.dir / f"{options.shape}-{count}-seed{options.seed}.jsonl"
    with path.open("w") as file:
        for line in Generator(shape, options.seed).lines(count):
            file.write(json.dumps(line) + "\n")
    print(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("shape", nargs="?", choices=SHAPES)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--lines", type=int, default=0)
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path())
    parser.add_argument("--check", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    if options.check:
        check(options.check)
    elif options.shape:
        make(options)
    else:
        parser.error("a shape or --check FILE is needed")


if __name__ == "__main__":
    main()
