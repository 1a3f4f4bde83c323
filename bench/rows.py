# SPDX-License-Identifier: MIT
"""Rows of figures and the files that hold them: the keys of `sluice bench --json` (docs/benchmarks.md)."""
import json
import subprocess

PERCENTILES = {"p50_ns": 0.5, "p95_ns": 0.95, "p99_ns": 0.99, "p999_ns": 0.999}


def commit_of(folder):
    """Returns the commit, or None without git or a repository."""
    try:
        done = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"], capture_output=True, text=True,
                              cwd=folder)
    except OSError:
        return None
    return done.stdout.strip() or None


def row(name, params, samples):
    samples = sorted(samples)
    last = len(samples) - 1
    ranks = {key: samples[min(int(len(samples) * share), last)] for key, share in PERCENTILES.items()}
    return {"bench": name, "params": params, **ranks, "n": len(samples)}


def text(figures):
    """A JSON object with one line for each row, so that files stay short and two runs can be compared."""
    def value(of):
        if isinstance(of, list) and of and isinstance(of[0], dict):
            return "[\n" + ",\n".join("  " + json.dumps(each) for each in of) + "\n ]"
        return json.dumps(of)
    return "{\n" + ",\n".join(f" {json.dumps(key)}: {value(of)}" for key, of in figures.items()) + "\n}\n"


def write(figures, out):
    out.write(text(figures))
