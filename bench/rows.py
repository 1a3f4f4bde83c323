# SPDX-License-Identifier: MIT
"""Rows of figures, for bench/run and bench/gpu/run: the same keys as `sluice bench --json` (docs/benchmarks.md)."""
import json


def row(name, params, samples):
    samples = sorted(samples)
    ranks = {key: samples[min(int(len(samples) * share), len(samples) - 1)]
             for key, share in (("p50_ns", 0.5), ("p95_ns", 0.95), ("p99_ns", 0.99), ("p999_ns", 0.999))}
    return {"bench": name, "params": params, **ranks, "n": len(samples)}


def write(figures, out):
    """One row a line, so that two runs can be compared."""
    rows = ",\n".join("  " + json.dumps(each) for each in figures["rows"])
    head = {key: value for key, value in figures.items() if key != "rows"}
    out.write(json.dumps(head, indent=1)[:-2] + f',\n "rows": [\n{rows}\n ]\n}}\n')
