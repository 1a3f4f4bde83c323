# SPDX-License-Identifier: MIT
"""Prints rows with limits and goals as a table. Also for dev/gpu-check."""

HIDDEN = {"bytes"}
RANKS = ("p50_ns", "p95_ns", "p99_ns", "p999_ns")
COLUMNS = (("row", 26, "<"), ("", 46, "<"), ("p50", 9, ">"), ("p99", 9, ">"), ("n", 6, ">"), ("limit", 9, ">"),
           ("over it", 9, ">"), ("goal", 9, ">"), ("met", 4, ">"))


def duration(ns):
    if ns is None:
        return ""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= unit:
            return f"{sign}{ns / unit:.3g} {name}" if ns < 1000 * unit else f"{sign}{ns / unit:.0f} {name}"
    return f"{sign}{ns:.0f} ns"


def said(value):
    return {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value


def params_of(row):
    more = {key: value for key, value in row.items()
            if key not in ("bench", "params", "n", "limit_p50_ns", "goal_ns", "met", *RANKS)}
    words = [f"{key} {said(value)}" for key, value in row["params"].items() if key not in HIDDEN and value is not False]
    words += [f"[{key} {said(value)}]" for key, value in more.items()]
    return ", ".join(words)


def line(cells, out):
    text = " ".join(f"{cell:{align}{width}}" for cell, (_, width, align) in zip(cells, COLUMNS))
    print(text.rstrip(), file=out)


def print_table(figures, out):
    line([name for name, _, _ in COLUMNS], out)
    for row in figures["rows"]:
        limit, goal = row.get("limit_p50_ns"), row.get("goal_ns")
        line([row["bench"], params_of(row), duration(row["p50_ns"]), duration(row["p99_ns"]), row["n"], duration(limit),
              duration(None if limit is None else row["p50_ns"] - limit), duration(goal),
              "" if goal is None else "yes" if row["met"] else "NO"], out)
    goals = [row for row in figures["rows"] if "met" in row]
    print(f"\n{sum(row['met'] for row in goals)} of {len(goals)} goals met, {len(figures['rows'])} rows", file=out)
    for row in figures["rows"]:
        if not row.get("flat", True):
            print(f"NOT FLAT: {row['bench']} grew in {row['params']['seconds']} s", file=out)
    for each in figures.get("missing", []):
        words = [f"{key} {said(value)}" for key, value in each.items() if key not in ("why", "rows", *HIDDEN)]
        print(f"missing: {', '.join([each['rows'], *words])}: {each['why']}", file=out)
    if figures.get("not_run"):
        print(f"NOT RUN, for lack of time: {', '.join(figures['not_run'])}", file=out)
    for each in figures.get("failed", []):
        print(f"FAILED {each['bench']}: {each['why']}", file=out)
