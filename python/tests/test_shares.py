# SPDX-License-Identifier: MIT
"""Shares of tests, as dev/gpu-check asks for them: shares.py."""
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def collected(**environment):
    """Names of what pytest would run of one file."""
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", HERE / "test_images.py"],
                          capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.rpartition("/")[2] for line in done.stdout.splitlines() if "::" in line]


def test_each_test_is_in_one_share(tmp_path):
    every = collected()
    times = tmp_path / "times.json"
    times.write_text(json.dumps({every[-1]: len(every)}))  # as long as all others
    shares = [collected(SLUICE_TEST_SHARE=f"{number}/2", SLUICE_TEST_TIMES=str(times)) for number in (1, 2)]
    assert len(every) > 3 and shares == [every[-1:], every[:-1]]
