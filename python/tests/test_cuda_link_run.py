# SPDX-License-Identifier: MIT
"""`python -m sluice.cuda_link PROGRAM`, if that is not a file."""
import subprocess
import sys

import pytest


@pytest.mark.linux("bash")
@pytest.mark.parametrize("where", ["pipe", "stdin"])
def test_a_program_from_a_pipe_runs(tmp_path, where):
    text = "import sys, cuda_link; print(cuda_link.Exporter.__module__, sys.argv[1:], __name__)"
    command = f'{sys.executable} -m sluice.cuda_link {{}} a b'
    if where == "pipe":
        command = command.format(f"<(echo '{text}')")
    else:
        command = f"echo '{text}' | {command.format('-')}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "sluice.cuda_link.exporter ['a', 'b'] __main__\n"), done.stderr


def test_a_program_that_is_not_there(tmp_path):
    command = [sys.executable, "-m", "sluice.cuda_link", "nothing.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 1 and "no program 'nothing.py'" in done.stderr and "Traceback" not in done.stderr
