# SPDX-License-Identifier: MIT
"""The segments that sluice.cuda_link lets programs inspect: a channel's, and the activation barrier's."""
import os
import pathlib
import time

import pytest

import sluice.cuda_link as cuda_link
from sluice.cuda_link import activation_barrier, shm_protocol


@pytest.mark.parametrize("slots, size", [(2, 305), (3, 433), (4, 561)])
def test_the_layout_has_its_sizes(slots, size):
    assert cuda_link.SHMLayout(slots).total_size == size


def test_a_segment_in_plain_memory():
    layout = cuda_link.SHMLayout(3)
    buffer = layout.build_buffer(version=4)
    metadata = cuda_link.Metadata(640, 480, 4, 1, 8, 0, 640 * 480 * 4)
    metadata.pack_into(buffer, layout)
    assert cuda_link.Metadata.read_from(buffer, layout) == metadata and metadata.expected_size == metadata.data_size
    assert shm_protocol.read_magic(buffer) == 0x43495044 and buffer[:4] == b"DPIC"
    assert (shm_protocol.read_version(buffer), shm_protocol.read_num_slots(buffer)) == (4, 3)
    assert cuda_link.Format.from_shm(buffer[:20], 3) is None
    found = cuda_link.Format.from_shm(buffer, 3)
    assert found.shape == (480, 640, 4) and found.dtype_str == "uint8" and found.frame_nbytes == 1228800
    assert not found.layout_differs_from(cuda_link.Format.from_overrides((480, 640, 4), "uint8"))
    assert found.layout_differs_from(cuda_link.Format.from_overrides((480, 640, 4), "float32"))
    assert (found.kind, found.bits, found.flags) == (1, 8, 0)
    states = cuda_link.SlotState
    assert cuda_link.acquire_slot(buffer, layout, 0, 4).state is states.NO_FRAME
    shm_protocol.set_shutdown(buffer, layout)
    assert cuda_link.acquire_slot(buffer, layout, 0, 4).state is states.SHUTDOWN
    cuda_link.publish_frame(buffer, layout, 5, 1.5)
    assert cuda_link.acquire_slot(buffer, layout, 4, 4) == (states.NEW_FRAME, 1, 1.5, 0, 5)
    assert cuda_link.acquire_slot(buffer, layout, 5, 4).state is states.NO_FRAME
    assert shm_protocol.bump_version(buffer) == 5
    assert cuda_link.acquire_slot(buffer, layout, 5, 4) == (states.VERSION_CHANGED, -1, 0.0, 5, 0)
    shm_protocol.set_version(buffer, 0)  # in the middle of a store
    assert cuda_link.acquire_slot(buffer, layout, 5, 4).state is states.NO_FRAME


@pytest.mark.parametrize("dtype", cuda_link.DtypeCodec.supported())
def test_a_format_that_no_segment_says_has_cuda_links_values(dtype):
    found = cuda_link.Format.from_overrides((3, 5, 2), dtype)
    assert (found.kind, found.bits, found.flags) == (0, 0, 0)
    assert (found.width, found.height, found.num_comps, found.shape, found.dtype_str) == (5, 3, 2, (3, 5, 2), dtype)
    assert found.frame_nbytes == 30 * cuda_link.DtypeCodec.itemsize(dtype) == 30 * found.numpy_dtype.itemsize
    with pytest.raises(KeyError):
        cuda_link.Format.from_overrides((3, 5, 2), "float64")


def test_data_types():
    codec = cuda_link.DtypeCodec
    assert codec.supported() == ("float32", "float16", "bfloat16", "uint8", "uint16", "int8", "int16")
    for name in codec.supported():
        kind, bits, flags = codec.encode(name)
        assert codec.decode(kind, bits, flags) == codec.decode(kind, bits, flags | 6) == name
        assert codec.itemsize(name) == bits // 8
    assert codec.typestr("bfloat16") == "<u2" and codec.typestr("uint8") == "|u1" and codec.typestr("float32") == "<f4"
    assert codec.numpy_name("bfloat16") is codec.cupy_name("bfloat16") is None and codec.numpy_name("int16") == "int16"
    with pytest.raises(ValueError, match="kind 1 with 32 bits"):
        codec.decode(1, 32, 0)
    with pytest.raises(KeyError):
        codec.encode("float64")


@pytest.fixture
def barrier(monkeypatch):
    monkeypatch.setattr(activation_barrier, "SHM_NAME", f"sluice-test-barrier-{os.getpid()}")
    yield activation_barrier
    pathlib.Path(f"/dev/shm/{activation_barrier.SHM_NAME}").unlink(missing_ok=True)


def test_the_activation_barrier(barrier):
    with pytest.raises(FileNotFoundError):
        barrier.open_or_create(create=False)
    holder, began = barrier.open_or_create(create=True), time.monotonic_ns()
    assert bytes(holder.buf[:8]) == b"\xaa\xba\xa1\xcd\x01\0\0\0"
    assert barrier.increment(holder, 77) == 1 and barrier.increment(holder, 77) == 2
    other = barrier.open_or_create(create=False)
    count, changed, skips = barrier.read_state(other)
    assert (count, skips) == (2, 0) and began <= changed <= time.monotonic_ns()
    barrier.bump_skip(other)
    assert barrier.decrement(other, 78) == 1 and barrier.read_state(holder)[2] == 1
    assert barrier.decrement(other, 78) == barrier.decrement(other, 78) == 0
    for each in (holder, other):
        each.close()


@pytest.mark.linux("file of a section")
def test_a_barrier_that_is_somebody_elses(barrier, tmp_path):
    path, target = pathlib.Path(f"/dev/shm/{barrier.SHM_NAME}"), tmp_path / "precious"
    target.write_bytes(b"precious")
    path.symlink_to(target)
    for create in (False, True):
        with pytest.raises(OSError, match="symbolic links"):
            barrier.open_or_create(create=create)
    assert target.read_bytes() == b"precious"
    path.unlink()
    if os.geteuid() != 0:
        pytest.skip("only root may open what is another user's")
    barrier.open_or_create(create=True).close()
    os.chown(path, 65532, -1)
    for create in (False, True):
        with pytest.raises(PermissionError, match="belongs to user 65532"):
            barrier.open_or_create(create=create)


def test_both_sides_of_the_barrier(barrier, monkeypatch):
    said, outcomes = [], barrier.CheckerOutcome
    now = time.monotonic_ns()
    monkeypatch.setattr(barrier.time, "monotonic_ns", lambda: now)  # it stands still: what is held is not stale
    checker = barrier.CheckerBarrier(True, barrier.STALE_NS)
    assert [each.name for each in outcomes] == ["DISABLED", "NO_SKIP", "SKIP_ACTIVE", "SKIP_STALE", "SHM_ABSENT"]
    assert checker.evaluate() is outcomes.SHM_ABSENT and not checker.shm.is_attached
    assert barrier.CheckerBarrier(False, 1).evaluate() is outcomes.DISABLED
    holder = barrier.HolderBarrier(True, 2)
    holder.acquire(5, log_fn=lambda text, force: said.append(text))
    assert holder.held and checker.evaluate() is outcomes.SKIP_ACTIVE and checker.should_skip_publish()
    holder.arm_settle_countdown()
    ticks = [holder.tick_and_maybe_release(5, log_fn=lambda text, force: said.append(text)) for _ in range(3)]
    assert ticks == [False, True, False]
    assert len(said) == 2
    assert not holder.held and checker.evaluate() is outcomes.NO_SKIP
    holder.acquire(5, log_fn=lambda text, force: None)
    monkeypatch.setattr(barrier.time, "monotonic_ns", lambda: now + barrier.STALE_NS + 10**9)
    assert checker.evaluate() is outcomes.SKIP_STALE and not checker.should_skip_publish()
    holder.force_release(5, log_fn=lambda text, force: None)
    holder.force_release(5, log_fn=lambda text, force: None)
    assert checker.evaluate() is outcomes.NO_SKIP and checker.shm.read_state()[2] == 2
    holder.close()
    checker.close()


def test_a_barrier_that_a_dead_program_left_is_set_right(barrier, monkeypatch):
    held = barrier.open_or_create(create=True)
    barrier.increment(held, 1)
    now = time.monotonic_ns()
    monkeypatch.setattr(barrier.time, "monotonic_ns", lambda: now + barrier.STALE_NS + 10**9)
    assert barrier.increment(held, 2) == 1
    held.close()
