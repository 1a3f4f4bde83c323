# SPDX-License-Identifier: MIT
"""The same frames from one process to another by ZeroMQ, by a pipe, or by a channel: from_zeromq.py zeromq|pipe|channel"""
import multiprocessing
import sys
import tempfile

import numpy as np

import sluice

FRAMES = 20
SHAPE = (480, 640, 3)


def write_to_zeromq(address):
    import zmq
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.bind(address)
        for number in range(FRAMES):
            frame = np.full(SHAPE, number, np.uint8)
            socket.send(frame, copy=False)
        socket.send(b"")                           # the end, which the reader must know


def read_from_zeromq(address):
    import zmq
    total = 0
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        socket.connect(address)
        while data := socket.recv():
            frame = np.frombuffer(data, np.uint8).reshape(SHAPE)
            total += int(frame.sum())
    return total


def write_to_pipe(pipe):
    for number in range(FRAMES):
        frame = np.full(SHAPE, number, np.uint8)
        pipe.send_bytes(frame.tobytes())
    pipe.close()


def read_from_pipe(pipe):
    total = 0
    try:
        while True:
            frame = np.frombuffer(pipe.recv_bytes(), np.uint8).reshape(SHAPE)
            total += int(frame.sum())
    except EOFError:
        return total


def write_to_channel(name):
    with sluice.Writer(name, sluice.Image("bgr24", 640, 480), policy="wait", wait=60) as writer:
        writer.wait_for_readers(1, timeout=60)
        for number in range(FRAMES):
            with writer.frame() as frame:
                frame.numpy()[:] = number          # made in the slot: there is nothing to send


def read_from_channel(name):
    total = 0
    for frame in sluice.Reader(name, mode="in_order", wait=60):
        total += int(frame.numpy().sum())          # the shape comes with the frame
    return total


def main(way):
    context = multiprocessing.get_context("spawn")
    if way == "zeromq":
        with tempfile.TemporaryDirectory() as folder:
            address = f"ipc://{folder}/frames"
            writer = context.Process(target=write_to_zeromq, args=(address,))
            writer.start()
            print(read_from_zeromq(address))
            writer.join()
    elif way == "pipe":
        reading, writing = context.Pipe(duplex=False)
        writer = context.Process(target=write_to_pipe, args=(writing,))
        writer.start()
        writing.close()
        print(read_from_pipe(reading))
        writer.join()
    else:
        writer = context.Process(target=write_to_channel, args=("frames",))
        writer.start()
        print(read_from_channel("frames"))
        writer.join()


if __name__ == "__main__":
    main(sys.argv[1])
