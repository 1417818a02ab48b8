#!/usr/bin/python3
"""Makes msgpack.json: random values as python3-msgpack encodes them.

Each entry has the message ("hex") and the value in words ("value"): n t f,
u5 i-5, d<bits of the double>, s<hex> b<hex>, e<type>:<hex>, [ .. ],
{ key value .. }, separated by blanks.  Run in this directory.
"""

import json
import random
import struct

import msgpack

EDGES = sorted({sign * (2 ** power + offset)
                for power in (0, 4, 5, 7, 8, 15, 16, 31, 32, 53, 63, 64)
                for offset in (-1, 0, 1) for sign in (1, -1)})
SIZES = (0, 1, 4, 15, 16, 17, 31, 32, 33, 40)


def words(value):
    if value is None:
        return 'n'
    if isinstance(value, bool):
        return 't' if value else 'f'
    if isinstance(value, int):
        return ('u%d' if value >= 0 else 'i%d') % value
    if isinstance(value, float):
        return 'd' + struct.pack('>d', value).hex()
    if isinstance(value, str):
        return 's' + value.encode().hex()
    if isinstance(value, bytes):
        return 'b' + value.hex()
    if isinstance(value, msgpack.ExtType):
        return 'e%d:%s' % (value.code, value.data.hex())
    if isinstance(value, list):
        return ' '.join(['['] + [words(item) for item in value] + [']'])
    return ' '.join(['{'] + [words(item) for pair in value.items()
                             for item in pair] + ['}'])


def scalar(rng):
    kind = rng.randrange(9)
    if kind == 0:
        return rng.choice((None, True, False))
    if kind < 4:
        value = rng.choice((rng.choice(EDGES),
                            rng.getrandbits(rng.randint(1, 64)),
                            -rng.getrandbits(rng.randint(1, 63))))
        return min(max(value, -2 ** 63), 2 ** 64 - 1)
    if kind == 4:
        return rng.choice((rng.random(), -0.0, 1e300, 5e-324, 0.5))
    size = rng.choice(SIZES)
    if kind == 5:
        return ''.join(rng.choice('aZ0\u00e9\u20ac\U0001f600')
                       for _ in range(size))
    if kind == 6:
        return msgpack.ExtType(rng.randint(0, 127), rng.randbytes(size))
    return rng.randbytes(size) if kind == 7 else rng.choice(('GPU', 'type'))


def value(rng, depth):
    kind = rng.randrange(4) if depth else 0
    if kind < 2:
        return scalar(rng)
    size = rng.choice((0, 1, 2, 3, 3, 16 if depth == 1 else 1))
    if kind == 2:
        return [value(rng, depth - 1) for _ in range(size)]
    return {rng.choice((str, int))(n): value(rng, depth - 1)
            for n in range(size)}


def entry(item, **how):
    return {'hex': msgpack.packb(item, **how).hex(), 'value': words(item)}


def main():
    rng = random.Random(20240501)
    items = [n for n in EDGES if -2 ** 63 <= n < 2 ** 64]
    items += ['x' * n for n in (255, 256, 300)]
    items += [bytes(n) for n in (255, 256)]
    items += [msgpack.ExtType(3, bytes(n)) for n in (8, 16, 255, 256)]
    items += [[0] * 300, {n: None for n in range(20)}]
    items += [value(rng, 4) for _ in range(120)]
    messages = [entry(item) for item in items]
    messages += [entry(item, use_single_float=True)
                 for item in (0.5, -1.25, 16777216.0, 2.0 ** -149)]
    messages += [entry('raw text', use_bin_type=False)]

    with open('msgpack.json', 'w') as out:
        json.dump({'description': 'Made by make_msgpack.py with '
                                  'python3-msgpack.',
                   'messages': messages}, out, indent=1)
        out.write('\n')


if __name__ == '__main__':
    main()
