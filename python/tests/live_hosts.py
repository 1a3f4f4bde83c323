# SPDX-License-Identifier: MIT
"""What a live loop is tested with: a host that sends numbered frames, and the loop step by step."""
import contextlib
import logging

import numpy as np
import sluice
from sluice.live import Live

QUIET = {"report": {"line": 0}}
SIZE = 32, 24  # width and height


class Host:
    """Sends pictures of one colour, whose metadata has their number."""

    def __init__(self, name="camera", size=SIZE, format="rgba", device="host", **wanted):
        self.name, self.size = name, size
        self.writer = sluice.Writer(name, sluice.Image(format, *size), device=device, slots=8, **wanted)
        self.number = 0

    def send(self, value=None, number=None, **more):
        """The next frame; its bytes are its number unless `value` is given."""
        self.number = self.number + 1 if number is None else number
        value = self.number % 256 if value is None else value
        shape = next(iter(self.writer.format.values()))
        channels = {"rgba": (4,), "gray": ()}[shape.pixel_format]
        array = np.full((*self.size[::-1], *channels), value, np.uint8)
        self.writer.send(array, meta={"n": self.number, **more})
        return self.number

    def close(self):
        self.writer.close()


class Steps:
    """A loop, shot by shot, in this thread."""

    def __init__(self, live):
        self.live, self._shots = live, iter(live)

    def __call__(self):
        return next(self._shots)

    def until(self, condition, shots=100000):
        """Shots, each sending its input, until one for which the condition holds."""
        for _ in range(shots):
            shot = self()
            shot.send(shot.input)
            if condition(shot):
                return shot
        raise AssertionError("no shot was as it should be")

    def end(self):
        """Finishes the last shot."""
        self.live.stop()
        assert next(self._shots, None) is None


@contextlib.contextmanager
def loop(**wanted):
    """Steps of a loop with an input and an output. Nothing is stale unless the test says when."""
    with contextlib.ExitStack() as stack:
        settings = {"input": {"channel": "camera", "stale": 600}, "output": "painted", "size": SIZE, **QUIET, **wanted}
        live = stack.enter_context(Live(settings))
        yield Steps(live)


def level(shot):
    """The byte that the input's picture was made of, which has one colour."""
    low, high = shot._live.settings.input.range
    values = np.asarray(shot.input, np.float64)
    assert np.ptp(values) < 1e-5, "a picture of one colour"
    return round((values.flat[0] - low) / (high - low) * 255)


class Lines(logging.Handler):
    """The lines of the log of a link: "ok -> stale" of "input: camera: ok -> stale: nothing"."""

    def __init__(self, link):
        super().__init__()
        self.link, self.changes, self.lines = link, [], []
        logging.getLogger("sluice.live").addHandler(self)

    def emit(self, record):
        text = record.getMessage()
        self.lines.append(text)
        if text.startswith(f"{self.link}: ") and " -> " in text:
            self.changes.append(text.split(": ")[2])

    def __enter__(self):
        logging.getLogger("sluice.live").setLevel(logging.INFO)
        return self

    def __exit__(self, *error):
        logging.getLogger("sluice.live").removeHandler(self)
