#!/usr/bin/python3
"""Reads what an engine publishes, for the engine's own test.

Prints a JSON object a message: the frames in hexadecimal and the decoded
batch.  "replay ENDPOINT START" asks a replay socket instead and ends with the
end marker.
"""

import json
import struct
import sys

import msgpack
import zmq


def show(frames):
    batch = msgpack.unpackb(frames[-1]) if frames[-1] else None
    print(json.dumps({'frames': [frame.hex() for frame in frames],
                      'batch': batch}, default=bytes.hex), flush=True)


def main():
    context = zmq.Context()
    mode, endpoint = sys.argv[1:3]
    if mode == 'replay':
        socket = context.socket(zmq.DEALER)
        socket.connect(endpoint)
        socket.send_multipart([b'', struct.pack('>Q', int(sys.argv[3]))])
        frames = [b'more']
        while frames[-1]:
            if not socket.poll(2000):
                sys.exit('no answer')
            frames = socket.recv_multipart()
            show(frames)
        context.destroy(linger=0)
        return
    socket = context.socket(zmq.SUB)
    socket.setsockopt(zmq.SUBSCRIBE, b'')
    socket.setsockopt(zmq.RECONNECT_IVL, 20)
    socket.connect(endpoint)
    while True:
        show(socket.recv_multipart())


main()
