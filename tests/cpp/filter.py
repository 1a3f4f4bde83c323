#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""examples/cpp_filter.cpp blurs what a writer sends. usage: filter.py COMMAND FILTER"""
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lint"))
from lint import Lint

SIZE = 32


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def point():
    """A PNG file: one pixel of 243, which is 3 in each of the 81 pixels around it, on black."""
    rows = [bytearray(1 + SIZE * 4) for _ in range(SIZE)]
    for row in rows:
        row[4::4] = b"\xff" * SIZE  # opaque
    rows[16][1 + 16 * 4:4 + 16 * 4] = b"\xf3" * 3
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIZE, SIZE, 8, 6, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b""))


def main():
    command, filter = sys.argv[1:]
    lint = Lint()
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"SLUICE_DIR": folder}
        picture = pathlib.Path(folder) / "point.png"
        picture.write_bytes(point())
        writer = subprocess.Popen([command, "play", picture, "point", "--loop", "--quiet"], env=env)
        blur = subprocess.Popen([filter, "point", "blurred"], env=env)
        result = pathlib.Path(folder) / "blurred.npy"
        snap = subprocess.run([command, "snap", "blurred", result, "--timeout", "30"], env=env, text=True, capture_output=True)
        lint.check("a picture is blurred", [snap.stderr] if snap.returncode else [])
        pixels = result.read_bytes()[-SIZE * SIZE * 4:] if not snap.returncode else b""
        lint.check("as OpenCV blurs it", [] if pixels.count(3) == 81 * 3 and pixels.count(255) == SIZE * SIZE else [pixels.hex()])
        writer.terminate()
        writer.wait()
        lint.check("it ends with its writer", [] if blur.wait() == 0 else [f"exit status {blur.returncode}"])
        usage = subprocess.run([filter, "nobody", "blurred"], env=env, text=True, capture_output=True)
        lint.check("and says what fails", [] if usage.returncode == 1 and "nobody" in usage.stderr else [usage.stderr])
    lint.finish()


if not shutil.which("ffmpeg"):
    print("1..0 # SKIP ffmpeg is needed")
else:
    main()
