#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the hand-made part of the corpus: seeds.py [FOLDER] (its own folder's corpus/ if not given).

The files are committed; this says what is in them. Regressions found by fuzzing lie beside them under
names of their own. Layouts are those of src/native/wire/layout.h and docs/recording.md; how an input is
read stands in each fuzzer.
"""
import os
import struct
import sys

MAGIC = 0x31454349554C5305
HELLO, WELCOME, REFUSE, MEMORY, ACK, BYE, QUERY, CHANNEL, READER = range(1, 10)

folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def save(fuzzer, name, data):
    if fuzzer in ("format", "message", "observer"):
        data = data.rstrip(b"\0") or b"\0"  # after the end of an input there are zeros
    os.makedirs(os.path.join(folder, fuzzer), exist_ok=True)
    with open(os.path.join(folder, fuzzer, name), "wb") as file:
        file.write(data)


def u8(*values):
    return bytes(values)


# ---- the wire's structs ----

def geometry(offset=0, nbytes=0, shape=(), strides=(), width=0, height=0, planes=()):
    data = struct.pack("<QQiIII", offset, nbytes, len(shape), width, height, len(planes))
    data += struct.pack("<8q", *shape, *[0] * (8 - len(shape)))
    data += struct.pack("<8q", *strides, *[0] * (8 - len(strides)))
    for i in range(4):
        data += struct.pack("<QQ", *(planes[i] if i < len(planes) else (0, 0)))
    return data


def array(name, dtype=(1, 8, 1), pixel_format=0, **rest):
    return (name.encode().ljust(32, b"\0") + struct.pack("<BBH", *dtype) + struct.pack("<I", pixel_format)
            + u8(1, 13, 255, 2) + u8(0, 0, 0, 0) + geometry(**rest))


def wire_format(slot_bytes, *arrays):
    data = struct.pack("<IIQ", len(arrays), 0, slot_bytes) + b"".join(arrays)
    return data + b"\0" * (16 + 16 * 272 - len(data))


TENSOR = array("depth", (2, 32, 1), nbytes=96, shape=(4, 6), strides=(24, 4))
IMAGE = array("colour", pixel_format=1, nbytes=256, width=8, height=8, shape=(8, 8, 4), strides=(32, 4, 1),
              planes=((0, 32),))
FORMAT = wire_format(512, TENSOR)
TWO = wire_format(1024, IMAGE, array("depth", (2, 32, 1), offset=512, nbytes=96, shape=(4, 6), strides=(24, 4)))


def message(kind, body):
    return struct.pack("<II", kind, 8 + len(body)) + body


MESSAGES = {
    "hello": message(HELLO, struct.pack("<QIIQQIIIIIIIIq32s", MAGIC, 1, 1, 0, 0, 1, 0, 4, 1, 1, 0, 77, 0, 5, b"camera")),
    "welcome": message(WELCOME, struct.pack("<QIIQQQQIIq", MAGIC, 1, 4, 0, 7, 4096 + 8 * 8192, 8192, 8, 0, 9)),
    "refuse": message(REFUSE, struct.pack("<iIII256s", -10, 1, 1, 0, b"not you")),
    "memory": message(MEMORY, struct.pack("<IIQII", 1, 1, 4096, 1, 0) + FORMAT),
    "ack": message(ACK, struct.pack("<II", 1, 0)),
    "bye": message(BYE, struct.pack("<II", 1, 0)),
    "query": message(QUERY, struct.pack("<Q", 0)),
    "channel": message(CHANNEL, struct.pack("<IIII32s32sQ6I7Q3q4Q", 1, 2, 1, 1, b"writer", b"host", 7, 4, 8, 0, 1, 64, 0,
                                            5, 0, 0, 99, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0) + TWO),
    "reader": message(READER, struct.pack("<II32s6IQq4Qq32s96s4Q", 1, 2, b"viewer", 0, 4, 1, 1, 0, 1, 1, 5, 3, 0, 0, 4, 6,
                                          b"mapped", b"", 0, 0, 0, 0)),
}

for name, data in MESSAGES.items():
    save("message", name, u8(data[0] - 1, 1) + data)
save("message", "as-it-is", u8(0, 0) + MESSAGES["refuse"])
save("message", "short", u8(0, 0) + MESSAGES["ack"][:7])
save("message", "long", u8(0, 0) + MESSAGES["ack"] + b"\0")
for i, name in enumerate(MESSAGES):
    if name in ("hello", "refuse", "reader"):
        save("message", f"open-strings-{name}", u8(i, 1) + b"x" * len(MESSAGES[name]))
save("message", "open-strings-channel", u8(7, 1) + b"x" * 400)
save("message", "two-arrays", u8(7, 2) + MESSAGES["channel"])

# ---- patches, as take_patches reads them ----


def patches(*changes):
    """(offset, width 1, 2, 4 or 8, value)..."""
    data = u8(len(changes))
    for offset, width, value in changes:
        data += struct.pack("<HB", offset, (1, 2, 4, 8).index(width))
        data += u8(value) if width == 1 else number(value)
    return data


def number(value):
    value %= 1 << 64
    return u8(value) if value < 0xFF else u8(0xFF) + struct.pack("<Q", value)


NONE = patches()

# ---- formats, geometry, copies ----

save("format", "wire", u8(0) + FORMAT)
save("format", "wire-two", u8(0) + TWO)
save("format", "wire-overlap", u8(0) + wire_format(512, IMAGE, TENSOR.replace(b"depth\0", b"other\0")))
save("format", "complete", u8(1, 2, 1) + u8(0x01, 3, 8, 6) + NONE + u8(0x18, 9, 16, 8) + NONE + NONE)
save("format", "complete-huge", u8(1, 1, 1) + u8(0x01, 3) + number(1 << 45) + number(1 << 45) + NONE + NONE)
save("format", "complete-overlap", u8(1, 1, 1) + u8(0x01, 3, 8, 6) + patches((128, 8, 4), (136, 8, 4)) + NONE)
save("format", "add", u8(2, 6) + u8(0x08, 10, 32, 16) + NONE + u8(3) + b"abc" + u8(0, 0x08, 10, 16, 16) + NONE)
save("format", "add-tensor", u8(2, 0) + u8(0x02, 4, 3, 4, 5) + NONE + u8(0) + u8(0, 0x02, 4, 3, 9, 5) + NONE)

for how in range(3):
    save("geometry", f"tensor-{how}", u8(0, 17, 5, 6, 0, how) + NONE)
    save("geometry", f"image-{how}", u8(1, 0x44, 8, 8, 17, 5, 6, 0, how, 8, 8) + NONE)
save("geometry", "outside", u8(0, 17, 5, 6, 0, 0) + patches((0, 8, 512)))
save("geometry", "overlap", u8(0, 17, 5, 6, 0, 0) + patches((96, 8, 1)))
save("geometry", "negative", u8(0, 17, 5, 6, 0, 0) + patches((96, 8, -4)))
save("geometry", "overflow", u8(0, 17, 5, 6, 0, 0) + patches((32, 8, 1 << 62), (96, 8, 1 << 62)))

save("geometry", "empty", u8(0, 17, 5, 6, 0, 0) + patches((40, 8, 0), (8, 8, 0)))
save("copy", "tensor", u8(0) + u8(16, 4, 0, 5, 0) + NONE + u8(144, 4, 5, 5, 1) + NONE)
save("copy", "negative", u8(0) + u8(8, 9, 1) + NONE + u8(136, 9, 255) + NONE)
save("copy", "too-short", u8(0) + u8(8, 9, 1) + NONE + u8(136, 9, 255) + patches((48, 8, 8)))
save("copy", "image", u8(1) + u8(4 + 8 * 8) + NONE + NONE)

# ---- shared pages ----

FRAME = 3


def words(*changes):
    return u8(len(changes)) + b"".join(u8(kind, slot) + number(sequence) for kind, slot, sequence in changes)


for mode in range(2):
    save("control", f"read-{mode}",
         u8(1, 7, 0) + NONE + u8(0) + NONE + u8(mode) + words((FRAME, 1, 1)) + u8(1) + words((FRAME, 2, 2), (FRAME, 3, 3))
         + u8(1) + words((FRAME, 4, 9)) + u8(0) + words((0, 4, 10)) + u8(1))
save("control", "slot-out-of-range", u8(1, 7, 0) + NONE + u8(0) + patches((0xE40, 8, 5), (0xA40, 8, 5)) + u8(0) + words((FRAME, 1, 5), (6, 0, 5 << 8 | 200)))
save("control", "marked", u8(1, 7, 0) + NONE + u8(0) + NONE + u8(1) + words((FRAME, 1, 1 << 63), (FRAME, 2, 1 << 62)))
save("control", "too-many-slots", u8(1, 128, 0) + NONE)
save("control", "slots-beyond-the-end", u8(1, 7, 0) + patches((0x20, 4, 9)))
save("control", "write", u8(0) + u8(0, 0, 1, 2, 1, 3) + u8(0x00, 0x11, 0, 5, 0x21, 1, 4, 129, 3, 0x00, 0x09, 0x02) * 3)

# ---- connections ----


def raw(data, fds=()):
    """As raw_peer_send_input reads it."""
    return u8(len(fds)) + struct.pack("<H", len(data)) + u8(*fds) + data


SETTLE = 16


def client(kind, index=0):
    return u8(index * 32 + SETTLE + kind)


DIAL, SAY_HELLO, SAY_RAW, SAY_ACK, SAY_QUERY, SAY_BYE, LISTEN, HANG_UP, SCRIBBLE, PRETEND, WAKE, PASS, ROUND, REFORMAT, \
    JOIN, STATS = range(16)
join = client(JOIN) + u8(0) + NONE
save("writer", "round", client(ROUND) * 3)
save("writer", "reader", join + client(SAY_ACK) + NONE + client(ROUND) + client(LISTEN) + client(SAY_BYE) + NONE)
save("writer", "in-order", client(JOIN) + u8(1) + NONE + client(SAY_ACK) + NONE + client(ROUND) * 8 + client(HANG_UP))
save("writer", "starved", join + client(SAY_ACK) + NONE + (client(PRETEND) + u8(1, 0) + client(ROUND)) * 6
     + b"".join(client(PRETEND) + u8(i, i) for i in range(6)) + client(ROUND) + client(PASS) + u8(120) + client(ROUND))
save("writer", "observer", client(JOIN) + u8(16) + NONE + client(SAY_QUERY) + NONE + client(LISTEN) + client(PASS) + u8(255))
save("writer", "scribbler", join + client(SCRIBBLE) + patches((0xC0, 8, -1), (0x80, 8, 1), (0x800, 8, 1 << 63))
     + client(ROUND) + client(REFORMAT) + u8(1) + client(ROUND) + client(WAKE) + raw(b"x") + client(STATS))
save("writer", "held-since-never", join + client(SAY_ACK) + NONE + client(ROUND)
     + b"".join(client(PRETEND) + u8(i, 0) for i in range(8))
     + client(SCRIBBLE) + patches(*((0x800 + 8 * i, 8, 1 << 63) for i in range(7)))
     + client(JOIN, 1) + u8(16) + NONE + client(SAY_QUERY, 1) + NONE + client(LISTEN, 1))
save("writer", "nonsense", client(DIAL) + client(SAY_RAW) + raw(b"GET / HTTP/1.0\r\n\r\n", (1, 2, 3)))
save("writer", "silent", client(DIAL) + client(PASS) + u8(30))
save("writer", "too-many-descriptors", client(DIAL) + client(SAY_RAW) + raw(MESSAGES["hello"], (0, 1, 2, 3, 4, 5, 6, 255)))
save("writer", "crowd", b"".join(client(JOIN, i) + u8(0) + NONE for i in range(8)) + client(ROUND))
save("writer", "reformats", join + (client(PRETEND) + u8(1, 0) + client(REFORMAT) + u8(1) + client(ROUND)) * 4)
save("writer", "versions", client(DIAL) + client(SAY_HELLO) + u8(0) + patches((16, 4, 2), (20, 4, 9)) + client(LISTEN))

WELCOME_OP, MEMORY_OP, RAW_OP, REFUSE_OP, BYE_OP, SCRIBBLE_OP, SESSION_OP, WAKE_OP, BEGIN_OP, PUBLISH_OP = range(10)
ACQUIRE, LOOK, RELEASE, ASK, FORGE, FETCH, WAIT, CLOSE = (0x26, 0x28, 0x29, 0x2A, 0x2B, 0x2C, 0x2D, 0x3E)


def act(op):
    """The writer's steps, from the reader's list."""
    return u8(0x20, op)


def publish(slot, *changes):
    return act(PUBLISH_OP) + (u8(slot + 16) + patches(*changes) if changes else u8(slot))


opened = u8(0) + u8(BEGIN_OP)
in_order = u8(1) + u8(BEGIN_OP)
frame = publish(1) + u8(ACQUIRE, 16) + u8(LOOK, 0) + u8(FETCH, 0, 0) + u8(RELEASE, 0)
save("reader", "frames", opened + frame * 3 + u8(ASK, 0) + u8(ASK, 1) + u8(ASK, 2) + frame + u8(CLOSE))
save("reader", "in-order", in_order + publish(1) + publish(2) + publish(3) + (u8(ACQUIRE, 0) + u8(LOOK, 0) + u8(RELEASE, 0)) * 4)
save("reader", "records", opened + b"".join(
    publish(1, change) + u8(ACQUIRE, 0) + u8(LOOK, 0) + u8(RELEASE, 0)
    for change in ((0, 8, 9), (8, 4, 2), (12, 4, 2), (16, 8, 1 << 40), (16, 8, 1), (16, 8, 11776), (60, 4, 5000), (64, 4, 17))))
save("reader", "scribbled", opened + publish(1) + u8(ACQUIRE, 0) + act(SCRIBBLE_OP) + u8(3 + 4)
     + patches((0, 8, 1 << 20), (32, 8, -1)) + u8(LOOK, 0) + u8(RELEASE, 0))
save("reader", "geometry", opened + b"".join(
    publish(1, (120 + 224 + at, 8, value)) + u8(ACQUIRE, 0) + u8(LOOK, 0) + u8(RELEASE, 0)
    for at, value in ((0, 1504), (0, 512), (8, 4096), (32, 9), (96, 1 << 61), (96, -4), (96, 4))))
save("reader", "geometry-shifted", opened + publish(1, (344, 8, 1028), (352, 8, 480)) + u8(ACQUIRE, 0) + u8(LOOK, 0))
save("reader", "clock", u8(0) + u8(WELCOME_OP, 1) + patches((64, 8, 1 << 63)) + u8(MEMORY_OP, 0)
     + publish(1, (40, 8, (1 << 63) - 1)) + u8(ACQUIRE, 0))
save("reader", "refused", u8(0) + u8(REFUSE_OP, 10) + NONE)
save("reader", "gone", opened + publish(1) + u8(ACQUIRE, 0) + act(BYE_OP) + patches((8, 4, 3)) + u8(LOOK, 0) + u8(RELEASE, 0)
     + u8(ACQUIRE, 16))
save("reader", "sessions", opened + frame + act(SESSION_OP) + u8(WAIT, 20) + act(BEGIN_OP) + u8(ACQUIRE, 16) + frame)
save("reader", "odd-descriptors", b"".join(u8(0) + u8(WELCOME_OP, 2 + 16 * k, k) for k in range(3)) + u8(MEMORY_OP, 2, 6))
save("reader", "forged", opened + publish(1) + u8(ACQUIRE, 0) + u8(FORGE) + patches((72, 8, 1)) + u8(RELEASE, 0) + u8(FORGE)
     + patches((88, 8, 3)))

save("observer", "channel", u8(4) + u8(0, 1) + NONE + u8(2) + NONE)
save("observer", "too-many-readers", u8(65) + u8(0, 70) + NONE + (u8(2) + NONE) * 70)
save("observer", "refused", u8(0) + u8(3) + patches((8, 4, -10)))
save("observer", "raw", u8(0) + u8(4) + raw(MESSAGES["channel"]))
save("observer", "hung-up", u8(2) + u8(0, 3) + NONE + u8(2) + NONE + u8(5))

# ---- names ----

for i, name in enumerate((b"camera", b"sluice:camera", b"ucx:camera", b"a" * 64, b"sluice:" + b"a" * 64, b"a" * 65, b"../x",
                          b".hidden", b"x.lock", b"x.tmp", b"a:b:c", b"uint8", b"float32x4", b"bfloat16", b"complex128",
                          b"float8_e4m3fn", b"int0", b"uint8x65", b"rgba", b"YUV420P", b"i420", b"gray16le", b"\xff\xfe")):
    save("name", f"{i:02}", name)
    if i < 11:
        save("folder", f"socket-{i:02}", u8(1, i % 2) + name)
save("folder", "lock", u8(0) + b"1234\n")
save("folder", "lock-huge", u8(0) + b"99999999999999999999")
save("folder", "lock-binary", u8(0) + bytes(range(256)))

save("params", "older", u8(10, 4, 1) + struct.pack("<I", 0) + b"\1" * 24)
save("params", "newer", u8(4, 2, 1) + struct.pack("<I", 0) + b"\0" * 60)
save("params", "newer-set", u8(4, 2, 1) + struct.pack("<I", 0) + b"\1" * 60)

# ---- the tools ----

save("json", "plain", b'say "hello" \\ to\n\t\x7f')
save("json", "utf8", "\u00e9\u20ac\U0001f600".encode())
save("json", "not-utf8", b"\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80\xff\xe2\x82")



def nut_number(value):
    groups = [value & 127]
    while value := value >> 7:
        groups.append(value & 127 | 128)
    return bytes(reversed(groups))


def nut_packet(code, *numbers):
    """The fuzzer corrects the checksum."""
    content = b"".join(n if isinstance(n, bytes) else nut_number(n) for n in numbers) + bytes(4)
    return struct.pack(">Q", code) + nut_number(len(content)) + content


NUT = b"nut/multimedia container\0"
NUT_MAIN, NUT_STREAM, NUT_SYNCPOINT = 0x4E4D7A561F5F04AD, 0x4E5311405BF2F9DB, 0x4E4BE4ADEECA4569
KEY, PTS, STREAM, SIZE, CHECKSUM, ELIDED, CODED, INVALID = 1, 8, 16, 32, 64, 1024, 4096, 8192


def nut_video(flags, elided=(0,), streams=1):
    """A file of the frame code 1, which has these flags, up to its first frame."""
    codes = (INVALID, 6, 0, 1, 0, 0, 0, 1, flags, 6, 2, 1, 0, 0, 0, 1, INVALID, 6, 0, 1, 0, 0, 0, 253)
    data = NUT + nut_packet(NUT_MAIN, 3, streams, 65536, 1, 1, 25, *codes, *elided)
    for stream in range(streams):
        data += nut_packet(NUT_STREAM, stream, stream, 4, b"Y800", 0, 7, 10, 0, 0, 0, 4, 2, 16, 15, 2)
    return data + nut_packet(NUT_SYNCPOINT, 0, 0)


save("nut", "coded", nut_video(CODED | KEY) + b"".join(
    u8(1) + nut_number(PTS | SIZE) + u8(pts, 8) + b"12345678" for pts in (0, 1, 3, 120)) + u8(1))
save("nut", "elided", nut_video(KEY | SIZE | ELIDED, (1, 3, b"123")) + (u8(1, 8, 1) + b"45678") * 2 + u8(1))
save("nut", "streams", nut_video(KEY | SIZE | STREAM, streams=2) + (u8(1, 1, 3) + b"abc" + u8(1, 0, 2) + b"de") * 2
     + nut_packet(NUT_SYNCPOINT, 50, 1) + u8(1, 0, 2) + b"fg" + u8(1))
save("nut", "cut", nut_video(KEY | SIZE)[:-9] + u8(1))


def ebml(number, content):
    if isinstance(content, int):
        content = u8(content)
    head = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return head + u8(0x40 | len(content) >> 8, len(content) & 255) + content


VP9 = ebml(0xAE, ebml(0x83, 1) + ebml(0x86, b"V_VP9") + ebml(
    0xE0, ebml(0x53C0, 1) + ebml(0x55B0, ebml(0x55B1, 9) + ebml(0x55B9, 1) + ebml(0x55BA, 16) + ebml(0x55BB, 9))))
SOUND = ebml(0xAE, ebml(0x83, 2) + ebml(0x86, b"A_OPUS"))
WEBM = ebml(0x1A45DFA3, ebml(0x4282, b"webm"))
save("ebml", "alpha", WEBM + ebml(0x18538067, ebml(0x1654AE6B, SOUND + VP9)))
save("ebml", "live", WEBM + bytes.fromhex("1853806701ffffffffffffff") + ebml(0xEC, b"void") + ebml(0x1654AE6B, VP9) +
     bytes.fromhex("1f43b67501ffffffffffffff"))
save("ebml", "no-tracks", WEBM + ebml(0x18538067, ebml(0x1F43B675, b"frames")))

NO_HASH = struct.pack("<Q", 0)


def block(kind, head, data=b""):
    return struct.pack("<IIQ", kind, len(head), len(data)) + NO_HASH + NO_HASH + head + data


def recorded(name, dtype, nbytes, shape, strides, pixel_format=0, width=0, height=0, planes=()):
    data = name.encode().ljust(32, b"\0") + struct.pack("<BBHI", *dtype, len(shape))
    data += struct.pack("<QQQ", 0, nbytes, 0)
    data += struct.pack("<8q", *shape, *[0] * (8 - len(shape)))
    data += struct.pack("<8q", *strides, *[0] * (8 - len(strides)))
    data += struct.pack("<IIII", pixel_format, width, height, len(planes))
    for i in range(4):
        data += struct.pack("<QQ", *(planes[i] if i < len(planes) else (0, 0)))
    return data + u8(1, 13, 255, 2, 0, 0, 0, 0)


def recording(*blocks):
    head = b"\x89SLR\r\n\x1a\n" + struct.pack("<IIqq72s", 1, 112, 5, 6, b"camera") + NO_HASH
    return head + b"".join(blocks)


def frame_head(meta, *arrays):
    return struct.pack("<QQQqqIIIIII", 1, 7, 0, 1, 2, 0, 1, 0, len(arrays), len(meta), 0) + meta + b"".join(arrays)


tensor = recorded("depth", (2, 32, 1), 24, (2, 3), (12, 4))
picture = recorded("colour", (1, 8, 1), 96, (6, 16), (16, 1), 9, 16, 4, ((0, 16), (64, 16)))
form = block(1, struct.pack("<IIQ", 2, 0, 1024) + tensor + picture)
one = block(2, frame_head(b"meta", tensor, picture), b"d" * 24 + b"c" * 96)
end = block(3, struct.pack("<QQq", 1, 0, 9))
for how in (1, 3, 5, 7):
    save("recording", f"whole-{how}", recording(form, one, one, end) + u8(how))
save("recording", "cut", recording(form, one)[:-10] + u8(5))
save("recording", "no-hashes", recording(form, one, end) + u8(4))
save("recording", "wide", recording(form, block(2, frame_head(b"", recorded("depth", (2, 32, 1), 24, (2, 3), (1 << 60, 4))),
                                                b"d" * 24)) + u8(5))
save("recording", "large-metadata", recording(block(2, frame_head(b"m" * 4200, tensor), b"d" * 24)) + u8(5))
save("recording", "empty-array", recording(form, block(2, frame_head(b"", recorded("depth", (2, 32, 1), 0, (0, 3), (12, 4))),
                                                       b"")) + u8(5))

# ---- cuda-link's segments: size, contents, patches, steps (see cipd.c) ----

PATCH, INDEX, LATER, WHOLE, RETRY, CONNECT, OVER, LOOK = range(8)


def segment(slots, *acts, size=0, patched=b"\0"):
    return u8(size, 4 * (slots - 1) + 1) + patched + u8(*acts)


def byte_at(offset, value):
    return u8(1) + struct.pack("<H", offset) + u8(0, value)


save("cipd", "frames", segment(3, LOOK, INDEX, 10, LOOK, WHOLE, INDEX, 12, LOOK, WHOLE))
save("cipd", "ten-slots", segment(10, LOOK, INDEX, 3, LOOK, size=4))
save("cipd", "too-short", segment(10, LOOK, RETRY, size=2))
save("cipd", "eleven-slots", segment(3, RETRY, patched=byte_at(12, 11)))
save("cipd", "shut", segment(3, LOOK, RETRY, patched=byte_at(404, 1)))
save("cipd", "no-frame-yet", segment(3, LATER, 2, CONNECT, INDEX, 1, LOOK, patched=byte_at(16, 0)))
save("cipd", "new-version", segment(3, PATCH, 1, 4, 0, 0, 9, LOOK, RETRY, LOOK))
save("cipd", "other-handle", segment(3, PATCH, 1, 30, 0, 0, 9, INDEX, 10, LOOK, RETRY, LOOK))
save("cipd", "smaller-index", segment(3, LOOK, INDEX, 2, LOOK, INDEX, 255, *[255] * 4, 0, 0, 0, 0, LOOK, INDEX, 1, LOOK))
save("cipd", "silent", segment(3, LOOK, LATER, 200, LOOK, LATER, 200, LOOK))
save("cipd", "taken-over", segment(3, OVER, 2, LOOK, RETRY, size=1))
save("cipd", "taken-over-other-slots", segment(2, OVER, 5, LOOK, size=2))
save("cipd", "raw", u8(0, 0) + struct.pack("<IQII", 0x43495044, 1, 3, 1) + b"\x55" * 300)
save("cipd", "old", u8(0, 0) + struct.pack("<IQII", 0x43495043, 1, 3, 1) + b"\x55" * 300)

ALIVE, DEAD = 14, 22
AGAIN = (PATCH, 1, 4, 0, 0, 9, LOOK, ALIVE, RETRY)
save("cipd", "alive", segment(3, *AGAIN, LOOK, WHOLE, INDEX, 10, LOOK, DEAD, LATER, 200, LOOK, size=1))
save("cipd", "alive-other-times", segment(3, *AGAIN, PATCH, 1, *struct.pack("<H", 2048 + 64 + 32 + 15), 0, 128, LOOK, size=1))

CHANGE, WAIT, ENTER, LEAVE, SETTLE, PUBLISHED, TEND, SEE = range(8)
save("barrier", "held", u8(9, ENTER, SEE, SETTLE, *[PUBLISHED] * 28, LEAVE))
save("barrier", "stale", u8(9, WAIT, 200, ENTER, TEND, LEAVE))
save("barrier", "clamped", u8(1, ENTER, CHANGE, 1, 8, 0, 0, 0, LEAVE, SEE))
save("barrier", "alien", u8(0) + struct.pack("<IIII", 1, 1, 1, 0) + b"\0" * 48 + u8(ENTER, SEE))
save("barrier", "short", u8(200, 62, ENTER, TEND, SEE))

MARK = struct.pack("<IIII", 0x536c7569, 0x63654b65, 0x9e3779b9, 0x7f4a7c15)
PARAMETERS = [(1, 0, 4, 2 | 32 << 8 | 1 << 16, 0), (2, 1, 8, 1 | 8 << 8 | 4 << 16, 4), (3, 0, 12, 0, 0), (4, 1, 64, 0, 0)]


def described(index, *parameters):
    return MARK + struct.pack("<II", index, len(parameters)) + b"".join(struct.pack("<5I", *p) for p in parameters)


def entry(compiled, symbols=b"a\0b\0", log=b"a warning\0", key=b"key\0", key_size=None, sealed=1):
    size = len(key) if key_size is None else key_size
    return u8(sealed) + b"Sluice kernels2\0" + bytes(8) + struct.pack("<Q", size) + key + symbols + log + compiled


BOTH = b"\x7fELF" + described(1, *PARAMETERS) + b"-" + described(0)
save("kernel_cache", "whole", entry(BOTH))
save("kernel_cache", "not-sealed", entry(BOTH, sealed=0))
save("kernel_cache", "one-is-missing", entry(described(0, *PARAMETERS)))
save("kernel_cache", "cut-off", entry(BOTH[:-4]))
save("kernel_cache", "too-many-parameters", entry(described(0) + described(1, *PARAMETERS * 17)))
save("kernel_cache", "parameters-beyond-the-end", entry(described(0) + MARK + struct.pack("<II", 1, 2 ** 32 - 1)))
save("kernel_cache", "wrong-kinds", entry(described(0, (9, 7, 0, 2 ** 32 - 1, 1)) + described(1)))
save("kernel_cache", "one-symbol", entry(BOTH, symbols=b"a\0"))
save("kernel_cache", "one-is-left-out", entry(BOTH, symbols=b"\0b\0"))
save("kernel_cache", "no-end", entry(BOTH, symbols=b"a\0b", log=b"x"))
save("kernel_cache", "size-overflows", entry(BOTH, key_size=2 ** 64 - 1))
save("kernel_cache", "empty", entry(b"", b"", b"", b""))

SOURCES = {
    "plain": "__global__ void __launch_bounds__(256, 2) a(int *p, float q) { p[0] = q; }\n",
    "scopes": "namespace fx::inline v { extern \"C\" { static __global__ void b(); } }\nnamespace { __global__ void c() {} }\n",
    "templates": "template <class T, int n = (3 > 2)> __global__ void d(T *p);\ntemplate <> __global__ void d<int>(int *p) {}\n"
                 "__global__ void e() {}\n",
    "branches": "#if 0\n__global__ void f() {\n#elif X\nnamespace x {\n#else\nnamespace x {\n#endif\n__global__ void g() {} }\n",
    "texts": "R\"x(__global__ void h() { )\" )x\" '\"' \"\\\"\" // \\\n { \n/* } */ #\n #define K \\\n {\n1'000 L'{' __global__ void i() {}\n",
    "unfinished": "#if 1\n#if X\n{{((<[ /* __global__ void j(\n",
}
for name, text in SOURCES.items():
    save("kernel_source", name, text.encode())

PARAMETER_LISTS = {
    "plain": "__global__ void k(sluice_out out, sluice_in in, float gain /* = 1 (0..4) */) {}\n",
    "lines": "__global__ void __launch_bounds__(64) k(sluice_out out, // = 2 (1..3)\n bool on = f(1, 2) /*=true*/,\n int n[3]) {}\n",
    "wrong": "__global__ void k(int a /* = one */, int b /* = 5 (0..4) */, int c /* = 1 (0.4 */)",
    "unfinished": "\"\\\" '\n#define k(\n__global__ void k(int a /* = 1 (",
}
for name, text in PARAMETER_LISTS.items():
    save("run_parameters", name, text.encode())
