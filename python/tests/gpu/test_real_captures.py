# SPDX-License-Identifier: MIT
"""CUDA graphs: programs as their users write them, nothing of Sluice in anybody's graph, no capture broken."""
import threading

import pytest

import sluice
from needs import torch
from work import DEVICE, SIDE, begin_in, eventually, flood, held, narrow_writer, spin, take, write

CHANNELS, HEIGHT, WIDTH = 3, 64, 96


def fill(frame, number):
    frame.torch().fill_(number % 200)


class Model:
    """A network with a fixed input and output, captured on a stream of its own as PyTorch's page on graphs shows."""

    def __init__(self):
        torch.manual_seed(1)
        torch.backends.cudnn.allow_tf32 = False  # results are compared
        self.network = torch.nn.Sequential(torch.nn.Conv2d(CHANNELS, 8, 3, padding=1), torch.nn.ReLU(),
                                           torch.nn.Conv2d(8, 1, 3, padding=1)).to(DEVICE).eval()
        self.input = torch.zeros((1, CHANNELS, HEIGHT, WIDTH), device=DEVICE)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.no_grad():
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.network(self.input)
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.output = self.network(self.input)

    def preprocess(self, tensor):
        self.input[0].copy_(tensor.permute(2, 0, 1))


class Capturing:
    """Another thread that captures in global mode all the time, on tensors of its own, and counts."""

    def __init__(self):
        self.stop, self.done, self.errors = threading.Event(), 0, []
        self.thread = threading.Thread(target=self.run)

    def run(self):
        stream = torch.cuda.Stream()
        tensor = torch.zeros(1024, device=DEVICE)
        torch.cuda.synchronize()
        while not self.stop.is_set():
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.stream(stream):
                    graph.capture_begin(capture_error_mode="global")
                    for _ in range(20):
                        tensor.add_(1)
                    self.stop.wait(0.002)
                    graph.capture_end()
                self.done += 1
            except Exception as error:
                self.errors.append(error)
                return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        assert not self.errors, self.errors[0]


@pytest.fixture
def ends():
    """A camera with its reader, and a channel for results with its reader."""
    with (sluice.Writer("camera", shape=(HEIGHT, WIDTH, CHANNELS), device=DEVICE) as camera,
          sluice.Reader("camera") as frames,
          sluice.Writer("results", shape=(HEIGHT, WIDTH), dtype="float32", device=DEVICE) as results,
          sluice.Reader("results") as seen):
        yield camera, frames, results, seen


def run_model(ends, model, kept, numbers):
    """The loop as a user would write it, on the default stream; no call in it waits for the GPU."""
    camera, frames, results, seen = ends
    for index in numbers:
        with camera.frame(timeout=60) as out:
            fill(out, index)
        with frames.next(timeout=60) as frame:
            model.preprocess(frame.torch())
        model.graph.replay()
        with results.frame(timeout=60) as out:
            out.torch().copy_(model.output[0, 0])
        with seen.next(timeout=60) as frame:
            kept[index].copy_(frame.torch())


def check_model(model, kept):
    torch.cuda.synchronize()
    for index, got in enumerate(kept):
        model.input.fill_(index % 200)
        with torch.no_grad():
            expected = model.network(model.input)[0, 0]
        assert torch.allclose(got, expected, rtol=1e-3, atol=1e-3), index


def test_a_captured_model_reads_and_publishes(ends):
    model, kept = Model(), torch.zeros((100, HEIGHT, WIDTH), device=DEVICE)
    run_model(ends, model, kept, range(100))
    check_model(model, kept)


def test_so_it_does_while_another_thread_captures(ends):
    model, kept = Model(), torch.zeros((300, HEIGHT, WIDTH), device=DEVICE)
    run_model(ends, model, kept, range(5))  # first times allocate: PyTorch's own rule
    torch.cuda.synchronize()
    with Capturing() as other:
        run_model(ends, model, kept, range(5, 300))
        assert eventually(lambda: other.done > 5 or other.errors)
    check_model(model, kept)


def test_streams_events_and_finalisers_break_no_capture():
    """The specification's 35: streams, events, frames, arrays and readers come and go meanwhile. ../test_gpu_captures.py has
    slots that are added, too."""
    with narrow_writer("n", max_slots=8) as writer, sluice.Reader("n") as reader:
        write(writer, 0)
        reader.next(timeout=60).torch()
        torch.cuda.synchronize()
        with Capturing() as other:
            for number in range(1, 60):
                streams = [sluice.Stream(DEVICE) for _ in range(3)]
                events = [sluice.Event(DEVICE, timing=True) for _ in range(3)]
                for stream, event in zip(streams, events):
                    event.record(stream)
                    streams[0].wait(event)
                with sluice.Reader("n", hold=1) as second:
                    write(writer, number)
                    kept = [reader.next(timeout=60).torch(), second.next(timeout=60)]
                del streams, events, stream, event, kept
            assert eventually(lambda: other.done > 5 or other.errors)


def test_parallel_inside_a_capture_is_replayed():
    """The specification's 32, as PyTorch captures: the branches are branches of the graph."""
    source = torch.zeros(1 << 20, dtype=torch.int32, device=DEVICE)
    halves = [torch.zeros_like(source) for _ in range(2)]
    total = torch.zeros_like(source)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with sluice.parallel(torch.cuda.current_stream()) as ways:
            for number, half in enumerate(halves, 2):
                with ways.branch() as branch, torch.cuda.stream(branch.to_torch()):
                    half.copy_(source).mul_(number)
        total.copy_(halves[0]).add_(halves[1])
    for number in (1, 2, 3):
        source.fill_(number)
        graph.replay()
        assert (total == number * 5).all()


def test_frames_dropped_inside_a_capture_leave_nothing_in_the_graph():
    """Replays release nothing: the reader keeps a later frame of the same slot, while a writer takes all free slots."""
    with narrow_writer("n", slots=4, max_slots=4) as writer, sluice.Reader("n", hold=2) as reader:
        out = torch.zeros((SIDE, SIDE), dtype=torch.int32, device=DEVICE)
        write(writer, 7)
        first = reader.next(timeout=60)
        slot = first.slot
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            tensor = first.torch()
            out.copy_(tensor)
            del tensor
            first.release()
        del first
        write(writer, 8)
        reader.next(timeout=60).release()  # and the release that was held back is done
        assert eventually(lambda: held(reader) == 0)
        with begin_in(slot, writer, 9) as again:
            again.torch().fill_(9)
        second = take(reader, 9)
        assert second.slot == slot
        kept, floods = second.torch(), torch.cuda.Stream()
        for number in range(100):
            graph.replay()
            with torch.cuda.stream(floods):  # which does not wait for the replay
                flood(writer, 100 + number)
        torch.cuda.synchronize()
        assert reader.stats().held == 1 and (kept == 9).all() and (out == 9).all()
        second.release()
        del second, kept
        write(writer, 200)
        assert (take(reader, 200).torch() == 200).all()


def test_frames_that_die_inside_a_capture_without_a_word():
    """As above, but without release(): the last reference is dropped."""
    with narrow_writer("n") as writer, sluice.Reader("n") as reader:
        out = torch.zeros((SIDE, SIDE), dtype=torch.int32, device=DEVICE)
        for number in range(20):
            write(writer, number)
            frame = reader.next(timeout=60)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out.copy_(frame.torch())
                del frame
            for _ in range(5):
                graph.replay()
            write(writer, number)
            assert (reader.next(timeout=60).torch() == number).all()
        assert eventually(lambda: held(reader) == 0)


@pytest.mark.parametrize("end", ["commit", "cancel", "send"])
def test_what_a_capture_cannot_have_is_refused_and_harms_nothing(end):
    with narrow_writer("n") as writer, sluice.Reader("n") as reader:
        source = torch.zeros((SIDE, SIDE), dtype=torch.int32, device=DEVICE)
        frame = writer.frame(timeout=60) if end != "send" else None
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            source.add_(1)
            if frame is not None:
                frame.torch().copy_(source)
            with pytest.raises(sluice.CaptureError):
                writer.send(source) if frame is None else getattr(frame, end)()
        graph.replay()  # the capture has ended well
        torch.cuda.synchronize()
        assert (source == 1).all() and reader.latest() is None
        if frame is None:
            writer.send(source)
        elif end == "commit":
            assert not frame.ended
            frame.commit()
        else:
            frame.cancel()
            write(writer, 1)
        assert (reader.next(timeout=60).torch() == 1).all()


def test_what_pytorch_would_copy_is_refused_before_it_is_asked():
    """Tensors in many pieces, tensors whose elements are yet to be negated, and channels in host memory: nothing is in the graph."""
    with (narrow_writer("n", dtype="float32") as writer, sluice.Reader("n") as reader,
          sluice.Writer("h", shape=(SIDE, SIDE), dtype="float32") as host, sluice.Reader("h") as here):
        odd = torch.ones((SIDE, 2 * SIDE), device=DEVICE)[:, ::2]
        lazy = torch.zeros((SIDE, SIDE), dtype=torch.complex64, device=DEVICE).conj().imag
        assert lazy.is_neg() and not odd.is_contiguous()
        write(writer, 5)
        host.send(torch.full((SIDE, SIDE), 7.0))
        frames = [reader.next(timeout=60), here.next(timeout=60)]
        calls = [lambda to=to, frame=frame: frame.copy_to(to) for frame in frames for to in (odd, lazy)]
        calls += [lambda of=of, to=to: to.send(of) for of in (odd, lazy) for to in (writer, host)]
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with pytest.warns(UserWarning, match="CUDA Graph is empty"), torch.cuda.graph(graph):
            for call in calls:
                with pytest.raises(sluice.CaptureError, match="nothing was queued"):
                    call()
        assert (odd == 1).all() and (lazy == 0).all()
        for call in calls:
            call()
        assert (odd == 7).all() and (lazy == 7).all()  # as the last frame was one in host memory
        for frame in frames:
            frame.release()
        assert (reader.next(timeout=60).torch() == 7).all() and (here.next(timeout=60).numpy() == 7).all()


def allocations():
    return torch.cuda.memory_stats()["allocation.all.allocated"]


def test_a_stream_that_is_named_and_captures_has_nothing_made_whole():
    """PyTorch works on another stream, on which a copy was made before the stream was looked at. That of a mapping, too, whose other
    array would have to wait for a capture."""
    with (sluice.Writer("n", {name: sluice.Tensor((SIDE, SIDE), "float32") for name in "ab"}, device=DEVICE) as writer,
          sluice.Reader("n") as reader):
        odd = torch.ones((SIDE, 2 * SIDE), device=DEVICE)[:, ::2]
        other = torch.full((SIDE, SIDE), 2.0, device=DEVICE)
        named, graph, tensor = torch.cuda.Stream(), torch.cuda.CUDAGraph(), torch.zeros(64, device=DEVICE)
        writer.send({"a": odd, "b": other}, stream=named)
        frame = reader.next(timeout=60)
        torch.cuda.synchronize()
        with torch.cuda.stream(named):
            graph.capture_begin(capture_error_mode="global")
            tensor.add_(1)
        before = allocations()
        for call in (lambda: writer.send({"a": odd, "b": other}, stream=named), lambda: frame.copy_to({"b": other, "a": odd}, stream=named)):
            with pytest.raises(sluice.CaptureError, match="nothing was queued"):
                call()
        assert allocations() == before
        with torch.cuda.stream(named):
            graph.capture_end()
        odd.fill_(3)
        with pytest.raises(BufferError, match="read-only"):
            frame.copy_to({"a": odd, "b": bytes(4 * SIDE * SIDE)})
        graph.replay()
        assert (tensor == 1).all() and (odd == 3).all() and (other == 2).all()
        frame.copy_to({"b": other, "a": odd}, stream=named)
        assert (odd == 1).all() and (other == 2).all() and writer.stats().committed == 1


def test_fetching_inside_a_capture_is_refused():
    with narrow_writer("n") as writer, sluice.Reader("n") as reader:
        write(writer, 5)
        frame = reader.next(timeout=60)
        target = torch.zeros((SIDE, SIDE), dtype=torch.int32, device=DEVICE)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            target.add_(1)
            for call in (lambda: frame.copy_to(target), lambda: frame.torch(copy=True)):
                with pytest.raises(sluice.CaptureError):
                    call()
        graph.replay()
        assert (target == 1).all()
        frame.copy_to(target)
        assert (target == 5).all()


def test_calls_on_a_capturing_stream_say_so():
    """The specification's 31: before any call of the driver, and the capture ends with a graph. What needs no work on that stream is
    done: a slot is begun, a stream is made."""
    stream, event = sluice.Stream(DEVICE), sluice.Event(DEVICE)
    tensor, here = torch.zeros(64, device=DEVICE), torch.zeros((SIDE, SIDE), dtype=torch.int32).numpy()
    graph = torch.cuda.CUDAGraph()
    with narrow_writer("n") as writer, sluice.Reader("n") as reader:
        write(writer, 5)
        frame = reader.next(timeout=60)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream.to_torch()):
            graph.capture_begin(capture_error_mode="global")
            tensor.add_(1)
            stream.record(event)  # takes part in the graph, which gets no node by it
            for call in (stream.synchronize, stream.query, stream.close, event.synchronize, event.query,
                         lambda: sluice.synchronize(DEVICE), lambda: sluice.reset(DEVICE),
                         lambda: writer.send(here, stream=stream), lambda: frame.copy_to(here, stream=stream)):
                with pytest.raises(sluice.CaptureError):
                    call()
            begun = writer.frame(stream=stream)
            for call in (begun.commit, begun.cancel):
                with pytest.raises(sluice.CaptureError):
                    call()
            sluice.Stream(DEVICE).close()
            graph.capture_end()
        graph.replay()
        torch.cuda.synchronize()
        assert (tensor == 1).all() and not here.any() and writer.stats().committed == 1
        begun.cancel()
        frame.copy_to(here, stream=stream)
        assert (here == 5).all()


def test_one_graph_a_slot():
    """As docs/python-cuda-graphs.md says: view() is the same memory for a slot of a generation. The replay comes late, and the
    writer is on a stream that does not wait for it."""
    graphs, floods = {}, torch.cuda.Stream()
    with narrow_writer("n", slots=4, max_slots=4) as writer, sluice.Reader("n") as reader:
        out = torch.zeros((SIDE, SIDE), dtype=torch.int32, device=DEVICE)
        kept = torch.zeros(100, dtype=torch.int64, device=DEVICE)
        for number in range(100):
            write(writer, number)
            frame = take(reader, number)
            key = frame.generation, frame.slot
            if key not in graphs:
                view = frame.view()
                torch.cuda.synchronize()
                graphs[key] = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graphs[key]):
                    out.copy_(view * 2)
            frame.used_on(torch.cuda.current_stream())
            spin(1)
            graphs[key].replay()
            frame.release()
            with torch.cuda.stream(floods):
                flood(writer, -1)
            kept[number] = out.sum(dtype=torch.int64)
        assert 1 < len(graphs) <= reader.slots
        assert kept.tolist() == [number * 2 * SIDE * SIDE for number in range(100)]


def test_one_graph_a_slot_writes_too():
    """The replay comes late, and the frame is read on a stream that does not wait for it."""
    graphs, reads = {}, torch.cuda.Stream()
    with narrow_writer("n", slots=4, max_slots=4) as writer, sluice.Reader("n") as reader:
        number = torch.zeros((), dtype=torch.int32, device=DEVICE)
        kept = []
        for index in range(50):
            number.fill_(index)
            frame = writer.frame(timeout=60, meta=b"%d" % index)
            key = frame.generation, frame.slot
            if key not in graphs:
                view = frame.view()
                torch.cuda.synchronize()
                graphs[key] = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graphs[key]):
                    view.copy_(number)
            frame.used_on(torch.cuda.current_stream())
            spin(0.5)
            graphs[key].replay()
            frame.commit()
            with torch.cuda.stream(reads):
                kept.append(take(reader, index).torch().sum(dtype=torch.int64))
        torch.cuda.synchronize()
        assert [int(each) for each in kept] == [index * SIDE * SIDE for index in range(50)]


def test_views_work_without_used_on():
    """view() takes the current stream as every other way does: what is queued there, as a replay is, is waited for. The frame is
    read at once, and once more late, and the writer goes on meanwhile: each on a stream that does not wait for the others."""
    with narrow_writer("n") as writer, sluice.Reader("n") as reader:
        fills, reads, floods = (torch.cuda.Stream() for _ in range(3))
        sums = []
        for index in range(1, 51):
            with torch.cuda.stream(fills), writer.frame(timeout=60, meta=b"%d" % index) as out:
                view = out.view()
                spin(1)
                view.fill_(index)
            with torch.cuda.stream(reads), take(reader, index) as frame:
                view = frame.view()
                sums.append(view.sum(dtype=torch.int64))
                spin(1)
                sums.append(view.sum(dtype=torch.int64))
            with torch.cuda.stream(floods):
                flood(writer, -index)
        torch.cuda.synchronize()
        assert [int(each) for each in sums] == [index * SIDE * SIDE for index in range(1, 51) for _ in range(2)]
