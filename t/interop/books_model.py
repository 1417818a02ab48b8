#!/usr/bin/python3
"""Random reservations over HTTP beside a slow model of the books.

Every operation goes to one of the worker processes by chance, over a
keep-alive connection, and its answer is compared with what the model says;
after each batch the loads that all processes tell must be those of the model.
A choice must be one of the cheapest ranks.  Nothing may be cached: KV events
are on, and the endpoint is one where nobody publishes.

SEL_SEED repeats a run.  Exit code 1: a difference, told on standard output.
"""

import argparse
import json
import math
import os
import random
import socket
import sys

BATCH = 500
BLOCK = 4
RANKS = 34
FRACTIONS = [None, None, 0, 0.1, 0.25, 0.5, 0.9, 1]
NEAR = 1e-6


class Difference(Exception):
    pass


class Connection:
    """Keeps a connection to whatever process accepted it."""

    def __init__(self, port):
        self.socket = socket.create_connection(('127.0.0.1', port), 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b''
        self.process = None

    def ask(self, method, path, body=None):
        """Returns the status and the body as data (text, if it is none)."""
        head = f'{method} {path} HTTP/1.1\r\nHost: x\r\n'
        data = b''
        if body is not None:
            data = json.dumps(body).encode()
            head += ('Content-Type: application/json\r\n'
                     f'Content-Length: {len(data)}\r\n')
        self.socket.sendall(head.encode() + b'\r\n' + data)
        return self._receive()

    def _receive(self):
        while b'\r\n\r\n' not in self.buffer:
            self._read()
        head, _, self.buffer = self.buffer.partition(b'\r\n\r\n')
        lines = head.decode().split('\r\n')
        headers = dict(line.lower().split(': ', 1) for line in lines[1:])
        self.process = headers.get('x-select-process')
        if 'content-length' in headers:
            body = self._take(int(headers['content-length']))
        else:
            body = self._chunks()
        return int(lines[0].split()[1]), json.loads(body)

    def _chunks(self):
        body = b''
        while True:
            while b'\r\n' not in self.buffer:
                self._read()
            size, _, self.buffer = self.buffer.partition(b'\r\n')
            body += self._take(int(size, 16))
            self._take(2)
            if int(size, 16) == 0:
                return body

    def _take(self, count):
        while len(self.buffer) < count:
            self._read()
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def _read(self):
        data = self.socket.recv(65536)
        if not data:
            raise Difference('a connection was closed')
        self.buffer += data


def connect(port, processes):
    """One connection to each process."""
    found = {}
    for _ in range(200):
        connection = Connection(port)
        connection.ask('GET', '/health')
        found.setdefault(connection.process, connection)
        if len(found) == processes:
            return list(found.values())
    sys.exit(f'only {len(found)} processes answer')


class Booking:
    def __init__(self, rank, path, tokens):
        self.rank = rank
        self.path = path
        self.tokens = tokens
        self.outputs = []


class Rank:
    """Prompt blocks by their path from the root: who has them, weight."""

    def __init__(self):
        self.owners = {}
        self.weight = {}
        self.bookings = set()

    def total(self):
        weights = list(self.weight.values())
        for booking in self.bookings:
            weights += booking.outputs
        return math.fsum(weights)

    def tokens(self):
        return sum(booking.tokens for booking in self.bookings)

    def depth(self, path):
        for n, block in enumerate(path):
            if block not in self.owners:
                return n
        return len(path)

    def add(self, booking):
        self.bookings.add(booking)
        for block in booking.path:
            self.owners.setdefault(block, set()).add(booking)
            self.weight.setdefault(block, 1.0)

    def remove(self, booking):
        self.bookings.discard(booking)
        for block in booking.path:
            self.owners[block].discard(booking)
            if not self.owners[block]:
                del self.owners[block]
                del self.weight[block]

    def output(self, booking, fraction):
        booking.outputs.append(1.0)
        if fraction is None:
            return
        booking.outputs = [float(fraction)] * len(booking.outputs)
        for block in booking.path:
            if self.owners[block] == {booking}:
                self.weight[block] = float(fraction)


def rounded(total):
    """The numbers that a sum may be rounded to, half away from zero."""
    exact = math.floor(total + 0.5)
    return {exact, math.floor(total + 0.5 - NEAR),
            math.floor(total + 0.5 + NEAR)}


def paths(sequence):
    return [tuple(sequence[:n + 1]) for n in range(len(sequence))]


class Model:
    def __init__(self):
        self.workers = {}       # id: (partition, ranks)
        self.ranks = {}         # (worker, rank): Rank
        self.bookings = {}      # id: Booking

    def register(self, worker, partition, ranks):
        old = self.workers.get(worker, (partition, []))
        keep = set(ranks) if old[0] == partition else set()
        self.drop(worker, keep)
        self.workers[worker] = (partition, list(ranks))
        for rank in ranks:
            self.ranks.setdefault((worker, rank), Rank())

    def drop(self, worker, keep=frozenset()):
        gone = {key for key in self.ranks
                if key[0] == worker and key[1] not in keep}
        for key in gone:
            del self.ranks[key]
        self.bookings = {name: booking
                         for name, booking in self.bookings.items()
                         if booking.rank not in gone}

    def candidates(self, partition):
        return [(worker, rank)
                for worker, (place, ranks) in self.workers.items()
                if place == partition for rank in ranks]

    def book(self, name, rank, path, tokens):
        booking = Booking(rank, path, tokens)
        self.bookings[name] = booking
        self.ranks[rank].add(booking)

    def free(self, name):
        booking = self.bookings.pop(name)
        self.ranks[booking.rank].remove(booking)


class Run:
    def __init__(self, connections, endpoint, rng):
        self.connections = connections
        self.endpoint = endpoint
        self.rng = rng
        self.model = Model()
        self.serial = 0
        self.done = {}
        self.freed = []

    def ask(self, method, path, body=None):
        connection = self.rng.choice(self.connections)
        self.last = (method, path, body, connection.process)
        return connection.ask(method, path, body)

    def want(self, answer, status, what=''):
        if answer[0] != status:
            raise Difference(f'{self.last}: {answer}, not {status} {what}')
        return answer[1]

    def same(self, got, allowed, what):
        if got not in allowed:
            raise Difference(f'{self.last}: {what} {got}, not {allowed}')

    # What an operation is about.

    def prompt(self):
        """A walk in a small tree, so that prompts share and part."""
        length = self.rng.choice([0, 1, 2, 3, 5, 8, 13, 30])
        sequence, branch = [], self.rng.randrange(3)
        for n in range(length):
            if self.rng.random() < 0.15:
                branch = self.rng.randrange(3)
            sequence.append(1000 * (branch + 1) + n)
        if sequence and self.rng.random() < 0.1:
            sequence.append(sequence[-1])
        return sequence

    def partition(self):
        return {'model_name': self.rng.choice(['a', 'b'])}

    def new_name(self):
        if self.model.bookings and self.rng.random() < 0.05:
            return self.rng.choice(list(self.model.bookings))
        if self.freed and self.rng.random() < 0.1:
            return self.rng.choice(self.freed)
        self.serial += 1
        return f'r{self.serial}'

    def some_name(self):
        if self.model.bookings and self.rng.random() < 0.95:
            return self.rng.choice(list(self.model.bookings))
        return self.rng.choice(self.freed or ['unknown'])

    # Operations.

    def explicit(self):
        name, place, sequence = self.new_name(), self.partition(), \
            self.prompt()
        ranks = self.model.candidates(place['model_name'])
        if not ranks:
            self.want(self.ask('POST', '/reservations', dict(
                place, selection_id=name, worker_id=1, isl_tokens=0,
                sequence_hashes=[])), 503)
            return
        rank = self.rng.choice(ranks)
        isl = BLOCK * len(sequence) + self.rng.randrange(BLOCK)
        body = dict(place, selection_id=name, worker_id=rank[0],
                    dp_rank=rank[1], sequence_hashes=sequence,
                    isl_tokens=isl)
        tokens = 0
        if self.rng.random() < 0.7:
            body['effective_prefill_tokens'] = tokens \
                = self.rng.randrange(isl + 1)
            if self.rng.random() < 0.3:
                body['track_prefill_tokens'] = False
                tokens = 0
        if self.rng.random() < 0.05:
            body['dp_rank'] = 77
        answer = self.ask('POST', '/reservations', body)
        if name in self.model.bookings:
            self.want(answer, 409)
        elif body['dp_rank'] == 77:
            self.want(answer, 404)
        else:
            self.want(answer, 201)
            self.model.book(name, rank, paths(sequence), tokens)

    def selection(self):
        """Chooses, and books at once or by a replay."""
        name, place, sequence = self.new_name(), self.partition(), \
            self.prompt()
        at_once = self.rng.random() < 0.7
        isl = max(1, BLOCK * len(sequence) + self.rng.randrange(BLOCK))
        track = self.rng.random() < 0.8
        body = dict(place, selection_id=name, sequence_hashes=sequence,
                    block_hashes=sequence, isl_tokens=isl,
                    router_config_override={'track_prefill_tokens': track})
        ranks = self.model.candidates(place['model_name'])
        if ranks and self.rng.random() < 0.3:
            worker, rank = self.rng.choice(ranks)
            ranks = [(worker, rank)]
            body['pinned_worker'] = {'worker_id': worker, 'dp_rank': rank}
        answer = self.ask(
            'POST', '/select_and_reserve' if at_once else '/select', body)
        if not ranks:
            self.want(answer, 503)
            return
        if at_once and name in self.model.bookings:
            self.want(answer, 409)
            return
        answer = self.want(answer, 200)
        chosen = (answer['worker_id'], answer['dp_rank'])
        path = paths(sequence)
        self.cheapest(chosen, ranks, path, isl, track)
        self.numbers(answer, chosen, path, isl)
        if not at_once:
            replay = self.ask('POST', '/reservations',
                              dict(place, selection_id=name))
            if name in self.model.bookings:
                self.want(replay, 409)
                return
            replay = self.want(replay, 201)
            self.same((replay['worker_id'], replay['dp_rank']), [chosen],
                      'replayed')
        self.model.book(name, chosen, path, isl if track else 0)

    def cheapest(self, chosen, ranks, path, isl, track):
        costs, slack = {}, NEAR
        for key in ranks:
            rank = self.model.ranks[key]
            blocks = rounded(rank.total())
            slack = max(slack, max(blocks) - min(blocks) + NEAR)
            costs[key] = ((rank.tokens() + isl) / BLOCK if track else 0) \
                + max(blocks) + len(path) - rank.depth(path)
        if chosen not in costs:
            raise Difference(f'{self.last}: {chosen} is no candidate')
        if costs[chosen] > min(costs.values()) + slack:
            raise Difference(f'{self.last}: {chosen} of {costs}')

    def numbers(self, answer, chosen, path, isl):
        rank = self.model.ranks[chosen]
        more = len(path) - rank.depth(path) \
            + max(0, -(-isl // BLOCK) - len(path))
        self.same(answer['potential_decode_blocks'],
                  {n + more for n in rounded(rank.total())},
                  'potential_decode_blocks')
        self.same(answer['effective_prefill_tokens'], {isl},
                  'effective_prefill_tokens')

    def output(self):
        name, fraction = self.some_name(), self.rng.choice(FRACTIONS)
        path = f'/reservations/{name}/output_block'
        if self.rng.random() < 0.02:
            self.want(self.ask('POST', path, {'decay_fraction': 1.01}), 400)
            return
        body = {} if fraction is None else {'decay_fraction': fraction}
        answer = self.ask('POST', path, body)
        booking = self.model.bookings.get(name)
        self.want(answer, 200 if booking else 404)
        if booking:
            self.model.ranks[booking.rank].output(booking, fraction)

    def prefilled(self):
        name = self.some_name()
        answer = self.ask('POST', f'/reservations/{name}/prefill_complete')
        booking = self.model.bookings.get(name)
        self.want(answer, 200 if booking else 404)
        if booking:
            booking.tokens = 0

    def free(self):
        name = self.some_name()
        answer = self.ask('DELETE', f'/reservations/{name}')
        self.want(answer, 200 if name in self.model.bookings else 404)
        if name in self.model.bookings:
            self.model.free(name)
            self.freed = (self.freed + [name])[-50:]

    def potential(self):
        place, sequence = self.partition(), self.prompt()
        isl = max(1, BLOCK * len(sequence))
        answer = self.ask('POST', '/potential_loads', dict(
            place, block_hashes=sequence, sequence_hashes=sequence,
            isl_tokens=isl))
        ranks = sorted(self.model.candidates(place['model_name']))
        if not ranks:
            self.want(answer, 503)
            return
        rows = self.want(answer, 200)
        self.same([(row['worker_id'], row['dp_rank']) for row in rows],
                  [ranks], 'rows')
        for row in rows:
            key = (row['worker_id'], row['dp_rank'])
            self.row(row, key, paths(sequence), isl)

    def row(self, row, key, path, isl):
        rank = self.model.ranks[key]
        more = len(path) - rank.depth(path)
        self.same(row['potential_prefill_tokens'], {rank.tokens() + isl},
                  f'tokens of {key}')
        self.same(row['potential_decode_blocks'],
                  {n + more for n in rounded(rank.total())},
                  f'blocks of {key}')
        self.same(row['active_requests'], {len(rank.bookings)},
                  f'requests of {key}')

    def worker(self):
        worker = self.rng.randrange(1, 5)
        if self.rng.random() < 0.3:
            answer = self.ask('DELETE', f'/workers/{worker}')
            self.want(answer, 200 if worker in self.model.workers else 404)
            self.model.drop(worker)
            self.model.workers.pop(worker, None)
            return
        self.register(worker)

    def register(self, worker):
        """Mostly with the ranks that it has, or nearly those."""
        old = self.model.workers.get(worker)
        # One has many ranks, so that a block can be on many.
        most = 32 if worker == 4 else 4
        start, size = self.rng.randrange(2), self.rng.randrange(1, most)
        partition = 'a' if worker < 3 else 'b'
        if old and self.rng.random() < 0.5:
            partition, ranks = old
            start, size = ranks[0], len(ranks)
        elif self.rng.random() < 0.1:
            partition = self.rng.choice('ab')
        ranks = list(range(start, start + size))
        self.want(self.ask('POST', '/workers', {
            'worker_id': worker, 'model_name': partition, 'endpoint': 'e',
            'block_size': BLOCK, 'data_parallel_start_rank': start,
            'data_parallel_size': size,
            'kv_events_endpoints': {str(n): self.endpoint
                                    for n in range(RANKS)},
            'total_kv_blocks': self.rng.randrange(1000)}), 201)
        self.model.register(worker, partition, ranks)

    # The whole.

    OPERATIONS = [(explicit, 24), (selection, 24), (output, 16),
                  (prefilled, 8), (free, 24), (potential, 3), (worker, 1)]

    def step(self):
        # Bookings that pile up make the model slow.
        if len(self.model.bookings) > 300:
            operation = Run.free
        else:
            operation, = self.rng.choices(
                [one for one, _ in self.OPERATIONS],
                [share for _, share in self.OPERATIONS])
        operation(self)
        name = operation.__name__
        self.done[name] = self.done.get(name, 0) + 1

    def compare(self):
        for connection in self.connections:
            self.last = ('GET', '/loads', None, connection.process)
            status, parts = connection.ask('GET', '/loads')
            self.same(status, [200], 'status')
            seen = {}
            for part in parts:
                for row in part['loads']:
                    key = (row['worker_id'], row['dp_rank'])
                    seen[key] = part['model_name']
                    self.row(row, key, [], 0)
            want = {(worker, rank): place for worker, (place, ranks)
                    in self.model.workers.items() for rank in ranks}
            self.same(seen, [want], 'ranks')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--port', type=int, required=True)
    parser.add_argument('--endpoint', required=True)
    parser.add_argument('--processes', type=int, default=2)
    parser.add_argument('--ops', type=int,
                        default=int(os.environ.get('SEL_OPS') or 10000))
    options = parser.parse_args()
    seed = int(os.environ.get('SEL_SEED') or random.randrange(1 << 31))
    print(f'SEL_SEED={seed}')

    run = Run(connect(options.port, options.processes), options.endpoint,
              random.Random(seed))
    n = 0
    try:
        for worker in range(1, 5):
            run.register(worker)
        for n in range(1, options.ops + 1):
            run.step()
            if n % BATCH == 0:
                run.compare()
        for name in list(run.model.bookings):
            run.want(run.ask('DELETE', f'/reservations/{name}'), 200)
            run.model.free(name)
        run.compare()
    except (Difference, OSError, ValueError, KeyError) as difference:
        print(f'operation {n}: {type(difference).__name__}: {difference}')
        sys.exit(1)
    print(', '.join(f'{name} {count}'
                    for name, count in sorted(run.done.items())))


if __name__ == '__main__':
    main()
