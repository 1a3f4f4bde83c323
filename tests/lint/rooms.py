#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who defines, calls and names what in src/. usage: rooms.py ROOT STATIC_LIBRARY

The public functions are src/api's, no two files call each other in a circle, and only the files that must know of
cuda-link's channels do.
"""
import pathlib
import re
import subprocess
import sys

import api
from lint import Lint

# Files outside of src/cuda_link that may speak of it.
KNOW_CUDA_LINK = {"src/channel/channel.c", "src/api/cipd.c", "src/api/meson.build", "src/meson.build", "src/cuda/wddm_flush.c", "src/os/os.h", "src/os/posix/bell.c", "src/os/win32/bell.c",
                  "src/os/win32/shared_wait.c", "src/os/win32/win32.h"}
CUDA_LINK = re.compile(r"cipd|cuda[-_]link", re.I)


def symbols(library):
    """(object, defined, used) of each object in the library, by nm."""
    text = subprocess.run(["nm", "--format=posix", "--extern-only", library], check=True, capture_output=True, text=True).stdout
    found = {}
    for line in text.splitlines():
        member = re.match(r".*\[(.+)\]:$", line)
        if member:
            defined, used = found.setdefault(member[1], (set(), set()))
        elif len(parts := line.split()) > 1:
            (used if parts[1] == "U" else defined).add(parts[0])
    return found


def calls(found):
    """For each object the objects whose symbols it uses. Meson's names have the path, with _ for /."""
    owner = {symbol: name for name, (defined, _) in found.items() for symbol in defined}
    return {name: {owner[s] for s in used if s in owner} - {name} for name, (_, used) in found.items()}


def circles(graph):
    """Strongly connected components of several objects (Tarjan)."""
    index, low, stack, result = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in graph[node]:
            if target not in index:
                visit(target)
            if target in stack:
                low[node] = min(low[node], low[target])
        if low[node] == index[node]:
            component = []
            while not component or component[-1] != node:
                component.append(stack.pop())
            if len(component) > 1:
                result.append(sorted(component))

    for node in graph:
        if node not in index:
            visit(node)
    return result


def main():
    root, library = pathlib.Path(sys.argv[1]), sys.argv[2]
    found = symbols(library)
    public = {name for header in (root / "include/sluice").glob("*.h") for name, _ in api.functions(header.read_text())}
    lint = Lint()

    mirrors = {p.stem for p in (root / "include/sluice").glob("*.h")} - {"sluice"}
    lint.check("src/api has a file for each header with functions",
               sorted(mirrors.symmetric_difference(p.stem for p in (root / "src/api").glob("*.c"))))
    lint.check("public functions are defined in src/api",
               [f"{s}: {name}" for name, (defined, _) in sorted(found.items()) if not name.startswith("api_")
                for s in sorted(defined & public)])
    lint.check("no file below src/api calls a public function",
               [f"{name}: {s}" for name, (_, used) in sorted(found.items()) if not name.startswith("api_")
                for s in sorted(used & public)])
    lint.check("no two files call each other in a circle", [" ".join(c) for c in circles(calls(found))])
    speak = [str(p.relative_to(root)) for p in sorted((root / "src").rglob("*"))
             if p.is_file() and "cuda_link" not in p.relative_to(root).parts[:2] and CUDA_LINK.search(p.read_text())]
    lint.check("only files that must know of cuda-link do", [p for p in speak if p not in KNOW_CUDA_LINK])
    lint.finish()


main()
