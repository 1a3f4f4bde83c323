# SPDX-License-Identifier: MIT
"""capture() and Graph: kernels that are recorded, launched and recorded again."""
import numpy
import pytest

import sluice
from kernel_kit import SOURCE, kernels  # noqa: F401
from stream_kit import device  # noqa: F401


class Numbers:
    """Some floats of a frame that is being written, so that kernels have them in place on any device."""

    def __init__(self, device, count=4):
        self.writer = sluice.Writer("numbers", {"a": (count, "float32"), "b": (count, "float32")}, device=device)
        self.frame = self.writer.frame()
        self.fill = sluice.Kernels("__global__ void fill(float *x, float value) { x[threadIdx.x] = value; }\n"
                                   "__global__ void add(float *x, float value) { x[threadIdx.x] += value; }\n", device=device)

    def __getitem__(self, name):
        return self.frame[name]


@pytest.fixture
def numbers(device):
    made = Numbers(device)
    yield made
    made.writer.close()


def values(numbers, stream):
    """What `a` has, by a kernel that copies it to the host."""
    out = numpy.zeros(4, "float32")
    sluice.Kernels(SOURCE, device=stream.device).scale(out, numbers["a"], 1, 4, over=4, stream=stream)
    return out.tolist()


def test_a_graph_runs_when_it_is_launched(device, numbers):
    fx = numbers.fill
    with sluice.Stream(device) as stream:
        fx.fill(numbers["a"], 0, grid=1, block=4)
        with sluice.capture(stream) as graph:
            assert sluice.current_stream() == stream
            fx.add(numbers["a"], 1, grid=1, block=4)
            fx.add(numbers["a"], 10, grid=1, block=4)
        assert values(numbers, stream) == [0] * 4 and (graph.nodes, graph.edges) == (2, 1)
        graph.launch()
        graph.launch(stream)
        assert values(numbers, stream) == [22] * 4
        assert repr(graph) == "<sluice.Graph: 2 nodes, 1 edges, 0 updates, 0 rebuilds>"


def test_again_updates_or_rebuilds(device, numbers):
    fx = numbers.fill
    with sluice.Stream(device) as stream:
        fx.fill(numbers["a"], 0, grid=1, block=4)
        with sluice.capture(stream) as graph:
            fx.add(numbers["a"], 1, grid=1, block=4)
        for number in range(50):
            with graph.again():
                fx.add(numbers["a"], number, grid=1, block=4)
            graph.launch()
        assert values(numbers, stream) == [sum(range(50))] * 4 and (graph.updates, graph.rebuilds) == (50, 0)
        with graph.again(stream):
            fx.add(numbers["a"], 1, grid=1, block=4)
            fx.fill(numbers["a"], 3, grid=1, block=4)
        graph.launch()
        assert values(numbers, stream) == [3] * 4 and (graph.updates, graph.rebuilds, graph.nodes) == (50, 1, 2)


def test_an_exception_discards_the_capture(device, numbers):
    fx = numbers.fill
    with sluice.Stream(device) as stream:
        fx.fill(numbers["a"], 7, grid=1, block=4)
        with pytest.raises(KeyError), sluice.capture(stream) as graph:
            fx.fill(numbers["a"], 8, grid=1, block=4)
            raise KeyError
        with pytest.raises(RuntimeError, match="nothing was recorded"):
            graph.launch()
        with graph.again():
            fx.fill(numbers["a"], 9, grid=1, block=4)
        with pytest.raises(KeyError), graph.again():
            fx.fill(numbers["a"], 10, grid=1, block=4)
            raise KeyError
        assert values(numbers, stream) == [7] * 4 and graph.updates == 0
        graph.launch()
        assert values(numbers, stream) == [9] * 4


def test_what_a_capture_cannot_hold(device, numbers):
    fx, host = numbers.fill, numpy.zeros(4, "float32")
    with sluice.Stream(device) as stream:
        with sluice.capture(stream) as graph:
            with pytest.raises(sluice.CaptureError, match="host arrays"):
                fx.fill(host, 1, grid=1, block=4)
            with pytest.raises(sluice.CaptureError):
                stream.synchronize()
            fx.fill(numbers["a"], 2, grid=1, block=4)
        graph.launch()
        assert values(numbers, stream) == [2] * 4 and host.tolist() == [0] * 4
        with pytest.raises(sluice.InvalidError), sluice.capture(sluice.Stream.default(device)):
            pass
        with pytest.raises(TypeError, match=r"capture\(\) needs a stream"):
            on_no_stream()


def on_no_stream():
    import threading
    told = []

    def run():
        try:
            with sluice.capture():
                pass
        except TypeError as error:
            told.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    raise told[0]


def test_branches_in_a_capture(device, numbers):
    fx = numbers.fill
    with sluice.Stream(device) as stream:
        with sluice.capture(stream) as graph:
            fx.fill(numbers["a"], 1, grid=1, block=4)
            with sluice.parallel() as ways:
                with ways.branch():
                    fx.add(numbers["a"], 2, grid=1, block=4)
                with ways.branch():
                    fx.fill(numbers["b"], 3, grid=1, block=4)
            fx.add(numbers["a"], 4, grid=1, block=4)
        assert (graph.nodes, graph.edges) == (4, 5)
        graph.launch()
        assert values(numbers, stream) == [7] * 4


def test_a_missing_join(device, numbers):
    fx = numbers.fill
    with sluice.Stream(device) as stream, sluice.Stream(device) as other:
        with pytest.raises(sluice.InvalidCaptureError) as caught, sluice.capture(stream):
            other.wait(stream)
            fx.fill(numbers["a"], 1, grid=1, block=4, stream=other)
        assert isinstance(caught.value, sluice.CaptureError)
        fx.fill(numbers["a"], 5, grid=1, block=4, stream=other)
        stream.wait(other)
        assert values(numbers, stream) == [5] * 4


def test_its_end(device, numbers):
    with sluice.Stream(device) as stream:
        with sluice.capture(stream) as graph:
            numbers.fill.fill(numbers["a"], 1, grid=1, block=4)
        graph.launch()
        graph.close()
        graph.close()
        assert values(numbers, stream) == [1] * 4
    with pytest.raises(RuntimeError, match="nothing was recorded"):
        graph.launch()
    with pytest.raises(TypeError, match="cannot be pickled"):
        graph.__reduce__()
