"""The prefix cache of one simulated engine.

Blocks of a finished request join the eviction queue from its last block to
its first, so a prefix always outlives what was built on it.  A new block
takes a never used place or the head of that queue.  Every change is handed
back as an event: ("removed", hash) or ("stored", parent, hashes, tokens).
"""

from collections import OrderedDict
import hashlib
import struct

ROOT = bytes(32)


def digest(parent, tokens):
    return hashlib.sha256(
        parent + struct.pack(f"<{len(tokens)}I", *tokens)).digest()


def external(key):
    """The hash that engines publish: the digest's low 64 bits."""
    return int.from_bytes(key[-8:], "big")


class BlockCache:
    """Serves one request at a time: begin, extend for each token, end."""

    def __init__(self, capacity, block_size=16):
        self.capacity = capacity
        self.block_size = block_size
        self.evictable = OrderedDict()
        self.evicted = 0
        self._reset()

    def _reset(self):
        self.tokens = []
        self.held = []
        self.places = 0

    def fits(self, tokens):
        return -(-tokens // self.block_size) <= self.capacity

    def cached_blocks(self):
        return len(self.evictable) + len(self.held)

    def begin(self, prompt):
        """Returns (cached tokens, events).

        The last prompt token is always computed, for its output is needed:
        a prompt that is cached whole counts one block less.
        """
        self._reset()
        keys = self._chain(prompt)
        for key in keys[:(len(prompt) - 1) // self.block_size]:
            if key not in self.evictable:
                break
            self._hold(key)
        hits = len(self.held)
        self.places = hits
        self.tokens = list(prompt)
        events = self._grow()
        return hits * self.block_size, events + self._store(keys[hits:])

    def extend(self, token):
        """One output token more.  Returns events.

        The newest token has no cache entry until the next one is computed:
        a block is full when a token follows it.
        """
        self.tokens.append(token)
        events = self._grow()
        size = self.block_size
        start = len(self.held) * size
        if len(self.tokens) <= start + size:
            return events
        parent = self.held[-1] if self.held else ROOT
        key = digest(parent, self.tokens[start:start + size])
        return events + self._store([key])

    def end(self):
        for key in reversed(self.held):
            self.evictable[key] = True
        self._reset()

    def _chain(self, tokens):
        keys, parent, size = [], ROOT, self.block_size
        for start in range(0, len(tokens) - size + 1, size):
            parent = digest(parent, tokens[start:start + size])
            keys.append(parent)
        return keys

    def _hold(self, key):
        self.evictable.pop(key, None)
        self.held.append(key)

    def _grow(self):
        events = []
        while self.places * self.block_size < len(self.tokens):
            if self.places + len(self.evictable) >= self.capacity:
                key, _ = self.evictable.popitem(last=False)
                self.evicted += 1
                events.append(("removed", external(key)))
            self.places += 1
        return events

    def _store(self, keys):
        fresh = [key for key in keys if key not in self.evictable]
        first = len(self.held)
        parent = external(self.held[-1]) if self.held else None
        for key in keys:
            self._hold(key)
        if not fresh:
            return []
        size = self.block_size
        tokens = self.tokens[first * size:(first + len(fresh)) * size]
        return [("stored", parent, [external(key) for key in fresh], tokens)]
