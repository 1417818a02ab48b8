#!/usr/bin/python3
"""A million bookings over HTTP, and memory that does not grow.

An nginx with two worker processes is asked over keep-alive connections to
each, many requests at a time: choices that book, selections that are booked
later or never, completed prefills, output blocks, ends.  Meanwhile workers
come, change and go, in the first half with event listeners (nobody publishes
there), in the second without KV events.  What was booked is remembered, so
the status of every answer is known before, and so is the number of live
bookings of each worker.

Ten times in each half all is freed and the prompts that the index learned
from the choices are forgotten; then no load, chunk of the zone or descriptor
may be missing.  From the fifth time on the processes' own memory must stay as
it is; without events it grows to the most that was ever learned at a time,
which depends on the speed.

SEL_OPS is the number of bookings, SEL_SEED repeats a run's choices.
Exit code 1: something was wrong, told on standard output.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

BOOKINGS = 1_000_000
PARTS = 10
PROCESSES = 2
CONNECTIONS = 4             # to each process
BATCH = 24                  # requests under way on each connection
LIVE = 3000                 # bookings, about
KEPT = 1000                 # selections
PROMPTS = 2000
BASE = 8                    # workers that are there at the edges of parts
RANKS = 2
TOMBS = 64                  # deletions that a zone remembers
CHANGE = 3                  # batches of all connections
LOADS = 50
WAIT = 20

# KV events, what is learned, and KiB that a process may grow by from the
# fifth part on
HALVES = (('on', 'select_predicted_ttl off', 1024),
          ('off', 'select_approximate_ttl 1s', 4096))

CONF = """
load_module {build}/ngx_http_select_module.so;

daemon off;
worker_processes {processes};
pid {run}/nginx.pid;
error_log {run}/error.log warn;

events {{
    worker_connections 16384;
}}

http {{
    access_log off;
    keepalive_requests 1000000000;
    client_body_buffer_size 128k;
    client_body_temp_path {run}/client_body;
    proxy_temp_path {run}/proxy;
    fastcgi_temp_path {run}/fastcgi;
    uwsgi_temp_path {run}/uwsgi;
    scgi_temp_path {run}/scgi;

    select_zone selector 64m;
    select_kv_events {events};
    {learn};
    select_pending max={kept};

    server {{
        listen 127.0.0.1:{port} reuseport;
        add_header X-Process $pid always;

        location / {{
            select_service selector;
        }}

        location = /status {{
            select_status selector;
        }}
    }}
}}
"""


class Wrong(Exception):
    pass


def wait_until(condition, what):
    end = time.monotonic() + WAIT
    while not condition():
        if time.monotonic() > end:
            raise Wrong(f'{what}: not within {WAIT} seconds')
        time.sleep(0.05)


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class Connection:
    """Sends many requests at once; keeps to the process that accepted it."""

    def __init__(self, port):
        self.socket = socket.create_connection(('127.0.0.1', port), WAIT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b''
        self.process = None

    def send(self, requests):
        parts = []
        for method, path, body in requests:
            head = f'{method} {path} HTTP/1.1\r\nHost: x\r\n'
            if body is not None:
                head += ('Content-Type: application/json\r\n'
                         f'Content-Length: {len(body)}\r\n')
            parts.append(f'{head}\r\n{body or ""}')
        self.socket.sendall(''.join(parts).encode())

    def receive(self):
        """Status and body of the next answer."""
        while (end := self.buffer.find(b'\r\n\r\n')) < 0:
            self._read()
        head, self.buffer = self.buffer[:end].lower(), self.buffer[end + 4:]
        self.process = re.search(rb'x-process: (\d+)', head)[1].decode()
        length = re.search(rb'content-length: (\d+)', head)
        body = self._take(int(length[1])) if length else self._chunks()
        return int(head[9:12]), body

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
        data = self.socket.recv(262144)
        if not data:
            raise Wrong('a connection was closed')
        self.buffer += data

    def ask(self, method, path, body=None):
        self.send([(method, path, body and json.dumps(body))])
        return self.receive()


class Nginx:
    def __init__(self, options, run, events, learn):
        self.port, self.run = free_port(), run
        conf = run / 'nginx.conf'
        conf.write_text(CONF.format(
            build=options.build, run=run, port=self.port, kept=KEPT,
            processes=PROCESSES, events=events, learn=learn))
        run.chmod(0o755)
        self.master = subprocess.Popen(
            [options.nginx, '-p', f'{run}/', '-c', conf, '-e',
             run / 'error.log'], stdin=subprocess.DEVNULL)

    def answers(self):
        if self.master.poll() is not None:
            raise Wrong('nginx did not start: '
                        + (self.run / 'error.log').read_text())
        try:
            return Connection(self.port).ask('GET', '/health')[0] == 200
        except OSError:
            return False

    def processes(self):
        return pathlib.Path(f'/proc/{self.master.pid}/task/{self.master.pid}/'
                            'children').read_text().split()

    def stop(self):
        if self.master.poll() is None:
            self.master.send_signal(signal.SIGTERM)
            self.master.wait(WAIT)


def memory(process):
    """KiB of its own."""
    status = pathlib.Path(f'/proc/{process}/status').read_text()
    return int(re.search(r'^RssAnon:\s+(\d+)', status, re.M)[1])


def descriptors(process):
    return len(os.listdir(f'/proc/{process}/fd'))


class Soak:
    def __init__(self, nginx, rng):
        self.nginx, self.rng = nginx, rng
        self.connections = self.connect()
        self.admin = Connection(nginx.port)
        self.endpoint = f'tcp://127.0.0.1:{free_port()}'
        self.serial = self.booked = self.requests = self.changes = 0
        self.life = {}          # of workers that are there
        self.lives = 0
        self.visitor = 1000
        self.live = []          # (id, worker, its life)
        self.selected = []      # the same of selections
        self.kept = collections.deque(maxlen=2 * KEPT)  # many are booked
        self.prompts = [self.prompt(n) for n in range(PROMPTS)]
        for worker in range(1, BASE + 1):
            self.register(worker)

    def connect(self):
        wanted = {process: CONNECTIONS for process in self.nginx.processes()}
        found = []
        while any(wanted.values()):
            connection = Connection(self.nginx.port)
            connection.ask('GET', '/health')
            if wanted[connection.process] > 0:
                wanted[connection.process] -= 1
                found.append(connection)
        return found

    def prompt(self, number):
        """Members of a body: two partitions, families of beginnings."""
        rng = self.rng
        family = rng.randrange(40)
        tokens = ([family * 1000 + n for n in range(rng.randrange(0, 400, 16))]
                  + [100000 + number * 100 + n % 100
                     for n in range(rng.randrange(200))])
        members = {'token_ids': tokens} if tokens and number % 4 else {
            'block_hashes': [-n for n in tokens[::16]],
            'sequence_hashes': tokens[::16], 'isl_tokens': len(tokens) + 1}
        return json.dumps({'model_name': 'ab'[number % 2], **members})[1:]

    # Workers.

    def administer(self, method, path, status, body=None):
        got, text = self.admin.ask(method, path, body)
        if got != status:
            raise Wrong(f'{method} {path}: {got} {text}')
        return text

    def register(self, worker, ranks=RANKS):
        text = self.administer('POST', '/workers', 201, {
            'worker_id': worker, 'model_name': 'ab'[worker % 2],
            'block_size': 16, 'endpoint': f'http://127.0.0.1:{worker}',
            'data_parallel_size': ranks,
            'kv_events_endpoints': {str(n): self.endpoint
                                    for n in range(ranks)}})
        if b'"schedulable"' not in text:
            raise Wrong(f'a worker was not taken: {text}')
        if worker not in self.life:
            self.lives += 1
            self.life[worker] = self.lives

    def remove(self, worker):
        self.administer('DELETE', f'/workers/{worker}', 200)
        del self.life[worker]

    def change(self):
        self.changes += 1
        worker = self.rng.choice(list(self.life))
        kind = self.rng.randrange(4)
        if kind == 0:
            self.visitor += 1
            self.register(self.visitor, self.rng.randrange(1, 5))
        elif kind == 1 and worker > BASE:
            self.remove(worker)
        elif kind == 1:
            self.remove(worker)
            self.register(worker)
        elif kind == 2:
            self.administer('PATCH', f'/workers/{worker}', 200,
                            {'total_kv_blocks': self.changes})
        elif worker <= BASE:
            self.register(worker)

    def alive(self, item):
        return self.life.get(item[1]) == item[2]

    # Requests: each with what its answer leads to.

    def name(self):
        self.serial += 1
        return (f'{self.serial:08}-' + 'x' * (150 if self.serial % 9 == 0
                                              else 20))

    def reserve(self):
        name = self.name()
        self.booked += 1
        body = f'{{"selection_id":"{name}",' + self.rng.choice(self.prompts)
        return ('POST', '/select_and_reserve', body), 200, name, self.live

    def select(self):
        name = self.name()
        number = self.rng.randrange(PROMPTS)
        self.kept.append((name, number % 2))
        body = f'{{"selection_id":"{name}",' + self.prompts[number]
        return ('POST', '/select', body), 200, name, self.selected

    def take(self, items):
        """One of the list, out of it: in a batch each is used once."""
        at = self.rng.randrange(len(items))
        items[at], items[-1] = items[-1], items[at]
        return items.pop()

    def free(self):
        item = self.take(self.live)
        return (('DELETE', f'/reservations/{item[0]}', None),
                200 if self.alive(item) else 404, None, None)

    def use(self, used):
        item = self.take(self.live)
        used.append(item)
        if self.rng.random() < 0.3:
            request = 'prefill_complete', None
        else:
            request = 'output_block', self.rng.choice(
                ['{}', '{"decay_fraction":0.1}', '{"decay_fraction":0.5}'])
        return (('POST', f'/reservations/{item[0]}/{request[0]}', request[1]),
                200 if self.alive(item) else 404, None, None)

    def some(self, used):
        way = self.rng.random()
        if self.live and way < 0.45 * min(1, len(self.live) / LIVE):
            return self.free()
        if self.live and way > 0.85:
            return self.use(used)
        return self.select() if way > 0.78 else self.reserve()

    def batch(self, make):
        """Sends what is made to all connections, then reads it all."""
        under_way = []
        for connection in self.connections:
            requests = [r for r in (make() for _ in range(BATCH)) if r]
            connection.send([request[0] for request in requests])
            under_way.append((connection, requests))
        for connection, requests in under_way:
            for request, status, name, into in requests:
                got, text = connection.receive()
                self.requests += 1
                if got != status:
                    raise Wrong(f'{request}: {got} {text}, not {status}')
                if into is not None:
                    worker = int(re.search(rb'"worker_id":(\d+)', text)[1])
                    into.append((name, worker, self.life[worker]))

    def turn(self, number):
        used = []
        self.batch(lambda: self.some(used))
        self.live += used
        if number % CHANGE == 0:
            self.change()
        if number % 3 == 0:
            self.book_selected()
        if number % LOADS == 0:
            self.compare()

    def book_selected(self):
        """Some of the last selections; others are left to be dropped."""
        items = self.selected[-300:]
        self.selected = []
        for name, worker, _ in items[::4]:
            status, text = self.admin.ask('POST', '/reservations', {
                'selection_id': name, 'model_name': 'ab'[worker % 2]})
            if status != (201 if worker in self.life else 404):
                raise Wrong(f'selection {name}: {status} {text}')
            if status == 201:
                self.booked += 1
                self.live.append((name, worker, self.life[worker]))

    # What must be.

    def loads(self):
        """Of each process: {worker: requests}, and all numbers' sum."""
        found = []
        for connection in self.connections[::CONNECTIONS]:
            status, text = connection.ask('GET', '/loads')
            rows = [row for part in json.loads(text) for row in part['loads']]
            requests = {row['worker_id']: 0 for row in rows}
            for row in rows:
                requests[row['worker_id']] += row['active_requests']
            found.append((requests, sum(
                row[member] for row in rows
                for member in ('potential_prefill_tokens', 'active_requests',
                               'potential_decode_blocks'))))
        return found

    def compare(self):
        want = {worker: 0 for worker in self.life}
        for item in self.live:
            if self.alive(item):
                want[item[1]] += 1
        for requests, _ in self.loads():
            if requests != want:
                raise Wrong(f'loads {requests}, not {want}')

    def metrics(self, pattern):
        status, text = self.admin.ask('GET', '/status')
        return [int(float(value)) for value in re.findall(
            rf'^select_{pattern}(?:\{{.*\}})? (\S+)', text.decode(), re.M)]

    def free_all(self):
        while self.live:
            self.batch(lambda: self.live and self.free())

    def drain(self):
        """What is free, and memory of each process, when nothing is left."""
        self.free_all()
        for worker in [n for n in self.life if n > BASE]:
            self.remove(worker)
        for _ in range(TOMBS):
            self.visitor += 1
            self.register(self.visitor)
            self.remove(self.visitor)
        for worker in range(1, BASE + 1):
            self.register(worker)
        self.forget_selected()
        self.free_all()
        for _, total in self.loads():
            if total != 0:
                raise Wrong(f'loads of {total} are left')
        left = [self.metrics(name) for name in (
            'reservations', 'reservation_edges', 'pending_selections')]
        if left != [[0], [0], [0]]:
            raise Wrong(f'bookings, edges, selections are left: {left}')
        wait_until(lambda: self.metrics('index_ranks_retired')
                   == [0] * PROCESSES, 'ranks that left are swept')
        wait_until(self.forgotten, 'learned prompts are forgotten')

        # nginx keeps a few bytes of each request while a connection lives

        for connection in self.connections:
            connection.socket.close()
        self.connections = self.connect()
        return (self.metrics('zone_chunks_free')
                + self.metrics('zone_slots_free'),
                [memory(process) for process in self.nginx.processes()])

    def descriptors(self):
        """Of each process, when they have been the same for a while."""
        last, times = None, 0
        while times < 10:
            now = [descriptors(n) for n in self.nginx.processes()]
            times = times + 1 if now == last else 0
            last = now
            time.sleep(0.1)
        return last

    def forgotten(self):
        """Asks for something: with each look-up some of what is old goes."""
        self.batch(lambda: (('POST', '/select', '{' + self.prompts[0]), 200,
                            None, None))
        return self.metrics('index_blocks') == [0] * PROCESSES

    def forget_selected(self):
        """Booked with a worker's name, a selection goes."""
        names = list(self.kept)
        self.kept.clear()
        self.selected.clear()

        def book():
            if not names:
                return None
            name, odd = names.pop()
            self.booked += 1
            return (('POST', '/reservations', json.dumps({
                'selection_id': name, 'model_name': 'ab'[odd],
                'worker_id': 2 - odd,
                'sequence_hashes': [], 'block_hashes': [], 'isl_tokens': 1})),
                201, name, self.live)

        while names:
            self.batch(book)


def part(soak, until, start, told):
    turns = 0
    while soak.booked < until:
        turns += 1
        soak.turn(turns)
        if time.monotonic() - told[0] > 60:
            told[0] += 60
            print(f'{told[0] - start:4.0f} s: {soak.booked:,} bookings, '
                  f'{len(soak.live)} alive, memory '
                  f'{[memory(n) for n in soak.nginx.processes()]} KiB',
                  flush=True)
    return soak.drain()


def soak_half(options, events, learn, limit, bookings, seed):
    with tempfile.TemporaryDirectory() as run:
        nginx = Nginx(options, pathlib.Path(run), events, learn)
        try:
            wait_until(nginx.answers, 'nginx')
            soak = Soak(nginx, random.Random(seed))
            start = time.monotonic()
            told = [start]
            before = soak.drain()[0]
            files = soak.descriptors()
            first, sizes = soak.booked, []
            for number in range(1, PARTS + 1):
                until = first + bookings * number // PARTS
                left, used = part(soak, until, start, told)
                if left != before:
                    raise Wrong(f'chunks and slots free: {left}, at first '
                                f'{before}')
                wait_until(lambda: soak.descriptors() == files,
                           'as many descriptors as at first')
                sizes.append(used)
            grown = max(b - a for a, b in zip(sizes[PARTS // 2 - 1], used))
            print(f'KV events {events}: {soak.booked - first:,} bookings, '
                  f'{soak.requests:,} requests, {soak.changes:,} worker '
                  f'changes in {time.monotonic() - start:.0f} s; '
                  f'{left[0]:,} chunks free as before;\nKiB after each part: '
                  f'{sizes}', flush=True)
            if grown > limit:
                raise Wrong(f'memory has grown by {grown} KiB')
        finally:
            nginx.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--build', type=pathlib.Path, required=True)
    parser.add_argument('--nginx', default='/usr/sbin/nginx')
    options = parser.parse_args()
    options.build = options.build.resolve()
    bookings = int(os.environ.get('SEL_OPS', BOOKINGS))
    seed = os.environ.get('SEL_SEED') or random.randrange(2 ** 31)
    print(f'# soak/http: SEL_SEED={seed}', flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('ended'))
    try:
        for half in HALVES:
            soak_half(options, *half, bookings // 2, int(seed))
    except (Wrong, OSError) as wrong:
        print(wrong)
        sys.exit(1)


if __name__ == '__main__':
    main()
