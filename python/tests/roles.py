# SPDX-License-Identifier: MIT
"""What the other processes of tests do: roles.py ROLE ARGUMENT..."""
import sys
import time

import sluice


def say(text):
    print(text, flush=True)


def hear():
    return sys.stdin.readline().strip()


def stamp(array, number):
    """Every byte says which frame it is of."""
    array[...] = number % 251


def is_whole(array, number):
    return bool((array == number % 251).all())


def write(name, count, period="0"):
    """Commits `count` frames once a reader is there, then closes when told."""
    with sluice.Writer(name, shape=(64, 64), policy="wait", wait=60) as writer:
        say("open")
        while not writer.stats().readers:
            time.sleep(0.001)
        for number in range(1, int(count) + 1):
            with writer.frame(meta=str(number).encode()) as frame:
                stamp(frame.numpy(), number)
            time.sleep(float(period))
        say("written")
        hear()


def write_when_told(name):
    with sluice.Writer(name, shape=4) as writer:
        say("open")
        while hear():
            time.sleep(0.2)
            writer.send(bytes(4))
            say("written")


def write_for_ever(name):
    with sluice.Writer(name, shape=(256, 256)) as writer:
        say("open")
        number = 0
        while True:
            number += 1
            frame = writer.try_frame(meta=str(number).encode())
            if frame is None:
                time.sleep(0.0001)
                continue
            with frame:
                stamp(frame.numpy(), number)


def write_training(readers, count):
    """As write(), once so many readers are there; frames hold their number."""
    with sluice.Writer("training", shape=(3, 8, 8), dtype="float32", policy="wait", wait=60) as writer:
        say("open")
        while writer.stats().readers < int(readers):
            time.sleep(0.001)
        for number in range(int(count)):
            with writer.frame() as frame:
                frame.numpy()[:] = number


def read(name, mode):
    """Reads to the end; says how many frames, the sum of those missed, and whether all were whole."""
    count = missed = 0
    whole = True
    with sluice.Reader(name, mode=mode, wait=60) as reader:
        say("open")
        for frame in reader:
            count += 1
            missed += frame.missed
            whole = whole and is_whole(frame.numpy(), int(frame.meta))
    say(f"{count} {missed} {whole}")


def read_for_ever(name):
    with sluice.Reader(name, wait=60) as reader:
        say("open")
        for frame in reader:
            if not is_whole(frame.numpy(), int(frame.meta)):
                say("torn")
                return


def hold(name):
    """Holds one frame's array until told."""
    reader = sluice.Reader(name, wait=60)
    array = reader.next(timeout=60).numpy()
    say(f"holds {int(array.flat[0])}")
    hear()
    say(f"still {int(array.flat[0])}")


# ---- on a GPU ----

SIZE = 4096


def gpu_of_role():
    import gpu_kit
    gpu_kit.find()
    return gpu_kit.Gpu()


def read_on_gpu(name):
    """Says of each frame its first byte, whether all are alike, and where it lies."""
    from dl import take
    with sluice.Reader(name, mode="in_order", wait=60) as reader:
        gpu = gpu_of_role()
        say("open")
        for frame in reader:
            found = gpu.read(take(frame, 1).data, SIZE)
            say(f"{found[0]} {found == bytes([found[0]]) * SIZE} {frame.device}")


def write_on_gpu(name, value):
    """Commits frames for ever, all of them full of `value`."""
    from dl import take
    with sluice.Writer(name, shape=SIZE, device="cuda:0") as writer:
        gpu = gpu_of_role()
        stream = gpu.stream()
        say("open")
        while True:
            with writer.frame() as frame:
                gpu.fill(take(frame, stream).data, int(value), SIZE, stream)
            time.sleep(0.001)


def leave_unfinished(name):
    """A frame that is ready, and one that its GPU never finishes."""
    with sluice.Writer(name, shape=SIZE, device="cuda:0") as writer:
        gpu = gpu_of_role()
        stream = gpu.stream()
        say("open")
        hear()
        with writer.frame(meta=b"whole"):
            pass
        gate = gpu.gate(stream)
        with writer.frame(stream=sluice.Stream.from_handle(stream)):
            pass
        say(f"committed {gate.word.value}")
        hear()


def hold_on_gpu(name):
    from dl import take
    with sluice.Reader(name, wait=60) as reader:
        say("open")
        taken = take(reader.next(timeout=60), 1)
        say("holds")
        hear()
        taken.drop()


def main():
    globals()[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
