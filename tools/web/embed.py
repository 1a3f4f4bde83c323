#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes files as C: struct web_file of tools/web/server.h. usage: embed.py OUT.c FILE..."""
import pathlib
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".json": "application/json", ".svg": "image/svg+xml"}


def main():
    out, *paths = map(pathlib.Path, sys.argv[1:])
    text, rows = ['#include "web/server.h"\n'], []
    for number, path in enumerate(paths):
        data = path.read_bytes()
        lines = [",".join(map(str, data[at:at + 24])) for at in range(0, len(data), 24)]
        text.append(f"static const unsigned char file_{number}[] = {{\n" + ",\n".join(lines) + "\n};\n")
        rows.append(f'    {{ "{path.name}", "{TYPES[path.suffix]}", file_{number}, sizeof file_{number} }},\n')
    text.append("const struct web_file web_files[] = {\n" + "".join(rows) + "};\n")
    text.append(f"const size_t web_file_count = {len(paths)};\n")
    out.write_text("\n".join(text))


main()
