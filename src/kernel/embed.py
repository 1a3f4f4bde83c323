#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes a C file with the bytes of text files. usage: embed.py OUTPUT NAME=FILE[+FILE]..."""
import pathlib
import sys


def main():
    lines = ["/* Made by embed.py. */", '#include <stddef.h>', ""]
    for argument in sys.argv[2:]:
        name, path = argument.split("=", 1)
        data = b"".join(pathlib.Path(part).read_bytes() for part in path.split("+"))
        lines.append(f"extern const size_t {name}_size; extern const char {name}[];")
        lines.append(f"const size_t {name}_size = {len(data)};")
        lines.append(f"const char {name}[] = {{")
        for at in range(0, len(data), 24):
            lines.append("    " + " ".join(f"{byte}," for byte in data[at:at + 24]))
        lines += ["    0", "};", ""]
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write("\n".join(lines))


main()
