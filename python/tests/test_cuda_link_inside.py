# SPDX-License-Identifier: MIT
"""Attributes of cuda-link's exporters and importers that programs use besides the calls."""
import pytest

import sluice.cuda_link as cuda_link
from cuda_link_kit import SHAPE, a_link, is_frame
from sluice.cuda_link import shm_protocol

NOT_HERE = {  # and a word of what is said
    "Exporter": {"ipc_events": "export_sync", "source_sync_event": "record_source_sync"},
    "CUDAIPCExporter": {"ipc_events": "CUDALINK_EXPORT_SYNC", "source_sync_event": "record_source_sync",
                        **dict.fromkeys(("total_memcpy_us", "total_stream_wait_us", "total_record_event_us", "total_shm_write_us",
                                         "total_sync_us", "total_sticky_check_us", "total_flush_probe_us"), "SLUICE_TIMERS")},
    "Importer": {"total_shm_read_us": "SLUICE_TIMERS", "from_connection": "Importer.open"},
    "CUDAIPCImporter": {"total_shm_read_us": "SLUICE_TIMERS", "ipc_events": "get_frame"},
    "CUDARuntimeAPI": {"cudart": "driver"},
}
TIMES = ("total_wait_event_time", "total_wait_spin_us", "total_wait_sleep_us", "total_get_frame_time")


@pytest.fixture
def link(gpu):
    with a_link() as link:
        yield link


def handles_in(segment, slots):
    """Of memory and of events, as they lie there."""
    layout, data = shm_protocol.SHMLayout(slots), bytes.fromhex(segment["bytes"])
    return [[data[offset(slot):offset(slot) + 64].hex() for slot in range(slots)]
            for offset in (layout.mem_handle_offset, layout.event_handle_offset)]


@pytest.mark.parametrize("kind", NOT_HERE)
def test_what_means_nothing_says_why(kind):
    for name, word in NOT_HERE[kind].items():
        owner = getattr(cuda_link, kind)
        with pytest.raises(AttributeError, match=f"{kind} has no {name}: .*{word}"):
            getattr(owner, name)
        assert not hasattr(owner, name)
    with pytest.raises(AttributeError, match="source_sync_event: record"):
        cuda_link.CUDAIPCExporter("nobody", 4, 6).source_sync_event  # noqa: B018


@pytest.mark.parametrize("kind", ["export", "export11"])
def test_an_exporter_has_its_segment_and_handles(link, kind):
    exporter = link.exporter(kind=kind)
    exporter.export(5)
    told = exporter.inside("shm_handle", "ipc_handles", "ipc_event_handles", "dev_ptrs", "ipc_stream")
    segment = told["shm_handle"]
    data = bytes.fromhex(segment["bytes"])
    assert segment["name"] == link.name and segment["size"] == len(data) == 4096
    assert shm_protocol.read_magic(data) == shm_protocol.PROTOCOL_MAGIC and shm_protocol.read_write_idx(data) == 1
    assert [told["ipc_handles"], told["ipc_event_handles"]] == handles_in(segment, 3)
    assert len(set(told["ipc_handles"])) == len(set(told["dev_ptrs"])) == 3 and all(told["dev_ptrs"]) and told["ipc_stream"] is None
    exporter.close()
    empty = [None] * 3 if kind == "export11" else []
    assert exporter.inside("shm_handle", "ipc_handles", "ipc_event_handles", "dev_ptrs") == {
        "shm_handle": None, "ipc_handles": empty, "ipc_event_handles": empty, "dev_ptrs": empty}


def test_the_exporter_of_1_1_before_it_is_open():
    exporter = cuda_link.CUDAIPCExporter("nobody", 4, 6, num_slots=2)
    assert exporter.dev_ptrs == exporter.ipc_handles == exporter.ipc_event_handles == [None] * 2
    assert exporter.cuda is exporter.shm_handle is exporter.ipc_stream is None and exporter.total_export_us == 0.0


def test_the_importer_of_1_1_has_what_it_opened(link):
    importer = link.importer(kind="import11")
    nothing = importer.inside("cuda", "shm_handle", "ipc_version", "ipc_handles", "dev_ptrs", "tensors", "cupy_arrays")
    assert nothing == {"cuda": None, "shm_handle": None, "ipc_version": 0, "ipc_handles": [], "dev_ptrs": [], "tensors": [],
                       "cupy_arrays": []}
    exporter = link.exporter()
    exporter.export(7)
    assert exporter.settled() == "settled"
    importer = link.importer(kind="import11")
    told = importer.inside("cuda", "shm_handle", "ipc_version", "ipc_handles", "dev_ptrs", "tensors", "cupy_arrays")
    written = exporter.inside("shm_handle", "ipc_handles")
    assert told["cuda"] == {"device": 0} and told["ipc_version"] == exporter.stats()["version"] > 0
    assert told["shm_handle"] == written["shm_handle"] and told["ipc_handles"] == written["ipc_handles"]
    for name in ("tensors", "cupy_arrays"):
        assert [each["address"] for each in told[name]] == told["dev_ptrs"] and len(set(told["dev_ptrs"])) == 3
        assert all(each["shape"] == SHAPE and each["dtype"] == "uint8" for each in told[name])
        assert told[name][0]["value"] == 7 and told[name][0]["whole"]  # the first frame is in the first slot
    assert is_frame(importer.until("get"), 7)["address"] == told["dev_ptrs"][0]
    assert importer.inside("pinned_memory_available", *TIMES)["pinned_memory_available"] is False
    exporter.export(8)
    is_frame(importer.until("numpy"), 8)
    told = importer.inside("pinned_memory_available", "wait_spin_hits", "wait_sleep_hits", "frame_count", *TIMES)
    assert told["pinned_memory_available"] is True and told["frame_count"] == 2
    assert told["wait_spin_hits"] + told["wait_sleep_hits"] == 2 and told["total_get_frame_time"] == 0
    assert told["total_wait_event_time"] == told["total_wait_spin_us"] + told["total_wait_sleep_us"]
    importer.close()
    assert importer.inside("shm_handle", "tensors", "frame_count") == {"shm_handle": None, "tensors": [], "frame_count": 2}


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "uint16", "int8", "int16", "bfloat16"])
def test_the_slots_are_arrays_of_each_type(link, dtype):
    exporter = link.exporter(dtype=dtype)
    exporter.export(3)
    assert exporter.settled() == "settled"
    told = link.importer(kind="import11").inside("tensors", "cupy_arrays")
    assert told["tensors"][0]["dtype"] == dtype and told["tensors"][0]["value"] == 3
    assert told["cupy_arrays"][0] is None if dtype == "bfloat16" else told["cupy_arrays"][0]["dtype"] == dtype


def test_the_slots_of_the_next_session_are_others(link):
    exporter, importer = link.exporter(), link.importer(kind="import11")
    exporter.export(1)
    importer.until("get")
    before = importer.inside("tensors", "ipc_version", "shm_handle")
    exporter.kill()
    exporter = link.exporter(3, 5, 1)
    exporter.export(2)
    is_frame(importer.until("get"), 2, shape=[3, 5, 1])
    after = importer.inside("tensors", "ipc_version", "shm_handle")
    assert after["ipc_version"] != before["ipc_version"] and after["tensors"][0]["shape"] == [3, 5, 1]
    assert after["shm_handle"] == exporter.inside("shm_handle")["shm_handle"]


def test_importers_count_their_waits(link):
    exporter, importer = link.exporter(), link.importer("from_env+{\"debug\":true}")
    for value in (1, 2, 3):
        exporter.export(value)
        is_frame(importer.until("numpy"), value)
    told = importer.inside("wait_spin_hits", "wait_sleep_hits", *TIMES)
    assert told["wait_spin_hits"] + told["wait_sleep_hits"] == 3 and told["total_get_frame_time"] > 0


@pytest.mark.linux("channels of Sluice's own")
def test_a_native_channel_has_no_segment(link):
    name = "sluice:" + link.name
    exporter = link.exporter(name=name)
    importer = link.importer(kind="import11", name=name)
    for told in (exporter.inside("shm_handle", "ipc_handles"), importer.inside("shm_handle", "ipc_handles", "tensors")):
        assert all("is a native one, without cuda-link's segment" in each for each in told.values()), told


def test_an_adapter_is_of_a_runtime_or_a_device(gpu):
    runtime = cuda_link.get_cuda_runtime(0)
    for adapter in (cuda_link.CTypesCUDAAdapter(runtime), cuda_link.CTypesCUDAAdapter.for_device(0), cuda_link.CTypesCUDAAdapter()):
        assert adapter.get_device() == 0
        adapter.free(adapter.malloc(512))


@pytest.mark.parametrize(("flags", "channels", "dtype"), [(4, 4, "uint8"), (2, 2, "float32"), (0x100, 1, "uint8"), (0x104, 4, "uint8"),
                                                          (3, 2, "bfloat16")])
def test_flags_of_the_spec_stand_in_the_segment(link, gpu, flags, channels, dtype):
    spec = cuda_link.FrameSpec(link.name, 4, 6, channels, dtype, extra_flags=flags)
    with cuda_link.Exporter.open(spec) as exporter:
        found = shm_protocol.Metadata.read_from(exporter.shm_handle.buf, shm_protocol.SHMLayout(3))
    assert found.flags == flags and found.num_comps == channels


def test_times_that_never_end_and_barriers_that_never_count(link, gpu):
    barrier = cuda_link.ExportPolicy(barrier_stale_ns=0), cuda_link.ExportPolicy(barrier_stale_ns=-1)
    for policy in barrier:
        cuda_link.Exporter.open(cuda_link.FrameSpec(link.name, 4, 6), policy=policy).close()
    with cuda_link.Importer.open(cuda_link.ImportSpec(link.name, timeout_ms=float("inf"))) as importer:
        assert importer.get_frame_numpy().outcome is cuda_link.ImportOutcome.RECONNECTING


def test_a_barrier_that_is_stale_at_once_keeps_nothing_back(link):
    exporter = link.exporter(policy='from_env+{"barrier_stale_ns":0}')
    assert exporter.hold_barrier("up")["count"] == 1
    assert exporter.export(1) == "PUBLISHED"
