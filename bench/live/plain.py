# SPDX-License-Identifier: MIT
"""An engine on a GPU in a loop without sluice.live, as programs have it today: plain.py shared_memory|cuda_link ENGINE JSON

shared_memory: frames lie in host memory; PyTorch copies them to the GPU and the result back, and the CPU waits for it. cuda_link: by the
classes of that package, with StreamDiffusion's own conversions. It runs until it is stopped."""
import importlib
import json
import os
import pathlib
import signal
import sys
import time
import types

import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples" / "live"), str(ROOT / "bench")]
import loop  # noqa: E402
import sluice  # noqa: E402
from python_link_kit import exporter_of, importer_of  # noqa: E402
from sluice.live import Live  # noqa: E402


class SharedMemory:
    def __init__(self, size):
        self.reader = sluice.Reader("camera", wait=None)
        self.writer = sluice.Writer("painted", sluice.Image("rgba", *size, alpha="opaque"))

    def take(self):
        """-> (height, width, 3) of uint8 on the GPU, RGB; None if nothing came"""
        try:
            with self.reader.next(timeout=0.2) as frame:
                self.meta = frame.meta
                return torch.from_numpy(np.ascontiguousarray(frame.numpy()[..., 2::-1])).to("cuda:0")
        except TimeoutError:
            return None

    def send(self, rgba):
        self.writer.send(rgba.cpu().numpy(), meta=self.meta)


class CudaLink:
    """The classes and the conversions of StreamDiffusion's fork: a list of indices for the order, then a packed copy that is exported."""

    def __init__(self, size):
        import cuda_link
        self.link, self.importer = cuda_link, None
        self.exporter = exporter_of(cuda_link, "painted", (size[1], size[0], 4), "uint8")

    def take(self):
        if self.importer is None:  # it does not wait for its producer
            try:
                self.importer = importer_of(self.link, "camera")
            except (RuntimeError, OSError):
                time.sleep(0.1)
                return None
            self.get, self.frame_of = self.importer.caller("get_frame")
        frame = self.frame_of(self.get())
        return None if frame is None else frame[..., [2, 1, 0]]

    def send(self, rgba):
        bgra = rgba[..., [2, 1, 0, 3]].contiguous()
        torch.cuda.current_stream().synchronize()
        self.exporter.export(bgra.data_ptr(), bgra.numel())


def main(way, name, out):
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    os.environ["SLUICE_LIVE__OUTPUT__ENABLED"] = os.environ["SLUICE_LIVE__PREVIEW__ENABLED"] = "false"
    live_folder = pathlib.Path(loop.__file__).parent
    with Live(live_folder / f"{name}.yaml") as live:  # the engine's sizes, types and parameters; its links are not used
        module = importlib.import_module(name)
        engine = getattr(module, "engine", None) or module.Engine
        engine, (low, high) = engine(live), live.settings.input.range
        control = types.SimpleNamespace(image=torch.zeros_like(live.input), scale=torch.zeros((), device=live.device), on=False)
        engine.set(**live.settings.params)
        engine.graphs = loop.Graphs(live)
        engine.capture(live.input, control)
        alpha = torch.full((live.size[1], live.size[0], 1), 255, dtype=torch.uint8, device=live.device)
        link, cpu = {"shared_memory": SharedMemory, "cuda_link": CudaLink}[way](live.size), []
        while not stopping:
            before = time.thread_time()
            rgb = link.take()
            if rgb is None:
                continue
            live.input.copy_(rgb.permute(2, 0, 1)[None].to(live.input.dtype) / 255 * (high - low) + low)
            picture = engine(live.input, control)[0].float()
            rgb = ((picture - low) / (high - low) * 255).clamp(0, 255).to(torch.uint8).permute(1, 2, 0)
            link.send(torch.cat([rgb, alpha], -1))
            cpu.append(time.thread_time() - before)
    pathlib.Path(out).write_text(json.dumps({"loop_cpu_us": loop.percentiles(cpu, 1e6)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
