# SPDX-License-Identifier: MIT
"""Cells and tables of the pages, from rows of figures."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "gpu"))
from table import duration  # noqa: E402

NONE = "–"
MIB = 1 << 20


def time(ns):
    return NONE if ns is None else duration(ns)


def times(row, *keys):
    return [time(row.get(key)) for key in keys]


def pair(row):
    """The median, and the bare limit's."""
    return times(row, "p50_ns", "limit_p50_ns")


def speed(row, key):
    return f"{row['params']['bytes'] / row[key]:.1f} GB/s" if row.get(key) else NONE


def met(row):
    return {True: "yes", False: "**no**"}.get(row.get("met"), "")


def table(head, lines):
    cells = [head, ["---"] * len(head), *lines]
    return "".join(f"| {' | '.join(map(str, each))} |\n" for each in cells)
