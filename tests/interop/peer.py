#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The other side of cuda-link's protocol, without a GPU: a Python program that uses multiprocessing.shared_memory as
cuda-link's programs do, with the same calls in the same order. Each line of stdin is a command, each answer a line.
"""
import hashlib
import os
import struct
import sys
import time
from multiprocessing import shared_memory

MAGIC = 0x43495044
BARRIER_MAGIC = 0xCDA1BAAA


def handles(session, slot):
    """128 bytes that identify their owner."""
    return struct.pack("<II", session, slot) + bytes([session % 255 + 1]) * 56 + bytes([slot + 1]) * 64


class Segment:
    """What the writer and the reader share."""

    def __init__(self, name, size=None):
        self.name = name
        try:
            self.memory = shared_memory.SharedMemory(name=name)
        except FileNotFoundError:
            if size is None:
                raise
            self.memory = shared_memory.SharedMemory(name=name, create=True, size=size)
        self.bytes = self.memory.buf
        self.slots = 0

    def get(self, kind, offset):
        return struct.unpack_from("<" + kind, self.bytes, offset)[0]

    def put(self, kind, offset, *values):
        struct.pack_into("<" + kind, self.bytes, offset, *values)

    @property
    def footer(self):
        return 20 + 128 * self.slots

    def close(self):
        self.bytes = None
        self.memory.close()


class Writer(Segment):
    def begin(self, slots, width):
        """Version and index first, as in all of cuda-link's exporters in Python."""
        self.put("I", 0, MAGIC)
        version = self.get("Q", 4) + 1
        self.put("Q", 4, version)
        self.slots, self.index = slots, 0
        self.put("I", 12, slots)
        self.put("I", 16, 0)
        for slot in range(slots):
            base, whole = 20 + 128 * slot, handles(width, slot)
            self.bytes[base:base + 64] = whole[:64]
            self.bytes[base + 64:base + 128] = whole[64:]
        self.put("B", self.footer, 0)
        self.put("IIIBBH", self.footer + 1, width, 1, 1, 1, 8, 0)
        self.put("I", self.footer + 17, width)
        return version

    def publish(self, count):
        pack, flag, stamp, at = struct.pack_into, self.footer, self.footer + 21, self.bytes
        for self.index in range(self.index + 1, self.index + count + 1):
            pack("<d", at, stamp, time.perf_counter())
            pack("<B", at, flag, 0)
            pack("<I", at, 16, self.index)
        return self.index

    def bump(self, count):
        """Stores the version again and again, with nothing changed."""
        for _ in range(count):
            self.put("Q", 4, self.get("Q", 4) + 1)
        return self.get("Q", 4)

    def shut(self):
        self.put("B", self.footer, 1)
        self.bytes[20:self.footer] = bytes(128 * self.slots)
        self.close()
        time.sleep(0.1)
        try:
            again = shared_memory.SharedMemory(name=self.name)
            again.close()
            again.unlink()
        except FileNotFoundError:
            pass


class Reader(Segment):
    """Polls as cuda-link's importer does: flag, version, index, in this order."""

    def __init__(self, name):
        super().__init__(name)
        self.last = 0
        self.refresh()

    def refresh(self):
        if self.get("I", 0) != MAGIC:
            raise ValueError(f"magic is {self.get('I', 0):#x}")
        self.version = self.get("Q", 4)
        self.slots = self.get("I", 12)
        if not 1 <= self.slots <= 10:
            raise ValueError(f"{self.slots} slots")

    def look(self):
        if self.get("B", self.footer):
            return "shut"
        version = self.get("Q", 4)
        if version != self.version and self.version:
            self.refresh()
            return "changed"
        index = self.get("I", 16)
        if index in (0, self.last):
            return None
        self.last = index
        slot = (index - 1) % self.slots
        return f"frame {index} {slot} {self.bytes[20 + 128 * slot]} {self.get('I', self.footer + 1)}"

    def next(self):
        """The next event; attaches by name again after a shutdown."""
        while True:
            what = self.look()
            if what == "shut":
                self.close()
                while True:
                    try:
                        Reader.__init__(self, self.name)
                        break
                    except (FileNotFoundError, ValueError):
                        time.sleep(0.001)
            elif what and what.startswith("frame"):
                return what


class Barrier(Segment):
    """All 64 bytes are read, changed and written again, as cuda-link does it."""

    def change(self, step):
        fields = list(struct.unpack_from("<IIIIQII32s", self.bytes, 0))
        if not fields[0]:
            fields[:2] = BARRIER_MAGIC, 1
        fields[2] = max(0, fields[2] + step)
        fields[4], fields[6] = time.monotonic_ns(), os.getpid()
        self.put("IIIIQII32s", 0, *fields)
        return fields[2]

    def held(self):
        """By the same clock. On a busy machine a step of a test may take longer than cuda-link's 5 s."""
        return self.get("I", 8) > 0 and 0 <= time.monotonic_ns() - self.get("Q", 16) <= 60_000_000_000


def golden(name):
    """The protocol's example, as this side writes it."""
    end = Writer(name, 433)
    end.slots = 3
    end.put("IQII", 0, MAGIC, 7, 3, 42)
    for slot in range(3):
        base = 20 + 128 * slot
        end.bytes[base:base + 64] = bytes((0x10 * (slot + 1) + i) & 255 for i in range(64))
        end.bytes[base + 64:base + 128] = bytes((0x80 + 0x10 * slot + i) & 255 for i in range(64))
    end.put("B", 404, 0)
    end.put("IIIBBHI", 405, 1920, 1080, 4, 2, 32, 0, 33177600)
    end.put("d", 425, 1234.5)
    return end


def main():
    end = barrier = None
    for line in sys.stdin:
        verb, *words = line.rstrip("\n").split("\t")
        answer = "done"
        if verb == "writer":
            end = Writer(words[0], int(words[1]))
        elif verb == "begin":
            answer = f"version {end.begin(int(words[0]), int(words[1]))}"
        elif verb == "publish":
            answer = f"index {end.publish(int(words[0]))}"
        elif verb == "bump":
            answer = f"version {end.bump(int(words[0]))}"
        elif verb == "shut":
            end.shut()
        elif verb == "reader":
            end = Reader(words[0])
            answer = f"size {len(end.bytes)}"
        elif verb == "next":
            answer = end.next()
        elif verb == "close":
            end.close()
        elif verb == "golden":
            end = golden(words[0])
        elif verb == "sha256":
            answer = hashlib.sha256(end.bytes[:int(words[0])]).hexdigest()
        elif verb == "barrier":
            barrier = Barrier(words[0], 64)
        elif verb == "count":
            answer = f"count {barrier.change(int(words[0]))}"
        elif verb == "held":
            answer = "held" if barrier.held() else "free"
        else:
            answer = f"what is {verb}?"
        print(answer, flush=True)
    os._exit(0)  # as a program that exits without cleaning up


if __name__ == "__main__":
    main()
