#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The README runs as pasted, from its first block to its last. usage: paste.py ROOT

One shell begins in a copy of the source tree, with an empty home folder, and without Sluice. It is quicker than for a reader in this
only: compilers and pip find what they cached, and nothing is optimised.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lint"))
import page
from lint import Lint

LIMIT = 500  # s, of which a busy machine takes most to compile
OURS = re.compile(r"SLUICE|PYTHON|VIRTUAL_ENV|MESON|MAKE|MFLAGS|PKG_CONFIG|LD_|DESTDIR|PREFIX|LIBDIR|CC$|CFLAGS|CI$|XDG_RUNTIME_DIR")


def copy_source(root, folder):
    """What a reader gets: no builds."""
    listed = shutil.which("git") and subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if not listed or listed.returncode:
        shutil.copytree(root, folder, ignore=shutil.ignore_patterns("build*", ".*"))
        return
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)


def environment(home):
    """That of a machine without Sluice."""
    env = {name: value for name, value in os.environ.items() if not OURS.match(name)}
    old_cache = pathlib.Path(env.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    path = [each for each in env["PATH"].split(":") if not os.access(f"{each}/sluice", os.X_OK)]
    for name in ("run", "tmp"):
        (home / name).mkdir(0o700)
    env.update(HOME=str(home), PATH=":".join(path), XDG_RUNTIME_DIR=str(home / "run"), TMPDIR=str(home / "tmp"))
    env.setdefault("PIP_CACHE_DIR", str(old_cache / "pip"))
    env.setdefault("CCACHE_DIR", str(old_cache / "ccache"))
    env.update(CFLAGS="-O0", PIP_CONFIG_SETTINGS="setup-args=-Dbuildtype=debug", PIP_NO_COMPILE="1",
               PIP_DISABLE_PIP_VERSION_CHECK="1")
    return env


def has_index(env):
    """Does pip reach an index? Without one nobody can follow the part about Python."""
    with tempfile.TemporaryDirectory() as folder:
        pip = ["python3", "-m", "pip"]
        if subprocess.run([*pip, "--version"], env=env, capture_output=True).returncode:  # a new Debian has it in environments alone
            subprocess.run(["python3", "-m", "venv", f"{folder}/venv"], env=env, capture_output=True)
            pip = [f"{folder}/venv/bin/pip"]
        return subprocess.run([*pip, "download", "--quiet", "--no-deps", "--retries", "1", "--dest", folder,
                               "meson-python"], env=env, stderr=subprocess.DEVNULL).returncode == 0


def check_blocks(lint, pasted, status, log):
    """Each block was come to, and the next one after it."""
    for block, after in zip(pasted, [*(block.where for block in pasted[1:]), "end"]):
        problems = [] if f"\n== {after}\n" in log else [f"the shell ended here, with {status}", page.output_of(log, block.where)]
        lint.check(f"{block.where} runs", problems)
        if problems:
            return
    lint.check("programs in the background end", [] if status == 0 else [f"the shell ended with {status}"])


def check_results(lint, pasted, log, home):
    """What the pasted commands and programs did."""
    results = {"sluice snap": (r"", home / "sluice-trial/now.png"), "python reader.py": (r"^\d+ \d+$", None),
               "./reader": (r"^frame \d+ is \d+, \d+ missed$", None)}
    for block in pasted:
        for command, (line, made) in results.items():
            if block.kind == "sh" and re.search(f"^{re.escape(command)}", block.text, re.M):
                problems = [] if re.search(line, page.output_of(log, block.where), re.M) else ["it printed nothing of that kind"]
                if made and not (made.exists() and made.read_bytes().startswith(b"\x89PNG")):
                    problems.append(f"{made.name} is no PNG file")
                lint.check(f"{command} does what the page says", problems)


def main():
    root, lint = pathlib.Path(sys.argv[1]).resolve(), Lint()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        home = folder / "home"
        home.mkdir(0o700)
        copy_source(root, folder / "source")
        env = environment(home)
        lint.check("Sluice is not installed", ["it is"] if shutil.which("sluice", path=env["PATH"]) else [])
        pasted = page.blocks(folder / "source/README.md")
        if not has_index(env):
            lint.check("Python", [], skip="pip reaches no package index")
            pasted = [block for block in pasted if not block.is_python]
        status, log = page.paste(pasted, env, folder / "source", folder / "log", LIMIT)
        check_blocks(lint, pasted, status, log)
        check_results(lint, pasted, log, home)
    lint.finish()


main()
