# SPDX-License-Identifier: MIT
"""Frames on a GPU with PyTorch, of which a double has what Sluice asks for."""
import pathlib

import pytest

TORCH = """
import sys
sys.path.insert(0, {here!r})
import gc, dl, gpu_kit
gpu_kit.find()
torch = dl.install_torch({options})
import sluice
gpu = gpu_kit.Gpu()
writer = sluice.Writer("cam", shape=64, device="cuda:0", slots=4, max_slots=4, policy="wait", wait=60)
reader = sluice.Reader("cam")
def publish(value):
    with writer.frame() as frame:
        torch.stream = stream = gpu.stream()
        tensor = frame.torch()
        gpu.fill(tensor.data, value, tensor.nbytes, stream)
    gpu.synchronize(stream)
    torch.stream = 0
    return tensor
def free():
    frames = []
    while (frame := writer.try_frame()) is not None:
        frames.append(frame)
    return {{frame.slot for frame in frames}}
"""


@pytest.fixture
def with_torch(gpu, run):
    if not gpu.fake:
        pytest.skip("the double of PyTorch is for the fake driver: python/tests/gpu has the real one")

    def with_torch(code, env=None, **options):
        given = ", ".join(f"{name}={value}" for name, value in options.items())
        return run(TORCH.format(here=str(pathlib.Path(__file__).parent), options=given) + code, env=env)

    return with_torch


@pytest.mark.parametrize("exchange", [True, False])
def test_torch(with_torch, exchange):
    with_torch(f"""
publish(9)
for each in (lambda frame: frame.torch(), lambda frame: frame["data"].torch(), lambda frame: frame.torch("data")):
    frame = reader.next(timeout=60)
    torch.stream = gpu.stream()
    tensor = each(frame)
    assert type(tensor) is torch.Tensor and tensor.data == frame[0].address and tensor.shape == (64,)
    assert gpu.read(tensor.data, 64) == bytes([9]) * 64
    assert frame.torch(copy=True) == ("a copy of", tensor.data)
    slot, gate = frame.slot, gpu.gate(torch.stream)
    frame.release()
    del tensor, frame
    publish(9)
    for _ in range(5):
        assert slot not in free()
    gate.open()
    while slot not in free():
        pass
assert (torch.exchanged > 0) == {exchange}
""", exchange=exchange)


def test_torch_that_has_used_no_gpu_yet(with_torch):
    with_torch("""
publish(9)
frame = reader.next(timeout=60)
assert frame.torch().data == frame[0].address
frame.release()
""", up=False)


def test_the_current_streams_of_frameworks(with_torch):
    """Without a stream argument the frameworks' current streams are used."""
    with_torch("""
publish(9)
frame = reader.next(timeout=60)
torch.stream = gpu.stream()
assert frame.__cuda_array_interface__["stream"] is None
slot, gate = frame.slot, gpu.gate(torch.stream)
frame.release()
torch.stream = 0
publish(1)
for _ in range(5):
    assert slot not in free()
gate.open()
while slot not in free():
    pass
""")


@pytest.mark.parametrize("exchange", [True, False])
def test_views(with_torch, exchange):
    with_torch("""
views, stale = {}, {}
for number in range(30):
    with writer.frame() as begun:
        view = begun.view()
        assert stale.setdefault(begun.slot, view) is view
    frame = reader.next(timeout=60)
    view = frame.view()
    assert views.setdefault(frame.slot, view) is view is frame.view("data") and view.data == frame[0].address
    frame.release()
assert len(views) <= reader.slots == 4
first = views[frame.slot]
for end in (lambda: writer.reformat(shape=32), reader.close, writer.close):
    gpu.read(first.data, 64)
    end()
    if not reader.closed:
        for _ in range(8):
            with writer.frame() as begun:
                assert begun.view() is not stale.get(begun.slot) and begun.view().shape == (32,)
            frame = reader.next(timeout=60)
            assert frame.view().shape == (32,) and frame.view() is frame.view()
            frame.release()
gpu.read(first.data, 64)
del first, views, stale, view
""", exchange=exchange)


@pytest.mark.parametrize("new", ["generation", "session"])
def test_an_old_frame_leaves_the_views_of_the_current_generation(with_torch, new):
    """Both have theirs for as long as the program has frames of both."""
    with_torch(f"""
import child
from eventually import STARTS, comes_to
with child.children({str(pathlib.Path(__file__).parent / "roles.py")!r}, STARTS) as start:
    if {new == "session"}:
        other = start("write_on_gpu", "other", 9)
        other.expect("open")
        reader = sluice.Reader("other", wait=60)
    else:
        publish(9)
    old, views, turns = reader.next(timeout=60), {{}}, 0
    first = old.view()
    address, shape = first.data, first.shape
    if {new == "session"}:
        other.kill()
        writer.close()
        writer = sluice.Writer("other", shape=32, device="cuda:0", slots=4, max_slots=4, policy="wait", wait=60)
    else:
        writer.reformat(shape=32)
while turns < 12:
    publish(8)
    frame = reader.next(timeout=60)
    if frame.shape == (32,):
        turns += 1
        view = frame.view()
        assert views.setdefault(frame.slot, view) is view and view.shape == (32,)
        assert old.view() is old.view("data") is first and first.data == address and first.shape == shape
        assert frame.view() is view
    frame.release()
assert gpu.read(address, 64) == bytes([9]) * 64
before = gpu.things()["mappings"]
old.release()
old = first = view = views = None
def fell():
    publish(8)
    reader.next(timeout=60).release()  # it closes the memory of generations that have ended
    gc.collect()
    return gpu.things()["mappings"] < before
assert comes_to(fell, True)  # with the frame went what it kept
""")


def test_a_graph_that_is_kept_with_its_view_outlives_its_generation(with_torch):
    """As docs/python-cuda-graphs.md says: it is replayed when the reader has nothing of that generation mapped any more."""
    with_torch("""
publish(9)
graphs, stream = {}, gpu.stream()
with reader.next(timeout=60) as frame:
    view = frame.view()
    with gpu.capture(stream) as graph:
        found = gpu.look(view.data, 64, stream)
    graphs[frame.slot] = graph, view
del view, frame
writer.reformat(shape=32)
for _ in range(9):
    publish(1)
    with reader.next(timeout=60) as frame:
        frame.view()
gc.collect()
for graph, _ in graphs.values():
    graph.replay(stream)
assert bytes(found) == bytes([9]) * 64
""")


def test_a_view_counts_as_use(with_torch):
    with_torch("""
publish(9)
with reader.next(timeout=60) as frame:
    torch.stream = gpu.stream()
    frame.view()
    slot, gate = frame.slot, gpu.gate(torch.stream)
torch.stream = 0
publish(1)
for _ in range(5):
    assert slot not in free()
gate.open()
while slot not in free():
    pass
try:
    reader.next(timeout=60).view(kind="jax")
except ValueError:
    pass
else:
    raise SystemExit("jax has views")
""")


def test_a_reader_that_waits_rehearses(with_torch):
    """While a reader waits it makes a tensor and drops it, so that the next one takes less time. The frame is not affected."""
    with_torch("""
import threading
publish(9)
reader.next(timeout=60).torch()
made = torch.exchanged
torch.stream = gpu.stream()
gate = gpu.gate(torch.stream)
def wait():
    threading.Timer(0.02, lambda: writer.frame().commit()).start()
    frame = reader.next(timeout=60)
    slot = frame.slot
    frame.release()
    return slot
slot = wait()
known = torch.exchanged > made  # the wait was not known to be long
for _ in range(50):
    if torch.exchanged == made:
        slot = wait()
writer.frame().commit()
while slot not in free():  # no work on the stream has used the frame, or this would never end
    pass
gate.open()
assert not known and torch.exchanged == made + 1
""")


def test_views_are_let_go(with_torch):
    """Those of a generation before, and all of them when reader and writer close: nothing stays mapped."""
    with_torch("""
from eventually import comes_to
def mappings():
    gc.collect()
    return gpu.things()["mappings"]
def turn():
    with writer.frame() as frame:
        frame.view()
    with reader.next(timeout=60) as frame:
        frame.view()
turn()
before = mappings()
assert before > 0
for size in (128, 32, 64):
    writer.reformat(shape=size)
    for _ in range(9):
        turn()
    now = comes_to(mappings, before)
    assert now == before, (now, before)
frame, begun = reader.latest() or None, writer.frame()
reader.close()
writer.close()
begun = None
assert comes_to(mappings, 0) == 0
""")


def test_views_of_copies(with_torch):
    """On another GPU: there are as many as frames may be held, and `slot` says which one a frame lies in."""
    with_torch("""
far = gpu_kit.Gpu(1)
def read(tensor):
    far.enter()
    content = far.read(tensor.data, tensor.nbytes)
    gpu.enter()
    return content
gpu.enter()
copies = sluice.Reader("cam", device="cuda:1", staged="always", hold=2)
def check(turns, shape):
    views, held = {}, []
    for number in range(turns):
        publish(number)
        held.append(copies.next(timeout=60))
        frame = held[-1]
        view = frame.view()
        assert view.device == (2, 1) and view.shape == shape and view.data == frame[0].address
        assert read(view) == bytes([number]) * view.nbytes
        assert views.setdefault(frame.slot, view) is view is frame.view()
        if len(held) == 2:
            held.pop(number % 2).release()
    assert set(views) == {0, 1} and views[0].data != views[1].data
    return views
old = check(9, (64,))
writer.reformat(shape=1 << 24)
new = check(5, (1 << 24,))
assert not {each.data for each in old.values()} & {each.data for each in new.values()}
copies.close()
for view in (*old.values(), *new.values()):
    assert read(view)  # they keep their memory
""", env={"SLUICE_FAKE_GPUS": "2"})
