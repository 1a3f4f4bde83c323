# SPDX-License-Identifier: MIT
"""Frames between cuda-link and Sluice's stand-in for it: formats, slots, order, sessions."""
import importlib.util
import json

import pytest

from conftest import DTYPES, ask, has_classes


@pytest.mark.parametrize("dtype", DTYPES)
def test_formats(two, dtype):
    for channels in (4, 1, 2, 3):
        height, width = 5 + channels, 7
        two.export(f"height={height} width={width} channels={channels} dtype={dtype}")
        assert two.connect_again() == "ready"
        two.send(3)
        assert two.take() == f"3 {dtype} {height}x{width}x{channels}"
        ask(two.importer, "close")
        ask(two.exporter, "close")
        two.exporter.write("close")  # it does no harm twice
        two.exporter.expect("closed")


@pytest.mark.parametrize("slots", (1, 2, 3, 5, 10))
def test_slots(two, slots):
    two.export(f"height=16 width=16 num_slots={slots}")
    assert two.connect() == "ready"
    for number in range(1, 3 * slots + 2):
        two.send(number)
        assert two.take() == f"{number} uint8 16x16x4"
    assert ask(two.importer, "take") == "NO_FRAME"
    stats = json.loads(ask(two.importer, "stats"))
    assert stats["num_slots"] == slots and stats["frame_count"] == 3 * slots + 1


def test_the_newest_is_taken(two):
    two.export("height=64 width=64")
    assert two.connect() == "ready"
    assert ask(two.importer, "take") == "NO_FRAME"
    for number in (1, 2, 3, 4, 5):
        two.send(number)
    taken = two.take()
    while taken in ("3 uint8 64x64x4", "4 uint8 64x64x4"):  # where that was what was finished
        taken = two.take()
    assert taken == "5 uint8 64x64x4"
    assert ask(two.importer, "take") == "NO_FRAME"


def test_who_comes_later_finds_the_last_frame(two):
    two.export("height=64 width=64")
    two.send(8)
    assert two.connect() == "ready"
    assert two.take() == "8 uint8 64x64x4"


def test_two_importers(two):
    two.export("height=64 width=64")
    assert two.connect() == "ready"
    first = two.importer
    assert two.connect() == "ready"
    two.send(4)
    for importer in (first, two.importer):
        assert ask(importer, "take NO_FRAME") == "4 uint8 64x64x4"


def test_a_large_frame(two):
    two.export("height=1080 width=1920 dtype=uint8")
    assert two.connect() == "ready"
    for number in (1, 2, 3, 4):
        two.send(number)
        assert two.take() == f"{number} uint8 1080x1920x4"


@pytest.mark.parametrize("policy", ("policy.export_sync=true", "policy.flush_probe=false policy.high_priority_stream=false",
                                    "policy.use_graphs=true policy.export_profile=true", "policy.doorbell=true"))
def test_policies_of_exporters(two, policy):
    two.export(f"height=32 width=32 {policy}")
    assert two.connect() == "ready"
    for number in range(1, 8):
        two.send(number)
        assert two.take() == f"{number} uint8 32x32x4"


@pytest.mark.parametrize("policy", ("policy.wait_spin_us=0", "policy.d2h_num_streams=2 policy.d2h_stream_high_priority=true",
                                    "policy.debug=true", "policy.doorbell=true policy.wait_backend=python"))
def test_policies_of_importers(two, policy):
    two.export("height=33 width=31 channels=3")
    assert two.connect(policy) == "ready"
    for number in range(1, 8):
        two.send(number)
        assert two.take() == f"{number} uint8 33x31x3"


def test_pipelined_copies_are_one_frame_late(two):
    if has_classes("cuda-link") and two.pair[1] == "cuda-link":
        pytest.skip("this cuda-link has no pipelined copies")
    two.export("height=32 width=32 num_slots=3")
    assert two.connect("policy.d2h_pipelined=true") == "ready"
    two.send(1)
    assert ask(two.importer, "take") == "NO_FRAME"
    for number in (2, 3, 4):
        two.send(number)
        assert two.take() == f"{number - 1} uint8 32x32x4"


def test_a_frame_that_the_gpu_has_not_made_is_waited_for(two):
    two.export("height=32 width=32 num_slots=2 policy.export_sync=false")
    assert two.connect("timeout_ms=400") == "ready"
    two.send(1)
    assert two.take() == "1 uint8 32x32x4"
    ask(two.exporter, "gate")
    two.exporter.write("send 2")
    assert two.exporter.read() == "PUBLISHED"
    if has_classes(two.pair[1]):
        assert ask(two.importer, "take") == "NO_FRAME"  # they say None to both
    else:
        assert two.take() == "TIMEOUT"
    assert ask(two.exporter, "pass") == "open"
    two.send(3)
    assert two.take() == "3 uint8 32x32x4"


def test_tensors(gpu, two):
    if gpu.fake or not importlib.util.find_spec("torch"):
        pytest.skip("PyTorch, and a GPU that it knows, are needed")
    two.export("height=64 width=48 num_slots=2")
    assert two.connect(role="tensors") == "ready"
    for number in range(1, 6):
        two.send(number)
        assert two.take() == f"{number} uint8 64x48x4"


def test_wrong_sizes_fail(peers, kind):
    exporter = peers.start(kind, "export")
    assert ask(exporter, "open height=16 width=16") == "open"
    assert ask(exporter, "wrong 16") == "FAILED"
    assert ask(exporter, "send 1") == "PUBLISHED"
    assert ask(exporter, "ready") == "True" and ask(exporter, "close") == "closed" and ask(exporter, "ready") == "False"
    assert ask(exporter, "wrong 16") == "FAILED"


def test_stats_have_the_same_keys(peers, kind):
    exporter, importer = peers.start(kind, "export"), peers.start(kind, "import")
    assert ask(exporter, "open height=16 width=8 channels=2 dtype=float16 num_slots=2") == "open"
    assert ask(importer, "open") == "ready" and ask(exporter, "send 1") == "PUBLISHED"
    assert ask(importer, "take NO_FRAME") == "1 float16 16x8x2"
    out, into = json.loads(ask(exporter, "stats")), json.loads(ask(importer, "stats"))
    old = has_classes("cuda-link")
    assert {"initialized", "shm_name", "resolution", "dtype", "num_slots", "data_size_kb", "buffer_size_mb", "frame_count", "write_idx",
            "avg_memcpy_us", "avg_total_us", "dev_ptrs", *(() if old else ("closed", "hws_mode"))} <= set(out)
    assert {"initialized", "shm_name", "shape", "dtype", "num_slots", "frame_count", "torch_available", "numpy_available",
            "dev_ptrs", "tensor_device", "wait_spin_hits", "wait_sleep_hits", "avg_spin_us", "avg_sleep_us",
            *(() if old else ("device", "wait_backend", "gpu_wait_active", "gpu_wait_latched_frame"))} <= set(into)
    assert out["resolution"] == "8x16x2" and out["dtype"] == into["dtype"] == "float16" and out["data_size_kb"] == 0.5
    assert out["write_idx"] == out["frame_count"] == into["frame_count"] == 1 and out["buffer_size_mb"] == 2
    assert into["shape"] == [16, 8, 2] and into["num_slots"] == 2 and len(into["dev_ptrs"]) == len(out["dev_ptrs"]) == 2
    assert all(each.startswith("0x") for each in out["dev_ptrs"] + into["dev_ptrs"])
