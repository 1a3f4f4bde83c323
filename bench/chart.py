# SPDX-License-Identifier: MIT
"""The two bar charts that the repository keeps, for README.md: bench/document writes them. bench/plot draws the others."""
from html import escape

from goals import find
from tables import FULL, MIB, PEERS, commit_of_rows, time

WIDTH, TOP, STEP, LEFT, RIGHT = 760, 52, 26, 240, 70
STYLE = """text{font:13px sans-serif;fill:#1f2329} .title{font-weight:bold;font-size:14px} .about{font-size:10px} .name{text-anchor:end}
rect{fill:#6b7280} .sluice{fill:#0b57d0} .paper{fill:#fdfdfe} .limit{stroke:#b3590a;stroke-width:2}
@media (prefers-color-scheme:dark){text{fill:#e4e8ee} rect{fill:#9aa3b0} .sluice{fill:#7cb3ff} .paper{fill:#12161c} .limit{stroke:#f0a35e}}"""


def svg(title, bars, about):
    """Horizontal bars, each (name, ns, the bare limit's ns or None), as long as their time. Sluice's have a colour."""
    longest = max((ns for _, ns, _ in bars), default=1)
    height = TOP + STEP * len(bars) + 24

    def x(ns):
        return round(LEFT + (WIDTH - LEFT - RIGHT) * ns / longest, 1)

    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
             f"<style>{STYLE}</style>", f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
             f'<text class="title" x="14" y="28">{escape(title)}</text>']
    for at, (name, ns, limit) in enumerate(bars):
        y = TOP + STEP * at
        colour = ' class="sluice"' if name.startswith("Sluice") else ""
        lines += [f'<text class="name" x="{LEFT - 10}" y="{y + 14}">{escape(name)}</text>',
                  f'<rect{colour} x="{LEFT}" y="{y}" width="{round(x(ns) - LEFT, 1)}" height="18"/>',
                  f'<text x="{x(ns) + 8}" y="{y + 14}">{time(ns)}</text>']
        if limit:
            lines.append(f'<path class="limit" d="M{x(limit)} {y - 2}v22"/>')
    lines.append(f'<text class="about" x="14" y="{height - 8}">{escape(about)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def handoff(figures):
    bars = []
    for peer, name in PEERS.items():
        rows = {way: find(figures.host, f"handoff/{peer}", bytes=8 * MIB, way=way, until="readable") for way in ("in-place", "copy")}
        if rows["in-place"]:
            bars.append((name, rows["in-place"]["p50_ns"], None))
        elif rows["copy"]:
            bars.append((f"{name} (copied)", rows["copy"]["p50_ns"], None))
    machine = figures.host["machine"]
    return svg("A frame of 8 MiB in host memory, until another process can read it", sorted(bars, key=lambda bar: bar[1]),
               f"Medians, the reader asleep; the frame is made in place where the system can. {machine['cpu']}, {machine['cores']} cores; "
               f"commit {figures.host['commit']}")


def gpu_handoff(figures):
    at = {**FULL, "busy": "none", "mps": False, "from": "device"}
    rows = (("Sluice, made in place", find(figures.gpu, "gpu_handoff_cpu", busy="none", mps=False)),
            ("Sluice, send copies it", find(figures.gpu, "gpu_send", graph=None, **at)),
            ("Sluice, cuda-link's protocol", find(figures.gpu, "gpu_cipd_send", graph=False, blocking=False, **at)),
            ("PyTorch's queue, made in place", find(figures.gpu, "gpu_torch", way="in-place", until="readable", **FULL)),
            ("PyTorch's queue, copied", find(figures.gpu, "gpu_torch", way="copy", until="readable", **FULL)))
    bars = [(name, row["p50_ns"], row.get("limit_p50_ns")) for name, row in rows if row]
    gpu = (figures.gpu.get("gpus") or [{}])[0].get("name", "a GPU")
    return svg("A frame of 1080p RGBA float32 on a GPU, until another process has it", bars,
               f"Medians; the orange line is what the driver alone takes. {gpu}; commit {commit_of_rows(figures.gpu)}")


CHARTS = {"handoff": handoff, "gpu-handoff": gpu_handoff}
