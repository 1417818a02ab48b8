"""One simulated engine worker: prefix cache, KV events, HTTP endpoint.

    POST /v1/completions  {"prompt": [token ids], "max_tokens": 48}
    GET  /                state: pid, subscriptions, batches sent, blocks

Completions are always streamed, a token an event, at last the usage.  The
engine serves one request at a time; others wait.

KV events leave on a ZMQ socket in the message format of vLLM: topic, 8 byte
big endian sequence, msgpack batch.  XPUB does what PUB does and also shows
who subscribed.  Computing is simulated by sleeping.
"""

import argparse
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler
import json
import os
import random
import signal
from socketserver import TCPServer
import struct
import sys
import time

import msgpack
import zmq

from cache import BlockCache

BODY_LIMIT = 8 << 20
MAX_TOKENS = 48


def as_map(event, block_size):
    """Current vLLM: tagged maps."""
    if event[0] == "removed":
        return {"type": "BlockRemoved", "block_hashes": [event[1]],
                "medium": "GPU", "group_idx": 0}
    _, parent, hashes, tokens = event
    return {"type": "BlockStored", "block_hashes": hashes,
            "parent_block_hash": parent, "token_ids": tokens,
            "block_size": block_size, "lora_id": None, "medium": "GPU",
            "lora_name": None, "extra_keys": [None] * len(hashes),
            "group_idx": 0, "kv_cache_spec_kind": "full_attention"}


def as_array(event, block_size):
    """Older vLLM: tagged arrays, fields by position."""
    if event[0] == "removed":
        return ["BlockRemoved", [event[1]], "GPU"]
    _, parent, hashes, tokens = event
    return ["BlockStored", hashes, parent, tokens, block_size, None, "GPU"]


class Publisher:
    def __init__(self, encode, block_size):
        self.socket = zmq.Context().socket(zmq.XPUB)
        self.socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        self.socket.setsockopt(zmq.SNDHWM, 100000)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.encode = encode
        self.block_size = block_size
        self.sequence = 0
        self._subscriptions = 0

    def subscriptions(self):
        """How many have come since the start; nobody is subtracted."""
        while self.socket.poll(0, zmq.POLLIN):
            self._subscriptions += self.socket.recv()[:1] == b"\x01"
        return self._subscriptions

    def publish(self, events):
        if not events:
            return
        batch = [time.time(),
                 [self.encode(event, self.block_size) for event in events], 0]
        self.socket.send_multipart([b"kv-events",
                                    struct.pack(">Q", self.sequence),
                                    msgpack.packb(batch)])
        self.sequence += 1


class Engine:
    def __init__(self, options):
        self.cache = BlockCache(options.blocks, options.block_size)
        encode = as_map if options.events == "map" else as_array
        self.publisher = Publisher(encode, options.block_size)
        self.prefill_rate = options.prefill_rate
        self.decode_rate = options.decode_rate

    def state(self):
        return {"pid": os.getpid(),
                "subscriptions": self.publisher.subscriptions(),
                "batches": self.publisher.sequence,
                "cached_blocks": self.cache.cached_blocks(),
                "evicted_blocks": self.cache.evicted,
                "total_blocks": self.cache.capacity}

    def complete(self, prompt, max_tokens):
        """Yields the members of each event.

        The same prompt gets the same answer from every engine.
        """
        cached, events = self.cache.begin(prompt)
        try:
            time.sleep((len(prompt) - cached) / self.prefill_rate)
            self.publisher.publish(events)
            for token in random.Random(str(prompt)).choices(
                    range(1000, 150000), k=max_tokens):
                time.sleep(1 / self.decode_rate)
                self.publisher.publish(self.cache.extend(token))
                yield {"choices": [{"index": 0, "text": f" {token}",
                                    "token_ids": [token]}]}
        finally:
            self.cache.end()
        yield {"choices": [], "usage": {
            "prompt_tokens": len(prompt), "completion_tokens": max_tokens,
            "total_tokens": len(prompt) + max_tokens,
            "prompt_tokens_details": {"cached_tokens": cached}}}


def is_number(value, low, high):
    return type(value) is int and low <= value <= high


def read_request(body, cache):
    """Returns (prompt, max_tokens); ValueError says what is wrong."""
    request = json.loads(body)
    if not isinstance(request, dict):
        raise ValueError("the body must be an object")
    prompt = request.get("prompt")
    if not isinstance(prompt, list) or not prompt \
            or not all(is_number(token, 0, 2**32 - 1) for token in prompt):
        raise ValueError("prompt must be a non-empty array of u32")
    count = request.get("max_tokens", MAX_TOKENS)
    if not is_number(count, 1, 1 << 16):
        raise ValueError("max_tokens must be between 1 and 65536")
    if not cache.fits(len(prompt) + count):
        raise ValueError(f"prompt and max_tokens need more than the "
                         f"{cache.capacity} blocks of this engine")
    return prompt, count


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 5

    def head(self, status, name, value, media_type):
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()

    def reply(self, status, value):
        body = json.dumps(value).encode()
        self.head(status, "Content-Length", str(len(body)),
                  "application/json")
        self.wfile.write(body)

    def event(self, data):
        text = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))

    def stream(self, events):
        self.head(200, "Transfer-Encoding", "chunked", "text/event-stream")
        for members in events:
            self.event(json.dumps({"object": "text_completion", **members}))
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def do_GET(self):
        if self.path != "/":
            return self.reply(404, {"error": "route not found"})
        self.reply(200, self.server.engine.state())

    def do_POST(self):
        if self.path != "/v1/completions":
            return self.reply(404, {"error": "route not found"})
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > BODY_LIMIT:
            return self.reply(413, {"error": "a body of at most 8 MiB with "
                                             "Content-Length is needed"})
        engine = self.server.engine
        try:
            request = read_request(self.rfile.read(int(length)), engine.cache)
        except ValueError as error:
            return self.reply(400, {"error": str(error)})
        with closing(engine.complete(*request)) as events, \
                suppress(ConnectionError):
            self.stream(events)


def read_options():
    parser = argparse.ArgumentParser(description="simulated engine worker")
    parser.add_argument("--blocks", type=int, default=128)
    parser.add_argument("--block-size", type=int, default=16)
    parser.add_argument("--events", choices=("map", "array"), default="map")
    parser.add_argument("--prefill-rate", type=float, default=20000,
                        help="tokens a second")
    parser.add_argument("--decode-rate", type=float, default=2000,
                        help="tokens a second")
    return parser.parse_args()


class Server(TCPServer):
    request_queue_size = 128


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    engine = Engine(read_options())
    server = Server(("127.0.0.1", 0), Handler)
    server.engine = engine
    print(json.dumps({"http": server.server_address[1],
                      "kv_events": engine.publisher.port}), flush=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    server.serve_forever()


if __name__ == "__main__":
    main()
