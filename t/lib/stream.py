#!/usr/bin/python3
"""Simulated engines that answer HTTP/1.1 requests as they are told to.

It reads one JSON object a line from standard input and answers each with one
on standard output; it ends with its input.  An engine is a listening port;
several live in this process.  How a request is answered is its plan: members
of the header X-Sim (a JSON object), above them what the engine was set to,
above that what was queued for its next requests.  SelStream.pm lists the
members of a plan.

A request passes points: "request" (read, nothing sent), "headers" (sent),
"event:N" (so many events sent), "end" (all sent but what ends the body).  A
plan may hold it there until it is released, or break the connection.  Times
are those of CLOCK_MONOTONIC.
"""

import asyncio
import hashlib
import json
import socket
import ssl
import struct
import sys
import time

BODY_KEPT = 2000


def now():
    return time.monotonic()


def listed(value):
    """A list from a list, a single value or None."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


class Gone(Exception):
    """The connection has ended before the answer."""


class Plan(dict):
    """What to do with one request; absent members are None."""

    def __missing__(self, name):
        return None

    def events(self):
        """The pieces of the body."""
        if self['raw_events'] is not None:
            return [item.encode() for item in self['raw_events']]
        end = self['newline'] or '\n'
        count = self['events'] or 0
        usage = self.usage()
        texts = []
        for number in range(1, count + 1):
            event = {'id': 'sim', 'choices': [
                {'index': 0, 'text': (self['text'] or 'token %d ' % number)
                 * (self['repeat'] or 1)}]}
            if usage and self['usage_inside'] and number == count:
                event['usage'] = usage
            texts.append(event)
        if usage and not self['usage_inside']:
            texts.append({'id': 'sim', 'choices': [], 'usage': usage})
        events = [self.event(json.dumps(text), end) for text in texts]
        if self['done'] is None or self['done']:
            events.append(self.event('[DONE]', end))
        return events

    def event(self, text, end):
        lines = []
        if self['comments']:
            lines += [': ping', '']
        if self['names']:
            lines += ['event: message', 'id: 1']
        lines += [('data:' if self['tight'] else 'data: ') + text, '', '']
        return end.join(lines).encode()

    def usage(self):
        if self['completion_tokens'] is None:
            return None
        usage = {'prompt_tokens': self['prompt_tokens'] or 0,
                 'completion_tokens': self['completion_tokens'],
                 'total_tokens': 0}
        if self['cached_tokens'] is not None:
            usage['prompt_tokens_details'] = {
                'cached_tokens': self['cached_tokens']}
        return usage

    def plain(self, record):
        """The body of an answer that is no stream."""
        if self['echo']:
            return json.dumps(record.public()).encode()
        if self['body'] is not None:
            return self['body'].encode()
        text = self['text'] or 'x'
        answer = {'id': 'sim', 'engine': record.engine.name,
                  'choices': [{'text': text * (self['repeat'] or 1)}]}
        usage = self.usage()
        if usage:
            answer['usage'] = usage
        return json.dumps(answer).encode()


class Record:
    """One request and what has become of it."""

    def __init__(self, engine, connection, head):
        self.engine = engine
        self.connection = connection
        lines = head.decode('latin-1').split('\r\n')
        self.method, self.path, _ = (lines[0] + '  ').split(' ', 2)
        self.headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(':')
            name = name.lower()
            value = value.strip()
            if name in self.headers:
                value = self.headers[name] + ', ' + value
            self.headers[name] = value
        self.tag = self.headers.get('x-id', '')
        self.body = b''
        self.at = ''
        self.end = None
        self.times = {}
        self.gate = None
        self.number = engine.world.remember(self)

    def public(self):
        times = dict(self.times)
        return {'number': self.number, 'engine': self.engine.name,
                'connection': self.connection.number,
                'nth': self.connection.count, 'method': self.method,
                'path': self.path, 'headers': self.headers, 'tag': self.tag,
                'length': len(self.body) if isinstance(self.body, bytes)
                else self.body[1],
                'sha256': hashlib.sha256(self.body).hexdigest()
                if isinstance(self.body, bytes) else self.body[2],
                'body': (self.body if isinstance(self.body, bytes)
                         else self.body[0])[:BODY_KEPT].decode('latin-1'),
                'at': self.at, 'end': self.end, 'times': times}

    def shrink(self):
        """Keeps no large bodies."""
        if isinstance(self.body, bytes):
            self.body = (self.body[:BODY_KEPT], len(self.body),
                         hashlib.sha256(self.body).hexdigest())

    def finish(self, how):
        if self.end is None:
            self.end = how
            self.times['end'] = now()
            if self.gate is not None:
                self.gate.set()


class Connection(asyncio.Protocol):
    """One accepted connection; requests on it follow one another."""

    def __init__(self, engine):
        self.engine = engine
        self.number = engine.world.next_connection()
        self.count = 0
        self.buffer = bytearray()
        self.record = None
        self.wanted = None
        self.chunked = False
        self.task = None
        self.transport = None
        self.writable = asyncio.Event()
        self.writable.set()

    def connection_made(self, transport):
        self.transport = transport
        self.engine.connections.add(self)
        self.engine.accepted += 1
        if self.engine.settings['accept'] == 'reset':
            self.reset()

    def connection_lost(self, error):
        self.engine.connections.discard(self)
        self.writable.set()
        if self.record is not None:
            self.record.finish('gone')

    def eof_received(self):
        if self.record is not None:
            self.record.finish('gone')

    def pause_writing(self):
        self.writable.clear()

    def resume_writing(self):
        self.writable.set()

    def data_received(self, data):
        self.buffer += data
        while self.task is None and self.read_request():
            pass

    def read_request(self):
        """Takes head and body off the buffer; false if more is needed."""
        if self.record is None:
            end = self.buffer.find(b'\r\n\r\n')
            if end < 0:
                return False
            head = bytes(self.buffer[:end])
            del self.buffer[:end + 4]
            self.count += 1
            self.record = Record(self.engine, self, head)
            headers = self.record.headers
            self.chunked = 'chunked' in headers.get('transfer-encoding', '')
            self.wanted = int(headers.get('content-length', 0))
        if self.chunked:
            if not self.read_chunks():
                return False
        elif len(self.buffer) < self.wanted:
            return False
        else:
            self.record.body = bytes(self.buffer[:self.wanted])
            del self.buffer[:self.wanted]
        self.task = asyncio.ensure_future(self.answer(self.record))
        return False

    def read_chunks(self):
        body, position = b'', 0
        while True:
            end = self.buffer.find(b'\r\n', position)
            if end < 0:
                return False
            size = int(self.buffer[position:end].split(b';')[0], 16)
            if len(self.buffer) < end + 2 + size + 2:
                return False
            body += self.buffer[end + 2:end + 2 + size]
            position = end + 2 + size + 2
            if size == 0:
                self.record.body = bytes(body)
                del self.buffer[:position]
                return True

    def reset(self):
        """Ends the connection by RST."""
        sock = self.transport.get_extra_info('socket')
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                            struct.pack('ii', 1, 0))
        self.transport.abort()

    async def answer(self, record):
        plan = self.engine.plan(record)
        try:
            keep = await self.play(plan, record)
            record.finish('done')
            if not keep:
                self.transport.close()
        except Gone:
            pass
        except Exception as error:      # a plan that cannot be played
            record.finish('%s: %s' % (type(error).__name__, error))
            self.transport.abort()
        record.shrink()
        self.record = None
        self.task = None
        if self.buffer and not self.transport.is_closing():
            self.read_request()

    async def play(self, plan, record):
        """Answers; returns whether the connection is kept."""
        await self.reach('request', plan, record)
        if plan['delay']:
            await self.pause(plan['delay'], record)
        if plan['raw'] is not None:
            await self.write(plan['raw'].encode('latin-1'), record)
            return False
        stream = plan['events'] is not None or plan['raw_events'] is not None
        pieces = plan.events() if stream else [plan.plain(record)]
        framing = plan['framing'] or ('chunked' if stream else 'length')
        silent = record.method == 'HEAD' or plan['status'] in (204, 304)
        await self.write(self.head(plan, pieces, framing, stream, silent),
                         record)
        record.times['headers'] = now()
        await self.reach('headers', plan, record)
        if plan['first_delay']:
            await self.pause(plan['first_delay'], record)
        if not silent:
            await self.send_body(pieces, framing, plan, record)
        return framing != 'close' and not plan['close']

    async def send_body(self, pieces, framing, plan, record):
        size = plan['split']
        for number, piece in enumerate(pieces, 1):
            record.times.setdefault('first', now())
            parts = [piece] if not size else \
                [piece[i:i + size] for i in range(0, len(piece), size)]
            for part in filter(None, parts):
                if framing == 'chunked':
                    part = b'%x\r\n%s\r\n' % (len(part), part)
                await self.write(part, record)
                if size:
                    await asyncio.sleep(0)
            record.times['last'] = now()
            await self.reach('event:%d' % number, plan, record)
            if plan['interval']:
                await self.pause(plan['interval'], record)
        await self.reach('end', plan, record)
        if framing == 'chunked':
            await self.write(b'0\r\n\r\n', record)

    @staticmethod
    def head(plan, pieces, framing, stream, silent):
        status = plan['status'] or 200
        kind = plan['type'] or \
            ('text/event-stream' if stream else 'application/json')
        lines = ['HTTP/1.1 %d Simulated' % status, 'Content-Type: ' + kind]
        lines += listed(plan['headers'])
        if silent and status in (204, 304):
            framing = None
        if framing == 'chunked':
            lines.append('Transfer-Encoding: chunked')
        elif framing == 'length':
            lines.append('Content-Length: %d' % sum(map(len, pieces)))
        if framing == 'close' or plan['close']:
            lines.append('Connection: close')
        return ('\r\n'.join(lines) + '\r\n\r\n').encode('latin-1')

    async def reach(self, point, plan, record):
        """Tells that a point is reached, and does what is planned there."""
        record.gate = asyncio.Event()
        record.at = point
        record.times.setdefault(point, now())
        if point in listed(plan['reset']):
            record.finish('reset')
            self.reset()
        elif point in listed(plan['fin']):
            record.finish('fin')
            self.transport.close()
        elif point in listed(plan['hold']):
            await record.gate.wait()
        record.gate = None
        if record.end is not None:
            raise Gone()

    async def pause(self, seconds, record):
        record.gate = asyncio.Event()
        try:
            await asyncio.wait_for(record.gate.wait(), seconds)
        except asyncio.TimeoutError:
            pass
        record.gate = None
        if record.end is not None:
            raise Gone()

    async def write(self, data, record):
        await self.writable.wait()
        if record.end is not None or self.transport.is_closing():
            record.finish('gone')
            raise Gone()
        self.transport.write(data)


class Engine:
    """A port, and how its requests are answered."""

    def __init__(self, world, command):
        self.world = world
        self.name = command['engine']
        self.port = command['port']
        self.host = command.get('host', '127.0.0.1')
        self.context = None
        if command.get('certificate'):
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(command['certificate'],
                                         command['key'])
            self.context.sni_callback = self.note_name
        self.names = []
        self.settings = Plan()
        self.queue = []
        self.server = None
        self.connections = set()
        self.accepted = 0

    def note_name(self, _, name, __):
        self.names.append(name)

    def plan(self, record):
        plan = Plan(json.loads(record.headers.get('x-sim', '{}')))
        plan.update(self.settings)
        if self.queue:
            plan.update(self.queue.pop(0))
        return plan

    async def open(self):
        end = now() + 5
        while self.server is None:
            try:
                self.server = await asyncio.get_running_loop().create_server(
                    lambda: Connection(self), self.host, self.port,
                    ssl=self.context, backlog=1024)
            except OSError:
                if now() > end:
                    raise
                await asyncio.sleep(0.01)

    def close(self, hard):
        if self.server is not None:
            self.server.close()
            self.server = None
        for connection in list(self.connections):
            if hard:
                connection.reset()
            elif connection.record is None:
                connection.transport.close()


class World:
    """All engines, and the commands."""

    def __init__(self):
        self.engines = {}
        self.records = []
        self.connection_count = 0

    def remember(self, record):
        self.records.append(record)
        return len(self.records)

    def next_connection(self):
        self.connection_count += 1
        return self.connection_count

    def chosen(self, command):
        """Records by tag and engine."""
        records = self.records
        if command.get('tag') is not None:
            records = [r for r in records if r.tag == command['tag']]
        if command.get('engine') is not None:
            engine = str(command['engine'])
            records = [r for r in records if str(r.engine.name) == engine]
        return records

    def engine(self, command):
        return self.engines[str(command['engine'])]

    async def do_open(self, command):
        """Listens, again if the engine was closed."""
        name = str(command['engine'])
        if name not in self.engines:
            self.engines[name] = Engine(self, command)
        await self.engines[name].open()
        return {}

    async def do_close(self, command):
        self.engine(command).close(command.get('hard'))
        return {}

    async def do_set(self, command):
        """A plan for all requests from now on; {} takes it back."""
        self.engine(command).settings = Plan(command['plan'])
        return {}

    async def do_queue(self, command):
        """Plans for the next requests, one each."""
        self.engine(command).queue.extend(command['plans'])
        return {}

    async def do_requests(self, command):
        return {'requests': [r.public() for r in self.chosen(command)]}

    async def do_count(self, command):
        """How many requests there were, by how they ended."""
        ends = {}
        for record in self.chosen(command):
            end = record.end or 'open'
            ends[end] = ends.get(end, 0) + 1
        return {'ends': ends}

    async def do_release(self, command):
        """Lets what is held go on; returns how many requests these are."""
        held = [r for r in self.chosen(command)
                if r.end is None and r.gate is not None]
        for record in held:
            record.gate.set()
        return {'count': len(held)}

    async def do_report(self, command):
        engine = self.engine(command)
        return {'open': len(engine.connections), 'accepted': engine.accepted,
                'names': engine.names}

    async def do_forget(self, command):
        self.records = [r for r in self.records if r.end is None]
        return {}

    async def answer(self, line):
        try:
            command = json.loads(line)
            method = getattr(self, 'do_' + command['do'])
            return {'ok': True, **await method(command)}
        except Exception as error:
            return {'ok': False,
                    'error': '%s: %s' % (type(error).__name__, error)}

    async def run(self):
        reader = asyncio.StreamReader(limit=1 << 24)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while True:
            line = await reader.readline()
            if not line:
                break
            print(json.dumps(await self.answer(line)), flush=True)


if __name__ == '__main__':
    asyncio.run(World().run())
