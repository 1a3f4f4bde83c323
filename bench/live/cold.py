# SPDX-License-Identifier: MIT
"""Starts a loop again and again with a control at 0.577 from the first frame, its graphs captured anew each time, while a player plays:
does the control act in the first picture? cold.py OUT [--quick]"""
import json
import pathlib
import subprocess
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIVE = ROOT / "examples" / "live"
sys.path.insert(0, str(LIVE))
import diffusion  # noqa: E402
import loop  # noqa: E402
from sluice.live import Live  # noqa: E402

STARTS, ACTS = 50, 10  # of 255: how far the control must move the first picture


def start(engine):
    """-> the engine, and how far the control moved the first picture"""
    with Live(LIVE / "diffusion.yaml") as live:
        engine = engine or diffusion.Engine(live)
        engine.rebuild(live)
        engine.graphs = loop.Graphs(live)
        for shot in live:
            control = shot.control("canny")
            engine.capture(shot.input, control)
            if not shot.new:
                continue  # the player is not there yet
            engine.set(**shot.params)
            picture = engine(shot.input, control).clone()
            shot.send(picture)
            plain = engine.graphs.replay("plain")
            return engine, diffusion.moved(picture, plain) if control.on else 0.0


def main(out, starts):
    player = subprocess.Popen([sys.executable, str(LIVE / "player.py"), "--child", "--device", "cuda:0"], stdin=subprocess.PIPE)
    engine, moved, errors = None, [], []
    try:
        for _ in range(starts):
            try:
                engine, by = start(engine)
                moved.append(by)
            except (RuntimeError, torch.AcceleratorError) as error:
                errors.append(str(error))
    finally:
        player.stdin.close()
        player.wait()
    acted = sum(by >= ACTS for by in moved)
    row = {"bench": "live_cold_starts", "params": {"engine": "diffusion", "scale": 0.577}, "n": starts, "errors": len(errors),
           "acted_in_first_picture": acted, "least_of_255": round(min(moved, default=0.0), 1), "goal_of_255": ACTS,
           "met": acted == starts, **({"error": errors[0]} if errors else {})}
    out.write_text(json.dumps(row) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), 3 if "--quick" in sys.argv else STARTS)
