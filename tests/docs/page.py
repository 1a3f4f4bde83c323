# SPDX-License-Identifier: MIT
"""A page as a reader pastes it: its shell code into one shell, its programs into the files that it names."""
import os
import pathlib
import re
import signal
import subprocess

BLOCK = re.compile(r"^```(sh|c|python)\b[^\n]*\n(.*?)^```", re.S | re.M)
SAVED = re.compile(r"`([\w-]+\.(?:c|py))`[^`]*:\s*$")  # "`writer.py` (a link):" before a block


class Block:
    def __init__(self, page, found):
        text = page.read_text()
        self.where = f"{page.name}:{text.count(chr(10), 0, found.start()) + 1}"
        self.kind, self.text = found[1], found[2]
        before = text[:found.start()].rstrip().rpartition("\n\n")[2]
        saved = SAVED.search(before)
        self.file = saved[1] if saved else None

    @property
    def is_python(self):
        return self.kind == "python" or bool(re.search(r"^(python|pip) |\bpython3 -m venv|venv/bin", self.text, re.M))

    def script(self):
        """What a shell runs instead of the reader's hands."""
        if self.kind == "sh":
            return self.text
        return f"cat >{self.file} <<'END OF FILE'\n{self.text}END OF FILE\n"


def blocks(path):
    """What is pasted: fragments of other files are not."""
    path = pathlib.Path(path)
    found = [Block(path, block) for block in BLOCK.finditer(path.read_text())]
    return [block for block in found if block.kind == "sh" or block.file]


def script(pasted):
    """One shell that stops where a command fails, and writes a line before each block and one behind the last."""
    return "set -e\n" + "".join(f"echo '== {block.where}'\n{block.script()}" for block in pasted) + "echo '== end'\nwait\n"


def paste(pasted, env, folder, log, limit):
    """The exit status, None if it took too long, and what was printed. Nothing is left running."""
    with open(log, "w") as output:
        shell = subprocess.Popen(["bash", "-c", script(pasted)], env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=output,
                                 stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = shell.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        try:
            os.killpg(shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return status, pathlib.Path(log).read_text(errors="replace")


def output_of(log, where):
    """What the block printed."""
    return log.partition(f"== {where}\n")[2].partition("\n== ")[0]
