#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""C in the documents compiles, and the writers and readers of README.md, docs/gpu.md and docs/cuda-link.md work together. usage: code.py ROOT BUILD CC

A block marked `c` with a main() is a program: it is compiled alone against the installed headers and library,
found by pkg-config. Those that use CUDA's runtime get one that works on the fake driver (tests/docs/runtime). One marked
`c fragment` is the inside of a function. (That every block also stands in a file of the tree is tests/lint/docs.py's to
see.) The programs of docs/cuda-link.md are examples/cuda_link_writer.c and cuda_link_reader.c, to which it links.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lint"))
from lint import Lint

BLOCK = re.compile(r"^```c( fragment)?\n(.*?)^```", re.S | re.M)
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
WRAPPED = """\
#include <stdio.h>
#include <sluice/sluice.h>
void fragment(void);
void fragment(void)
{
%s}
"""


def install(build, folder):
    """Installs into a folder; returns pkg-config's flags for it, and the library's folder."""
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", folder], check=True,
                   stdout=subprocess.DEVNULL)
    found = next(pathlib.Path(folder).rglob("sluice.pc"))
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "sluice"], check=True, text=True,
                           stdout=subprocess.PIPE,
                           env=dict(os.environ, PKG_CONFIG_PATH=str(found.parent), PKG_CONFIG_SYSROOT_DIR=str(folder)))
    return flags.stdout.split(), str(found.parent.parent)


def compile_c(compiler, text, *arguments):
    done = subprocess.run([*compiler, *STRICT, "-x", "c", "-", "-x", "none", *arguments], input=text, text=True,
                          stderr=subprocess.PIPE)
    return [done.stderr] if done.returncode else []


def fake_runtime(root, build):
    """The flags of a program with CUDA's runtime, and its environment."""
    fake = pathlib.Path(build).resolve() / "tests/fake/libfakecuda.so"
    here = root / "tests/docs/runtime"
    return [f"-I{here}", here / "runtime.c", fake], {"SLUICE_CUDA_DRIVER": str(fake), "SLUICE_FAKE_FATAL": "1"}, fake.parent


FRAMES = 150  # frames that each writer sends
TRIES = 8     # a suspended reader sees few frames, which does not show that the programs are wrong


def run_pair(folder, library, programs, more, *arguments):
    """The page's reader waits for its writer, reads all frames, and ends when the writer does."""
    env = dict(os.environ, SLUICE_DIR=str(folder / "channels"), LD_LIBRARY_PATH=library, **more)
    (folder / "channels").mkdir(mode=0o700, exist_ok=True)
    for _ in range(TRIES):
        problems, shown = run_once(env, programs, *arguments)
        if problems or len(shown) >= 100:
            return problems
    return [f"the reader never showed more than a hundred frames of {FRAMES}; the last lines: {shown[-3:]}"]


def run_once(env, programs, *arguments):
    """The errors, however fast the programs were, and the lines that the reader printed."""
    reader = subprocess.Popen([programs["reader"], *arguments], env=env, text=True, stdout=subprocess.PIPE)
    try:
        writer = subprocess.run([programs["writer"], *arguments], env=env, timeout=60)
        shown = reader.communicate(timeout=30)[0].splitlines()
    except subprocess.TimeoutExpired as late:
        return [str(late)], []
    finally:
        reader.kill()
    problems = []
    if writer.returncode or reader.returncode:
        problems.append(f"writer ended with {writer.returncode}, reader with {reader.returncode}")
    lines = [re.fullmatch(r"frame (\d+) is \d+, (\d+) missed", line) for line in shown]
    if not all(lines):
        problems.append(f"the reader showed {len(shown)} frames of {FRAMES}; the last lines: {shown[-3:]}")
    else:
        numbers = [(int(line[1]), int(line[2])) for line in lines]
        dropped = 0  # frames for which the writer had no slot: they count as missed, and have no number
        for (before, _), (number, missed) in zip(numbers, numbers[1:]):
            if missed < number - before - 1:
                problems.append(f"frame {number} came after {before}, {missed} missed")
            dropped += missed - (number - before - 1)
        if numbers and numbers[-1][0] + dropped > FRAMES:
            problems.append(f"{numbers[-1][0]} frames and {dropped} dropped, of {FRAMES}")
    return problems, shown


def main():
    root, build, compiler = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3].split()
    lint = Lint()
    missing = [tool for tool in ("meson", "pkg-config") if not shutil.which(tool)]
    if missing:
        lint.check("code", [], skip=f"no {', '.join(missing)} here")
        lint.finish()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        flags, library = install(build, folder / "root")
        on_gpu, environment, fake_folder = fake_runtime(root, build)
        programs = {}
        for page in [*sorted(root.glob("*.md")), *sorted((root / "docs").glob("*.md"))]:
            text = page.read_text()
            for block in BLOCK.finditer(text):
                where = f"{page.relative_to(root)}:{text.count(chr(10), 0, block.start()) + 1}"
                if block[1]:
                    lint.check(f"fragment at {where}", compile_c(
                        compiler, WRAPPED % block[2], "-Wno-unused-variable", "-Wno-unused-but-set-variable",
                        "-fsyntax-only", *[f for f in flags if f.startswith("-I")]))
                elif re.search(r"^int main\(", block[2], re.M):
                    kind = "writer" if "sluice_writer_open" in block[2] else "reader"
                    program = folder / f"{page.stem}-{kind}"
                    more = on_gpu if "cuda_runtime" in block[2] else []
                    lint.check(f"program at {where}", compile_c(compiler, block[2], "-o", program, *more, *flags))
                    programs.setdefault(page.name, {})[kind] = program
        for kind in ("writer", "reader"):
            source, program = root / f"examples/cuda_link_{kind}.c", folder / f"cuda-link-{kind}"
            linked = f"(../{source.relative_to(root)})" in (root / "docs/cuda-link.md").read_text()
            lint.check(f"{source.name}, a program of cuda-link.md", compile_c(compiler, source.read_text(), "-o", program, *flags)
                       if linked else ["the page has no link to it"])
            programs.setdefault("cuda-link.md", {})[kind] = program
        own = f"cipd:docs-{os.getpid()}" # names of segments are shared by the whole machine
        for page, env, arguments in (("README.md", {}, []), ("gpu.md", environment, []), ("cuda-link.md", environment, [own])):
            pair = programs.get(page, {})
            if pair.keys() >= {"writer", "reader"} and all(p.exists() for p in pair.values()):
                (folder / page).mkdir()
                lint.check(f"the two programs of {page}", run_pair(folder / page, f"{library}:{fake_folder}", pair, env,
                                                                  *arguments))
            else:
                lint.check(f"{page} has a writer and a reader", ["one is missing, or does not compile"])
    lint.finish()


main()
