# SPDX-License-Identifier: MIT
"""NVIDIA's multi-process service, for a while and for nobody else: its pipes lie in a folder of our own."""
import os
import shutil
import subprocess
import time

CONTROL = "nvidia-cuda-mps-control"


class Unavailable(Exception):
    pass


class Mps:
    """With it: the environment under which programs are its clients."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=str(folder / "pipe"),
                                CUDA_MPS_LOG_DIRECTORY=str(folder / "log"))

    def ask(self, command, limit=20):
        try:
            return subprocess.run([CONTROL], input=command + "\n", capture_output=True, text=True, timeout=limit,
                                  env=self.environment).stdout
        except subprocess.TimeoutExpired:
            return ""

    def __enter__(self):
        if not shutil.which(CONTROL):
            raise Unavailable(f"there is no {CONTROL} here")
        for name in ("pipe", "log"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        try:
            done = subprocess.run([CONTROL, "-d"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=30,
                                  env=self.environment)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{CONTROL} does not start") from None
        if done.returncode:
            raise Unavailable(f"{CONTROL} does not start: {done.stderr.strip() or done.returncode}")
        return self

    def has_clients(self):
        """Whether a server runs, and so whether the programs have come to it."""
        return any(line.strip().isdigit() for line in self.ask("get_server_list").splitlines())

    def last_words(self):
        log = self.folder / "log" / "control.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return lines[-1] if lines else "no word of it"

    def __exit__(self, *_):
        self.ask("quit")
        time.sleep(0.5)  # its server leaves the GPU
