#!/usr/bin/python3
"""A simulated LLM engine: publishes KV events over ZMQ, on command.

It reads one JSON object a line from standard input and answers each with one
on standard output; it ends with its input.  A rank has a publishing socket
(XPUB, which looks like PUB from outside but tells who subscribes) and, if
wanted, a replay socket.  Hashes may be numbers or decimal strings in the
commands and are decimal strings in the answers, because they use all 64 bits.
"""

import hashlib
import json
import struct
import sys
import time

import msgpack
import zmq

END_OF_REPLAY = b'\xff' * 8


def number(value):
    """An int from a number or a decimal string; None stays None."""
    return None if value is None else int(value)


def unpacked(value):
    """{"hex": "..."} stands for bytes, at any depth."""
    if isinstance(value, dict):
        if set(value) == {'hex'}:
            return bytes.fromhex(value['hex'])
        return {key: unpacked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unpacked(item) for item in value]
    return value


def chain(tokens, block_size, parent):
    """External hashes of the whole blocks of a token list.

    Equal prefixes give equal hashes, as in a real engine.
    """
    hashes = []
    for start in range(0, len(tokens) - block_size + 1, block_size):
        block = tokens[start:start + block_size]
        text = '%s|%s' % (parent, ','.join(str(token) for token in block))
        digest = hashlib.sha256(text.encode()).digest()
        parent = int.from_bytes(digest[:8], 'big')
        hashes.append(parent)
    return hashes


class Rank:
    """One data-parallel rank: its sockets, sequence and replay buffer."""

    def __init__(self, context, command):
        self.context = context
        self.port = command.get('port')
        self.replay_port = command.get('replay_port')
        self.topic = command.get('topic', '').encode()
        self.next = 0
        self.sent = []
        self.subscribers = 0
        self.replay_style = command.get('replay_style', 'vllm')
        self.replay_requests = []
        self.pub = None
        self.replay = None

    def open(self):
        self.pub = self.context.socket(zmq.XPUB)
        self.pub.setsockopt(zmq.XPUB_VERBOSER, 1)
        self.pub.setsockopt(zmq.SNDHWM, 100000)
        self.port = self._bind(self.pub, self.port)
        self.subscribers = 0
        if self.replay_port is not None:
            self.replay = self.context.socket(zmq.ROUTER)
            self.replay_port = self._bind(self.replay, self.replay_port)

    def close(self):
        for socket in (self.pub, self.replay):
            if socket is not None:
                socket.close(linger=0)
        self.pub = self.replay = None
        self.subscribers = 0

    @staticmethod
    def _bind(socket, port):
        """Binds; a port just closed may need a moment to be free again."""
        end = time.monotonic() + 5
        while True:
            try:
                socket.bind('tcp://127.0.0.1:%s' % (port or '*'))
                break
            except zmq.ZMQError as error:
                if error.errno != zmq.EADDRINUSE or time.monotonic() > end:
                    raise
                time.sleep(0.01)
        name = socket.getsockopt(zmq.LAST_ENDPOINT)
        return int(name.rstrip(b'\0').rpartition(b':')[2])

    def publish(self, payload, drop):
        """Sends a batch, or only remembers it (a gap for the subscriber)."""
        sequence = self.next
        self.next += 1
        frame = struct.pack('>Q', sequence)
        self.sent.append((sequence, frame, payload))
        if not drop:
            self.pub.send_multipart([self.topic, frame, payload])
        return sequence

    def read_subscriptions(self):
        while self.pub is not None and self.pub.poll(0):
            message = self.pub.recv()
            self.subscribers += 1 if message[:1] == b'\1' else -1

    def answer_replay(self):
        while self.replay is not None and self.replay.poll(0):
            frames = self.replay.recv_multipart()
            start = struct.unpack('>Q', frames[-1])[0]
            self.replay_requests.append(start)
            if self.replay_style == 'silent':
                continue
            for sequence, frame, payload in self.sent:
                if sequence >= start:
                    self._send_replay(frames[0], frame, payload)
            self._send_replay(frames[0], END_OF_REPLAY, b'')

    def _send_replay(self, peer, frame, payload):
        head = [peer, b'']
        if self.replay_style == 'vllm':
            head.append(b'' if frame == END_OF_REPLAY else self.topic)
        self.replay.send_multipart(head + [frame, payload])

    def report(self):
        self.read_subscriptions()
        return {'port': self.port, 'replay_port': self.replay_port,
                'next': self.next, 'subscribers': self.subscribers,
                'replay_requests': self.replay_requests}


class Engine:
    """The command loop."""

    def __init__(self):
        self.context = zmq.Context()
        self.ranks = {}

    def run(self):
        poller = zmq.Poller()
        poller.register(sys.stdin.fileno(), zmq.POLLIN)
        buffer = b''
        while True:
            self._serve(poller)
            chunk = sys.stdin.buffer.raw.read(65536)
            if not chunk:
                break
            *lines, buffer = (buffer + chunk).split(b'\n')
            for line in lines:
                print(json.dumps(self.answer(line)), flush=True)
        for rank in self.ranks.values():
            rank.close()
        self.context.term()

    def _serve(self, poller):
        """Answers replay requests until a command comes."""
        while True:
            sockets = [rank.replay for rank in self.ranks.values()
                       if rank.replay is not None]
            for socket in sockets:
                poller.register(socket, zmq.POLLIN)
            ready = dict(poller.poll())
            for socket in sockets:
                poller.unregister(socket)
            for rank in self.ranks.values():
                rank.answer_replay()
            if sys.stdin.fileno() in ready:
                return

    def answer(self, line):
        try:
            command = json.loads(line)
            method = getattr(self, 'do_' + command['do'])
            return {'ok': True, **method(command)}
        except Exception as error:
            return {'ok': False,
                    'error': '%s: %s' % (type(error).__name__, error)}

    def rank(self, command):
        return self.ranks[command['rank']]

    def do_open(self, command):
        """Binds a new rank, or one that was closed, on its old ports."""
        number_of = command['rank']
        if number_of not in self.ranks:
            self.ranks[number_of] = Rank(self.context, command)
        rank = self.ranks[number_of]
        rank.open()
        return rank.report()

    def do_close(self, command):
        self.rank(command).close()
        return {}

    def do_report(self, command):
        return self.rank(command).report()

    def do_set(self, command):
        """Sets the next sequence, or how replay requests are answered."""
        rank = self.rank(command)
        if 'next' in command:
            rank.next = int(command['next'])
        if command.get('forget'):
            rank.sent = []
        rank.replay_style = command.get('replay_style', rank.replay_style)
        return rank.report()

    def do_raw(self, command):
        """Sends frames given in hexadecimal; the sequence stays."""
        rank = self.rank(command)
        frames = [bytes.fromhex(frame) for frame in command['frames']]
        rank.pub.send_multipart(frames)
        return {}

    def do_publish(self, command):
        """Sends a batch of events given as they shall be encoded."""
        batch = [command.get('ts', time.time()), unpacked(command['events'])]
        if 'dp_rank' in command:
            batch.append(command['dp_rank'])
        batch.extend(command.get('more', []))
        payload = msgpack.packb(batch)
        rank = self.rank(command)
        return {'seq': rank.publish(payload, command.get('drop'))}

    def do_stored(self, command):
        tokens = [int(token) for token in command['tokens']]
        size = int(command['block_size'])
        parent = number(command.get('parent'))
        given = command.get('hashes')
        hashes = [number(item) for item in given] if given is not None \
            else chain(tokens, size, parent)
        fields = [('block_hashes', hashes), ('parent_block_hash', parent),
                  ('token_ids', tokens), ('block_size', size),
                  ('lora_id', None), ('medium', command.get('medium')),
                  ('lora_name', command.get('lora_name'))]
        fields += [(name, unpacked(command[name])) for name in
                   ('extra_keys',) if name in command]
        return self._event(command, 'BlockStored', fields, hashes)

    def do_removed(self, command):
        given = command.get('hashes')
        hashes = [number(item) for item in given] if given is not None \
            else chain([int(token) for token in command['tokens']],
                       int(command['block_size']),
                       number(command.get('parent')))
        fields = [('block_hashes', hashes),
                  ('medium', command.get('medium'))]
        return self._event(command, 'BlockRemoved', fields, hashes)

    def do_cleared(self, command):
        return self._event(command, 'AllBlocksCleared', [], [])

    def _event(self, command, tag, fields, hashes):
        """Publishes one event as a map or as an array."""
        if command.get('form') == 'array':
            event = [tag] + [value for _, value in fields]
        else:
            event = {'type': tag, **dict(fields), **command.get('keys', {})}
        answer = self.do_publish({**command, 'events': [event]})
        return {**answer, 'hashes': [str(value) for value in hashes]}


if __name__ == '__main__':
    Engine().run()
