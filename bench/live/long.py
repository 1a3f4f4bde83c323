# SPDX-License-Identifier: MIT
"""Runs the diffusion loop for 200 s while OSC changes its parameters and its control, and then checks it: long.py OUT [--quick]

Every 128th picture is kept by another process, with the frames that it was made from. Afterwards the engine paints these again from
what its tensors held: a picture that differs, or a tensor that does not show its frame, is wrong."""
import contextlib
import json
import logging
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import threading
import time
import types

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIVE = ROOT / "examples" / "live"
sys.path.insert(0, str(LIVE))
import sluice  # noqa: E402

SECONDS, EVERY, MOST = 200, 128, 256  # MOST pictures are kept
WATCH, CHANGE = 1.0, 1.0  # s from one look at memory, from one message, to the next
CHANGES = (("/live/control/canny/scale", 1.0), ("/live/param/strength", 0.4), ("/use_controlnet", 0), ("/use_controlnet", 1),
           ("/live/param/seed", 5), ("/live/control/canny/scale", 0.577), ("/live/param/strength", 0.3), ("/live/param/seed", 2))
STEADY = 1.10  # p99 of a frame's time, of its p50
GROWTH = {"device_bytes": 1 << 20, "host_bytes": 8 << 20, "descriptors": 0}


# ---- the other process: keeps pictures, sends OSC ----

def keep(channel, kept, ending):
    with sluice.Reader(channel, wait=None, hold=2) as reader:
        while not ending.is_set():
            with contextlib.suppress(TimeoutError), reader.next(timeout=0.2) as frame:
                if isinstance(meta := frame.meta_json, dict) and meta["n"] % EVERY == 0 and meta["n"] not in kept:
                    kept[meta["n"]] = frame.numpy().copy()


def watch(out, port):
    from pythonosc.udp_client import SimpleUDPClient
    client, ending, kept = SimpleUDPClient("127.0.0.1", int(port)), threading.Event(), {}
    threads = [threading.Thread(target=keep, args=(name, kept.setdefault(name, {}), ending)) for name in ("camera", "edges", "painted")]
    for thread in threads:
        thread.start()
    threading.Thread(target=lambda: (sys.stdin.read(), ending.set()), daemon=True).start()
    number = 0
    while not ending.wait(CHANGE):
        client.send_message(*CHANGES[number % len(CHANGES)])
        number += 1
    for thread in threads:
        thread.join()
    np.savez(out, **{f"{name}_{n}": pixels for name, some in kept.items() for n, pixels in some.items()})


# ---- the loop ----

class Kept:
    """What the tensors held in the sampled shots. Its memory is there from the beginning."""

    def __init__(self, live, torch):
        shape = (MOST, *live.input.shape[1:])
        self.inputs, self.edges = (torch.empty(shape, dtype=live.input.dtype, device=live.device) for _ in range(2))
        self.shots = []

    def take(self, shot, control, scale):
        at = len(self.shots)
        if at < MOST and shot.new and isinstance(shot.meta, dict) and shot.meta["n"] % EVERY == 0:
            self.inputs[at].copy_(shot.input[0])
            self.edges[at].copy_(control.image[0])
            self.shots.append((shot.meta["n"], control.on, scale, dict(shot.params)))


def look(torch):
    rss = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS")) * 1024
    return {"device_bytes": -torch.cuda.mem_get_info()[0], "host_bytes": rss, "descriptors": len(os.listdir("/proc/self/fd"))}


def growth(looks):
    """From the second tenth to the last one."""
    tenth = max(1, len(looks) // 10)
    ends = looks[tenth:2 * tenth] or looks[:1], looks[-tenth:]
    return {name: int(statistics.median(each[name] for each in ends[1]) - statistics.median(each[name] for each in ends[0]))
            for name in GROWTH}


def run(live, engine, seconds, torch, loop):
    kept, looks, ends, captured, end = Kept(live, torch), [], [], False, None
    ending = threading.Event()

    def watching():
        while not ending.wait(WATCH):
            looks.append(look(torch))

    thread = threading.Thread(target=watching)
    for shot in live:
        control = shot.control("canny")
        if not captured:
            engine.graphs = loop.Graphs(live)
            engine.capture(shot.input, control)
            captured = True
        if shot.changed:
            engine.set(**shot.changed)
        kept.take(shot, control, live.settings.flat["controls.canny.scale"])
        shot.send(engine(shot.input, control))
        if end is None and shot.new:
            end = time.monotonic() + seconds
            thread.start()
        if end:
            ends.append(time.monotonic())
            if ends[-1] > end:
                break
    ending.set()
    thread.join()
    live.stream.synchronize()
    return kept, looks, ends


# ---- afterwards ----

def bytes_of(picture):
    return np.floor((picture[0].float().cpu().numpy().clip(-1, 1) + 1) * 127.5 + 0.5).astype(int).transpose(1, 2, 0)


def check(kept, seen, live, engine, torch):
    """-> how many pictures were compared, how many with control, and what is wrong with some"""
    compared = controlled = 0
    wrong = []
    image, edges, scale = live.input, torch.empty_like(live.input), torch.zeros((), device=live.device)
    control = types.SimpleNamespace(image=edges, scale=scale, on=True)
    for at, (n, on, strength, params) in enumerate(kept.shots):
        if any(f"{name}_{n}" not in seen for name in ("camera", "edges", "painted")):
            continue
        image.copy_(kept.inputs[at][None])
        edges.copy_(kept.edges[at][None])
        scale.fill_(strength)
        engine.set(**params)
        with torch.no_grad():
            picture = engine.paint(image, control if on else None)
        frame, lines = (seen[f"{name}_{n}"].astype(np.float32) for name in ("camera", "edges"))
        away = {"input": np.abs(image[0].float().cpu().numpy() - (frame[..., 2::-1].transpose(2, 0, 1) / 127.5 - 1)).max() * 127.5,
                "control": np.abs(edges[0].float().cpu().numpy() - lines.reshape(1, *lines.shape[:2]) / 255).max() * 255 if on else 0,
                "picture": np.abs(bytes_of(picture) - seen[f"painted_{n}"][..., :3]).max()}
        compared, controlled = compared + 1, controlled + on
        if max(away.values()) > 1:
            wrong.append(f"n {n}, control {'on' if on else 'off'}: " + ", ".join(f"{name} {by:.1f}" for name, by in away.items()))
    return compared, controlled, wrong


def free_port():
    with socket.socket(type=socket.SOCK_DGRAM) as some:
        some.bind(("127.0.0.1", 0))
        return some.getsockname()[1]


def main(out, seconds):
    import diffusion
    import loop
    import torch
    from sluice.live import Live
    logging.basicConfig(level=logging.WARNING)
    port, archive = free_port(), out.with_suffix(".npz")
    os.environ["SLUICE_LIVE__OSC__LISTEN"] = f"127.0.0.1:{port}"
    with Live(LIVE / "diffusion.yaml") as live:
        engine = diffusion.Engine(live)
        commands = [[LIVE / "player.py", "--child", "--device", "cuda:0", "--fps", "120"], [__file__, "--watch", archive, port]]
        children = [subprocess.Popen([sys.executable, *map(str, words)], stdin=subprocess.PIPE) for words in commands]
        try:
            kept, looks, ends = run(live, engine, seconds, torch, loop)
        finally:
            for child in reversed(children):
                child.stdin.close()
                child.wait()
        with np.load(archive) as seen:
            compared, controlled, wrong = check(kept, seen, live, engine, torch)
        took, grown, counters = loop.percentiles(loop.gaps(ends), 1e9), growth(looks), live.counters.snapshot()
    archive.unlink()
    steady = took["p99"] / took["p50"]
    met = compared > 0 and not wrong and steady <= STEADY and all(grown[name] <= most for name, most in GROWTH.items())
    row = {"bench": "live_long", "params": {"engine": "diffusion", "seconds": seconds}, "frames_per_s": loop.rate(ends), "n": len(ends),
           **{f"{part}_ns": int(value) for part, value in took.items()}, "p99_of_p50": round(steady, 3), "goal_p99_of_p50": STEADY,
           "compared": compared, "with_control": controlled, "wrong": len(wrong), "growth": grown, "sent": counters["sent"],
           "errors": counters["errors"], "met": met, **({"first_wrong": wrong[0]} if wrong else {})}
    out.write_text(json.dumps(row) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "--watch":
        watch(*sys.argv[2:])
    else:
        main(pathlib.Path(sys.argv[1]), 10 if "--quick" in sys.argv else SECONDS)
