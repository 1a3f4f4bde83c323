#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who may include what: arrows point down only. usage: arrows.py ROOT"""
import pathlib
import re
import sys

from lint import Lint

# folder: what its files may include, besides their own folder. A name that ends in / is a folder.
ARROWS = {
    "src/api": ["sluice/", "channel/", "kernel/kernel.h", "kernel/graph.h", "convert/convert.h", "format/", "copy/copy.h", "mem/mem.h", "device/device.h", "trace/trace.h", "util/"],
    "src/native": ["sluice/", "channel/", "format/", "copy/copy.h", "mem/mem.h", "sync/sync.h", "device/device.h",
                   "trace/trace.h", "os/os.h", "util/"],
    "src/cuda_link": ["sluice/", "channel/", "format/", "copy/copy.h", "mem/mem.h", "sync/sync.h", "device/device.h",
                      "cuda/cuda.h", "trace/trace.h", "os/os.h", "util/"],
    "src/kernel": ["sluice/", "format/format.h", "device/device.h", "cuda/cuda.h", "cuda/nvrtc.h", "os/os.h", "util/"],
    "src/convert": ["sluice/", "kernel/kernel.h", "format/format.h", "device/device.h", "cuda/cuda.h", "os/os.h", "util/"],
    "src/channel": ["sluice/", "format/", "copy/copy.h", "mem/mem.h", "device/device.h", "trace/trace.h", "os/os.h",
                    "util/"],
    "src/format": ["sluice/", "util/"],
    "src/copy": ["sluice/", "format/", "sync/sync.h", "device/device.h", "cuda/cuda.h", "os/os.h", "util/"],
    "src/mem": ["sluice/", "cuda/cuda.h", "os/os.h", "util/"],
    "src/sync": ["sluice/", "device/device.h", "cuda/cuda.h", "os/os.h", "util/"],
    "src/device": ["sluice/", "cuda/cuda.h", "os/os.h", "util/"],
    "src/cuda": ["sluice/base.h", "os/os.h", "util/"],
    "src/trace": ["sluice/base.h", "sluice/timers.h", "os/os.h", "util/"],
    "src/os": ["sluice/base.h", "os/os.h", "util/"],
    "src/util": ["sluice/base.h"],
    "tools": ["sluice/", "kit/"],
    "examples": ["sluice/sluice.h"],
    "gstreamer": ["sluice/"],
    "bench": ["sluice/sluice.h", "kit/"],
    "bench/kit": ["kit/"],
    "include/sluice": ["sluice/"],
}

# Single files that may include more than their folder.
ALSO = {"src/api/cipd.c": ["cuda_link/cuda_link.h"], "src/kernel/picture.c": ["convert/pixels.cuh"]}

# What talks to the system is in src/os alone; shared atomics go through util/atomic.h.
SYSTEM = re.compile(r"(sys|linux|netinet|arpa)/|(unistd|fcntl|poll|pthread|signal|dlfcn|sched|stdatomic|dirent)\.h$")
NO_SYSTEM = ["src/api", "src/channel", "src/native", "src/cuda_link", "src/format", "src/mem", "src/sync", "src/copy",
             "include/sluice"]

# A folder of src/os for each system, no #ifdef.
SYSTEM_IFDEF = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b.*\b(_WIN32|__linux__|__APPLE__|__unix__)\b")
MAY_IFDEF = ["src/os/", "include/sluice/base.h"]

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
PROJECT = re.compile(r"^(sluice|api|channel|convert|kernel|native|cuda_link|format|mem|sync|copy|device|cuda|trace|os|util|kit|harness)/")


def allowed(folder, path, name):
    own = folder.removeprefix("src/") + "/"
    return any(name.startswith(a) if a.endswith("/") else name == a for a in ARROWS[folder] + ALSO.get(str(path), []) + [own])


def files(root, folder):
    return sorted(p for p in (root / folder).rglob("*") if p.suffix in (".c", ".h", ".in"))


def look(root, folder):
    problems = []
    for path in files(root, folder):
        at = path.relative_to(root)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            include = INCLUDE.match(line)
            name = include and (include[1] or include[2])
            if name and include[1] and not PROJECT.match(name):
                # a path from the file's own folder
                local = (path.parent / name).resolve()
                if not local.exists() or (root / folder).resolve() not in local.parents:
                    problems.append(f"{at}:{number}: \"{name}\" leaves {folder}/")
            elif name and PROJECT.match(name) and not allowed(folder, at, name):
                problems.append(f"{at}:{number}: {folder} must not include {name}")
            elif name and folder in NO_SYSTEM and SYSTEM.match(name):
                problems.append(f"{at}:{number}: <{name}> belongs in src/os")
            if SYSTEM_IFDEF.match(line) and not any(str(at).startswith(m) for m in MAY_IFDEF):
                problems.append(f"{at}:{number}: what depends on the system belongs in src/os")
    return problems


def main():
    root = pathlib.Path(sys.argv[1])
    lint = Lint()
    for folder in ARROWS:
        lint.check(f"includes of {folder}", look(root, folder))
    unknown = [f"src/{p.name} is not in the table" for p in (root / "src").iterdir()
               if p.is_dir() and f"src/{p.name}" not in ARROWS]
    lint.check("every folder is in the table", unknown)
    lint.finish()


main()
