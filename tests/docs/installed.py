#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `meson install` installs works from there. usage: installed.py BUILD CC

The whole goes below a folder of its own (DESTDIR), where no loader looks by itself: the command must find its library, and
the README's programs must build against the installed headers, with the shared and with the static library.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lint"))
from lint import Lint

ROOT = pathlib.Path(__file__).parent.parent.parent
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def run(arguments, env):
    """The errors: none, or the program's output."""
    done = subprocess.run(arguments, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    return [" ".join(map(str, arguments)), done.stdout] if done.returncode else []


def own_library(program, env, folder):
    """Is the library that it loads the installed one? There may be another one on the loader's path."""
    libraries = subprocess.run(["ldd", program], env=env, text=True, stdout=subprocess.PIPE).stdout
    named = [line for line in libraries.splitlines() if "libsluice" in line]
    return [] if len(named) == 1 and str(folder) in os.path.realpath(named[0].split()[2]) else named


OLDER = 'int sluice_api_version(void) { return 0; } const char *sluice_version(void) { return "0.0.9"; }'


def older_problems(command, cc, env, folder):
    """Another library's answers come before those of the one that is installed."""
    (folder / "older.c").write_text(OLDER)
    problems = run([*cc, "-shared", "-fPIC", folder / "older.c", "-o", folder / "older.so"], env)
    said = subprocess.run([command, "ls"], env=env | {"LD_PRELOAD": f"{folder}/older.so"}, text=True, capture_output=True)
    new = subprocess.run([command, "--version"], env=env, text=True, capture_output=True).stdout.split()[1]
    told = f"this command is sluice {new}, but libsluice is 0.0.9" in said.stderr
    return problems or ([] if said.returncode == 1 and told else [f"{said.returncode}: {said.stderr}"])


def main():
    build, cc = sys.argv[1], sys.argv[2].split()
    lint = Lint()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        env = {"PATH": os.environ["PATH"], "DESTDIR": str(folder), "SLUICE_DIR": f"{folder}/channels"}
        lint.check("it is installed", run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], env))
        (command,) = folder.rglob("bin/sluice")
        (config,) = folder.rglob("sluice.pc")
        lint.check("the command finds its library",
                   run([command, "--version"], env) + own_library(command, env, folder))
        lint.check("with an older library it says both versions", older_problems(command, cc, env, folder))
        demo = ["demo", "--seconds", "5", "--size", "160x90", "--fps", "30", "--device", "host", "--out", folder / "demo"]
        lint.check("the demo finds its filter", run([command, *demo], env))

        env.update(PKG_CONFIG_LIBDIR=str(config.parent), PKG_CONFIG_SYSROOT_DIR=str(folder))
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "sluice"], env=env, text=True,
                               stdout=subprocess.PIPE).stdout.split()
        static = [*[flag for flag in flags if flag != "-lsluice"], config.parent.parent / "libsluice.a", "-pthread", "-ldl"]
        for program in ["writer", "reader"]:
            source = ROOT / "examples" / f"{program}.c"
            for kind, rest in [("shared", flags), ("static", static)]:
                lint.check(f"{program} builds with the {kind} library",
                           run([*cc, *STRICT, source, "-o", folder / f"{program}-{kind}", *rest], env))
        env["LD_LIBRARY_PATH"] = str(config.parent.parent)
        writer = subprocess.Popen([folder / "writer-static"], env=env)
        reader = subprocess.Popen([folder / "reader-shared"], env=env, stdout=subprocess.PIPE, text=True)
        line = reader.stdout.readline()
        for program in [writer, reader]:
            program.kill()
            program.wait()
        lint.check("they meet", [] if line.startswith("frame ") else [f"the reader said: {line}"])
    lint.finish()


if not all(map(shutil.which, ["meson", "pkg-config", "ldd"])):
    print("1..0 # SKIP meson, pkg-config and ldd are needed")
else:
    main()
