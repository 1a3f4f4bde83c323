#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shell code in the documents works. usage: shell.py ROOT BUILD

Blocks marked `sh run` are run, each by `bash -e` in a fresh folder with a channel folder of its own and the
command in PATH. `needs-unshare` skips one where namespaces may not be made. A block may leave nothing running.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lint"))
from lint import Lint

BLOCK = re.compile(r"^```sh run([^\n]*)\n(.*?)^```", re.S | re.M)
LIMIT = 60
PATIENCE = 20  # s, for processes that were asked to end


def has_unshare():
    try:
        return subprocess.run(["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--ipc",
                               "--net", "true"], stderr=subprocess.DEVNULL).returncode == 0
    except FileNotFoundError:
        return False


def left_channels(tools, env, folder):
    """Processes that still live after the time in which they should have ended."""
    for _ in range(PATIENCE * 10):
        live = live_channels(tools, env, folder)
        if not live:
            break
        time.sleep(0.1)
    return live


def live_channels(tools, env, folder):
    shown = subprocess.run([f"{tools}/sluice", "ls"], env=env, cwd=folder, text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
    return [line for line in shown.stdout.splitlines() if " live " in line]


def run(script, tools):
    with tempfile.TemporaryDirectory() as folder:
        channels = f"{folder}/own"
        os.mkdir(channels, 0o700)
        env = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", SLUICE_DIR=channels, TMPDIR=folder)
        with open(f"{folder}/output", "w+") as output:
            shell = subprocess.Popen(["bash", "-e", "-c", script], env=env, cwd=folder, stdin=subprocess.DEVNULL,
                                     stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
            problems = []
            try:
                if shell.wait(LIMIT):
                    problems.append(f"it ended with {shell.returncode}")
            except subprocess.TimeoutExpired:
                problems.append(f"it did not end within {LIMIT} s")
            if not problems:
                problems = [f"left running: {line}" for line in left_channels(tools, env, folder)]
            try:
                os.killpg(shell.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            output.seek(0)
            return problems + [output.read()] if problems else []


def main():
    root, tools = pathlib.Path(sys.argv[1]), str(pathlib.Path(sys.argv[2]) / "tools")
    lint = Lint()
    unshare = has_unshare()
    for page in [*sorted(root.glob("*.md")), *sorted((root / "docs").glob("*.md"))]:
        text = page.read_text()
        for block in BLOCK.finditer(text):
            title = f"{page.relative_to(root)}:{text.count(chr(10), 0, block.start()) + 1}"
            if "needs-unshare" in block[1] and not unshare:
                lint.check(title, [], skip="namespaces are not permitted here")
            else:
                lint.check(title, run(block[2], tools))
    lint.finish()


main()
