# SPDX-License-Identifier: MIT
"""sluice.cuda_link has the names of cuda-link, with its values and defaults."""
import ctypes
import dataclasses
import enum
import importlib
import inspect
import os
import pathlib
import pickle
import sys
import time
import types

import pytest

import sluice.cuda_link as cuda_link
from sluice.cuda_link import activation_barrier, shm_protocol

RELEASE_1_1 = {"CUDAIPCExporter", "CUDAIPCImporter", "CUDARuntimeAPI", "get_cuda_runtime", "CUPY_AVAILABLE", "NUMPY_AVAILABLE",
               "TORCH_AVAILABLE", "NVML_AVAILABLE", "NVMLObserver"}
RELEASE_1_12 = {
    "Exporter", "FrameSpec", "ExportPolicy", "GpuFrame", "FrameOutcome", "CudaPort", "Importer", "Format", "ImportSpec",
    "ImportPolicy", "ImportResult", "ImportOutcome", "ImporterCudaPort", "CTypesCUDAAdapter", "CUDAIPCImporter",
    "CUDARuntimeAPI", "get_cuda_runtime", "CUPY_AVAILABLE", "NUMPY_AVAILABLE", "TORCH_AVAILABLE", "NVML_AVAILABLE",
    "IPCConnection", "NVMLObserver", "AcquireResult", "DtypeCodec", "Metadata", "SHMLayout", "SlotState", "acquire_slot", "publish_frame"}
NOT_HERE = {"FakeCUDAAdapter"}  # what tests of cuda-link's own work with: docs/from-cuda-link.md
RUNTIME = "CUDAEvent_t CUDAStream_t CUDAGraph_t CUDAGraphExec_t CUDAGraphNode_t cudaIpcMemHandle_t CUDARuntimeAPI get_cuda_runtime"
WIRE = "PROTOCOL_MAGIC SHM_HEADER_SIZE SLOT_SIZE SHUTDOWN_FLAG_SIZE METADATA_SIZE TIMESTAMP_SIZE"
MODULES_1_1 = {  # what a program may import from them
    "cuda_ipc_exporter": f"CUDAIPCExporter FORMAT_KIND_SIGNED FORMAT_KIND_UNSIGNED FORMAT_KIND_FLOAT FLAGS_BFLOAT16 {WIRE} "
                         "CUDART_GRAPHS_MIN_VERSION CUDAGraph_t CUDAGraphExec_t CUDAGraphNode_t CUDARuntimeAPI CUDAStream_t "
                         "cudaIpcMemHandle_t get_cuda_runtime",
    "cuda_ipc_importer": f"CUDAIPCImporter TORCH_AVAILABLE NUMPY_AVAILABLE CUPY_AVAILABLE MAGIC_OFFSET MAGIC_SIZE VERSION_OFFSET "
                         f"VERSION_SIZE NUM_SLOTS_OFFSET NUM_SLOTS_SIZE WRITE_IDX_OFFSET WRITE_IDX_SIZE {WIRE} CUDARuntimeAPI "
                         "cudaIpcEventHandle_t cudaIpcMemHandle_t get_cuda_runtime",
    "cuda_ipc_wrapper": f"{RUNTIME} cudaPos cudaPitchedPtr cudaExtent cudaMemcpy3DParms cudaIpcEventHandle_t cudaPointerAttributes "
                        "CUDAError CUDART_GRAPHS_MIN_VERSION",
    "activation_barrier": "SHM_NAME SHM_SIZE MAGIC VERSION open_or_create read_state increment decrement bump_skip",
    "nvml_observer": "NVML_AVAILABLE NVMLObserver",
    "debug_utils": "TORCH_AVAILABLE ProfileSection benchmark_with_events",
}
RUNTIME_CALLS = {  # of CUDARuntimeAPI: what they take, and how many of it must be given
    "check_error": "result operation", "check_sticky_error": "context", "host_register": "ptr size flags=", "host_unregister": "ptr",
    "malloc": "size", "free": "dev_ptr", "malloc_host": "size", "free_host": "ptr", "memcpy": "dst src count kind",
    "ipc_get_mem_handle": "dev_ptr", "ipc_open_mem_handle": "handle flags=", "ipc_close_mem_handle": "dev_ptr", "synchronize": "",
    "create_ipc_event": "", "record_event": "event stream=", "query_event": "event", "wait_event": "event",
    "ipc_get_event_handle": "event", "ipc_open_event_handle": "handle", "destroy_event": "event", "create_timing_event": "",
    "create_sync_event": "", "event_elapsed_time": "start end", "get_device": "", "create_stream": "flags=",
    "create_stream_with_priority": "flags= priority=", "destroy_stream": "stream", "stream_wait_event": "stream event flags=",
    "stream_synchronize": "stream", "memcpy_async": "dst src count kind stream", "mem_get_info": "", "stream_query": "stream",
    "pointer_get_attributes": "ptr", "device_can_access_peer": "device peer_device", "malloc_host_alloc": "size flags=",
    "get_device_attribute": "attr device=", "stream_begin_capture": "stream mode=", "stream_end_capture": "stream",
    "graph_instantiate": "graph flags=", "graph_launch": "graph_exec stream", "graph_get_nodes": "graph", "graph_destroy": "graph",
    "graph_exec_destroy": "graph_exec", "make_memcpy3d_params": "dst src count kind",
    "graph_exec_memcpy_node_set_params": "graph_exec node dst src count kind",
    "graph_exec_memcpy_node_set_params_1d": "graph_exec node dst src count kind",
    "graph_exec_event_record_node_set_event": "graph_exec node event", "graph_exec_event_wait_node_set_event": "graph_exec node event",
    "get_runtime_version": "", "set_device": "device", "restore_context": "token", "record_event_external": "event stream",
    "peek_last_error": "",
}
DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "from-cuda-link.md"

VARIABLES = {  # variable: policy, field, its text, the value
    "CUDALINK_EXPORT_SYNC": ("export", "export_sync", "1", True),
    "CUDALINK_USE_GRAPHS": ("export", "use_graphs", "0", False),
    "CUDALINK_EXPORT_FLUSH_PROBE": ("export", "flush_probe", "0", False),
    "CUDALINK_STRICT_DEVICE": ("export", "strict_device", "1", True),
    "CUDALINK_REQUIRE_SOURCE_SYNC": ("export", "require_source_sync", "1", True),
    "CUDALINK_ACTIVATION_BARRIER": ("export", "barrier_enabled", "0", False),
    "CUDALINK_BARRIER_STALE_NS": ("export", "barrier_stale_ns", "7", 7),
    "CUDALINK_LIB_STREAM_PRIO": ("export", "high_priority_stream", "normal", False),
    "CUDALINK_EXPORT_PROFILE": ("export", "export_profile", "1", True),
    "CUDALINK_WAIT_SPIN_US": ("import", "wait_spin_us", "9", 9),
    "CUDALINK_D2H_STREAMS": ("import", "d2h_num_streams", "3", 3),
    "CUDALINK_D2H_STREAM_PRIO": ("import", "d2h_stream_high_priority", "high", True),
    "CUDALINK_ALLOW_PAGEABLE_FALLBACK": ("import", "allow_pageable_fallback", "1", True),
    "CUDALINK_D2H_PIPELINED": ("import", "d2h_pipelined", "1", True),
    "CUDALINK_TORCH_GPU_WAIT": ("import", "torch_gpu_wait", "1", True),
    "CUDALINK_TORCH_GPU_WAIT_ADAPTIVE": ("import", "torch_gpu_wait_adaptive", "1", True),
    "CUDALINK_GPU_WAIT_ADAPTIVE_WINDOW": ("import", "gpu_wait_adaptive_window", "8", 8),
    "CUDALINK_GPU_WAIT_ADAPTIVE_SLEEP_PCT": ("import", "gpu_wait_adaptive_sleep_pct", "50", 50),
    "CUDALINK_IMPORT_RECONNECT": ("import", "reconnect_enabled", "0", False),
    "CUDALINK_IMPORT_RECONNECT_MAX_ATTEMPTS": ("import", "reconnect_max_attempts", "4", 4),
    "CUDALINK_WAIT_BACKEND": ("import", "wait_backend", "python", "python"),
}
POLICIES = {"export": cuda_link.ExportPolicy, "import": cuda_link.ImportPolicy}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in [name for name in os.environ if name.startswith("CUDALINK_")]:
        monkeypatch.delenv(name)


def fields(kind):
    return [(each.name, each.default) for each in dataclasses.fields(kind)]


MISSING = dataclasses.MISSING


def test_all_names_are_there():
    assert RELEASE_1_1 | RELEASE_1_12 <= set(cuda_link.__all__)
    assert all(hasattr(cuda_link, name) for name in cuda_link.__all__)
    assert not NOT_HERE & set(cuda_link.__all__)
    for name in cuda_link.__all__:
        thing = getattr(cuda_link, name)
        assert not inspect.isclass(thing) or thing.__doc__, name


@pytest.mark.parametrize("module", MODULES_1_1)
def test_all_names_of_the_modules_of_1_1_are_there(module):
    there = importlib.import_module(f"sluice.cuda_link.{module}")
    assert not [name for name in MODULES_1_1[module].split() if not hasattr(there, name)]


def test_the_calls_of_the_runtime_have_cuda_links_arguments():
    for name, wanted in RUNTIME_CALLS.items():
        found = inspect.signature(getattr(cuda_link.CUDARuntimeAPI, name)).parameters.values()
        words = [each.name + ("" if each.default is each.empty else "=") for each in found if each.name != "self"]
        assert " ".join(words) == wanted, name


def test_what_is_not_here_says_what_to_do(run):
    for line in ("from sluice.cuda_link import FakeCUDAAdapter", "import sluice.cuda_link; sluice.cuda_link.FakeCUDAAdapter",
                 "from sluice.cuda_link import install; install(); from cuda_link._cuda_adapters import FakeCUDAAdapter"):
        done = run(line, check=False)
        assert "ImportError: sluice.cuda_link has no FakeCUDAAdapter: Sluice asks the driver itself" in done.stderr, done.stderr
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        cuda_link.nothing  # noqa: B018


def test_a_connection_is_data():
    info = {"slots": 3, "version": 7, "addresses": (4096, 8192, 12288)}
    connection = cuda_link.IPCConnection.of(info, None)
    assert connection.num_slots == 3 and connection.ipc_version == 7 and [each.value for each in connection.dev_ptrs] == [4096, 8192, 12288]
    assert connection.shutdown_offset == 404 and connection.timestamp_offset == 425 and connection.layout.total_size == 433
    connection.close()
    assert connection.dev_ptrs == [None] * 3
    assert [each.name for each in dataclasses.fields(connection)] == [
        "cuda", "shm_handle", "ipc_version", "num_slots", "ipc_handles", "dev_ptrs", "ipc_events", "layout", "shutdown_offset",
        "timestamp_offset", "doorbell_handle"]


def test_specs_and_policies_are_cuda_links():
    assert fields(cuda_link.FrameSpec) == [
        ("shm_name", MISSING), ("height", MISSING), ("width", MISSING), ("channels", 4), ("dtype", "uint8"), ("num_slots", 3),
        ("device", 0), ("extra_flags", 0)]
    assert fields(cuda_link.GpuFrame) == [("ptr", MISSING), ("size", MISSING), ("producer_stream", None)]
    assert fields(cuda_link.ImportSpec) == [("shm_name", MISSING), ("device", 0), ("shape", None), ("dtype", None),
                                            ("timeout_ms", 5000.0)]
    assert fields(cuda_link.ImportResult) == [("outcome", MISSING), ("frame", None)]
    assert fields(cuda_link.ExportPolicy) == [
        ("export_sync", False), ("use_graphs", True), ("flush_probe", True), ("strict_device", False),
        ("require_source_sync", False), ("barrier_enabled", True), ("barrier_stale_ns", 5_000_000_000),
        ("high_priority_stream", True), ("export_profile", False), ("doorbell", False)]
    assert fields(cuda_link.ImportPolicy) == [
        ("wait_spin_us", 200), ("d2h_num_streams", 1), ("d2h_stream_high_priority", False), ("allow_pageable_fallback", False),
        ("d2h_pipelined", False), ("torch_gpu_wait", False), ("torch_gpu_wait_adaptive", False),
        ("gpu_wait_adaptive_window", 120), ("gpu_wait_adaptive_sleep_pct", 5), ("debug", False), ("reconnect_enabled", True),
        ("reconnect_max_attempts", 20), ("reconnect_backoff_frames", (1, 2, 4, 8, 16, 32, 64, 120)), ("doorbell", False),
        ("wait_backend", "auto")]
    for each in (cuda_link.FrameSpec("x", 1, 1), cuda_link.ExportPolicy(), cuda_link.GpuFrame(1, 2), cuda_link.ImportSpec("x"),
                 cuda_link.ImportPolicy(), cuda_link.ImportResult(cuda_link.ImportOutcome.NO_FRAME)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(each, dataclasses.fields(each)[0].name, None)
        assert pickle.loads(pickle.dumps(each)) == each and hash(each)


def test_a_frame_to_export_is_a_frozen_record():
    frame = cuda_link.GpuFrame(7, 8)
    assert (frame.ptr, frame.size, frame.producer_stream) == (7, 8, None)
    assert frame == cuda_link.GpuFrame(size=8, ptr=7) and hash(frame) == hash(cuda_link.GpuFrame(7, 8, producer_stream=None))
    assert frame != cuda_link.GpuFrame(7, 8, 0) and frame != (7, 8, None)
    assert repr(frame) == "GpuFrame(ptr=7, size=8, producer_stream=None)"
    assert dataclasses.asdict(frame) == {"ptr": 7, "size": 8, "producer_stream": None}
    assert dataclasses.replace(frame, producer_stream=9) == cuda_link.GpuFrame(7, 8, 9)
    assert pickle.loads(pickle.dumps(frame)) == frame
    assert [(field.name, field.default) for field in dataclasses.fields(frame)][1:] == [("size", dataclasses.MISSING), ("producer_stream", None)]
    assert str(inspect.signature(cuda_link.GpuFrame)) == "(ptr, size, producer_stream=None)"
    for name in ("ptr", "size", "producer_stream"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(frame, name, 1)
    for arguments in ((), (1,), (1, 2, 3, 4)):
        with pytest.raises(TypeError):
            cuda_link.GpuFrame(*arguments)
    with pytest.raises(TypeError):
        cuda_link.GpuFrame(1, 2, stream=3)

    @dataclasses.dataclass(frozen=True)
    class Named(cuda_link.GpuFrame):
        name: str = ""

    assert Named(1, 2, 3, "left").ptr == 1 and Named(1, 2, name="right").name == "right"


def test_calls_for_frames_take_what_methods_take(gpu, caplog):
    """They are written in C; what is unusual, and what is wrong, methods in Python see to."""
    source = cuda_link.get_cuda_runtime().malloc(1024)
    frame = cuda_link.GpuFrame(source.value, 1024, 0)
    importer = cuda_link.Importer.open(cuda_link.ImportSpec("sluice:calls", timeout_ms=60_000))
    with cuda_link.Exporter.open(cuda_link.FrameSpec("sluice:calls", 16, 16)) as exporter:
        for call in (exporter.export, importer.get_frame, importer.get_frame_cupy):
            for arguments, keywords in (((1, 2), {}), ((), {"none": 1}), ((1,), {"frame": 1, "stream": 1})):
                with pytest.raises(TypeError):
                    call(*arguments, **keywords)
        with pytest.raises(TypeError, match="frame"):
            exporter.export()
        with pytest.raises(TypeError):
            importer.get_frame_numpy(1)
        assert exporter.frame_count == 0
        assert exporter.export(frame) is exporter.export(frame=frame) is cuda_link.FrameOutcome.PUBLISHED
        other = types.SimpleNamespace(ptr=source, size=1024, producer_stream=0)  # which is no GpuFrame, and its address no int
        assert exporter.export(other) is cuda_link.FrameOutcome.PUBLISHED
        assert exporter.export(cuda_link.GpuFrame(source, 1024, 0)) is cuda_link.FrameOutcome.PUBLISHED
        assert exporter.export(cuda_link.GpuFrame(source.value, 1024)) is cuda_link.FrameOutcome.PUBLISHED
        assert exporter.export(cuda_link.GpuFrame(source.value, 1024)) is cuda_link.FrameOutcome.PUBLISHED
        assert [each.message for each in caplog.records if "no stream" in each.message][1:] == []  # it is said once
        assert exporter.export(cuda_link.GpuFrame(source.value, -1, 0)) is cuda_link.FrameOutcome.FAILED
        assert exporter.frame_count == 6 and exporter.get_stats()["failed"] == 1
        while importer.frame_count == 0:
            result = importer.get_frame_numpy()
        assert result.outcome is cuda_link.ImportOutcome.NEW_FRAME and result.frame.shape == (16, 16, 4)
    assert exporter.export(frame) is cuda_link.FrameOutcome.FAILED and exporter.frame_count == 6
    importer.close()
    assert importer.get_frame().outcome is importer.get_frame_numpy().outcome is cuda_link.ImportOutcome.RECONNECTING


def test_outcomes_are_cuda_links():
    def values(kind):
        assert issubclass(kind, enum.Enum)
        return [(each.name, each.value) for each in kind]

    assert values(cuda_link.FrameOutcome) == [("PUBLISHED", 1), ("SKIPPED_BARRIER", 2), ("SKIPPED_NOT_READY", 3), ("FAILED", 4)]
    assert values(cuda_link.ImportOutcome) == [("NEW_FRAME", 1), ("NO_FRAME", 2), ("SHUTDOWN", 3), ("RECONNECTING", 4),
                                               ("TIMEOUT", 5)]


def test_presets():
    export, imports = cuda_link.ExportPolicy, cuda_link.ImportPolicy
    assert export.from_env() == export() and imports.from_env() == imports()
    assert export.low_latency() == export(flush_probe=False)
    assert export.for_testing() == export(use_graphs=False, flush_probe=False, barrier_enabled=False, barrier_stale_ns=0,
                                          high_priority_stream=False)
    assert imports.low_latency() == imports(wait_spin_us=2000, d2h_num_streams=2, d2h_stream_high_priority=True)
    assert imports.for_testing() == imports(wait_spin_us=0, allow_pageable_fallback=True, reconnect_enabled=False,
                                            wait_backend="python")


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_variable_sets_its_field(variable, monkeypatch):
    kind, field, text, value = VARIABLES[variable]
    monkeypatch.setenv(variable, text)
    assert POLICIES[kind].from_env() == dataclasses.replace(POLICIES[kind](), **{field: value})
    usual = getattr(POLICIES[kind](), field)
    if isinstance(usual, bool) and variable != "CUDALINK_LIB_STREAM_PRIO" and variable != "CUDALINK_D2H_STREAM_PRIO":
        for other in ("true", "yes", "2", "", " 1"):  # "1" alone is true
            monkeypatch.setenv(variable, other)
            assert getattr(POLICIES[kind].from_env(), field) is False
    elif isinstance(usual, int):
        monkeypatch.setenv(variable, "many")
        assert POLICIES[kind].from_env() == POLICIES[kind]()


def test_the_doorbell_is_both_ends(monkeypatch):
    monkeypatch.setenv("CUDALINK_DOORBELL", "1")
    assert cuda_link.ExportPolicy.from_env().doorbell and cuda_link.ImportPolicy.from_env().doorbell
    monkeypatch.setenv("CUDALINK_D2H_STREAMS", "0")
    assert cuda_link.ImportPolicy.from_env().d2h_num_streams == 1


def test_errors_are_of_pythons_kinds():
    from sluice.cuda_link import cuda_runtime_types as types
    assert issubclass(types.CudaLinkError, RuntimeError) and types.CudaLinkError("x").code is None
    assert issubclass(cuda_link.CudaIpcError, cuda_link.CudaLinkError) and cuda_link.CudaIpcError("x", code=2).code == 2
    assert issubclass(cuda_link.ProtocolError, (ValueError,)) and issubclass(cuda_link.ProtocolError, types.CudaLinkError)
    assert issubclass(cuda_link.ProducerTimeoutError, (TimeoutError,))
    assert types.CUDAError.get_name(2) == "MEMORY_ALLOCATION" and types.CUDAError.get_name(77) == "UNKNOWN_ERROR_77"
    assert ctypes.sizeof(types.cudaIpcMemHandle_t) == ctypes.sizeof(types.cudaIpcEventHandle_t) == 64
    assert ctypes.sizeof(types.cudaPointerAttributes) == 24


def test_the_methods_have_cuda_links_arguments():
    def arguments(method):
        return [(name, each.default) for name, each in inspect.signature(method).parameters.items() if name != "self"]

    empty = inspect.Parameter.empty
    assert arguments(cuda_link.Exporter.open)[:3] == [("spec", empty), ("policy", None), ("cuda", None)]
    assert arguments(cuda_link.Importer.open) == [("spec", empty), ("policy", None), ("cuda", None)]
    for kind in (cuda_link.Importer, cuda_link.CUDAIPCImporter):
        assert arguments(kind.get_frame) == arguments(kind.get_frame_cupy) == [("stream", None)]
        assert arguments(kind.get_frame_numpy) == []
    assert arguments(cuda_link.CUDAIPCExporter.__init__) == [
        ("shm_name", empty), ("height", empty), ("width", empty), ("channels", 4), ("dtype", "uint8"), ("num_slots", 2),
        ("debug", False), ("device", 0)]
    assert arguments(cuda_link.CUDAIPCImporter.__init__) == [
        ("shm_name", "cudalink_ipc_TD>>Python"), ("shape", None), ("dtype", None), ("debug", False), ("timeout_ms", 5000.0),
        ("device", 0)]
    assert arguments(cuda_link.CUDAIPCExporter.export_frame) == [("gpu_ptr", empty), ("size", empty)]
    assert arguments(cuda_link.Importer.wait_for_doorbell) == [("timeout_ms", empty)]
    more = {cuda_link.Exporter: "record_source_sync export close is_ready attach_nvml_observer get_stats stats",
            cuda_link.CUDAIPCExporter: "initialize record_source_sync export_frame cleanup is_ready get_stats",
            cuda_link.CUDAIPCImporter: "cleanup is_ready get_stats attach_nvml_observer connect from_connected",
            cuda_link.Importer: "request_immediate_reconnect wait_backend_name is_ready attach_nvml_observer stats"}
    for kind, names in more.items():
        assert all(hasattr(kind, name) for name in names.split()), kind


def test_what_cannot_be_is_said_before_anything_is_made():
    for bad in ({"dtype": "float64"}, {"num_slots": 0}, {"num_slots": 11}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            cuda_link.Exporter.open(cuda_link.FrameSpec("x", 2, 2, **bad))
        with pytest.raises(ValueError, match=next(iter(bad))):
            cuda_link.CUDAIPCExporter("x", 2, 2, **bad)


# ---- the bytes ----

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
    found = cuda_link.Format.from_shm(buffer, 3)
    assert found.shape == (480, 640, 4) and found.dtype_str == "uint8" and found.frame_nbytes == 1228800
    assert not found.layout_differs_from(cuda_link.Format.from_overrides((480, 640, 4), "uint8"))
    assert found.layout_differs_from(cuda_link.Format.from_overrides((480, 640, 4), "float32"))
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


# ---- programs that say `import cuda_link` ----

SAYS = """
import sys
import cuda_link
from cuda_link import Importer, ImportSpec
from cuda_link.exporter import Exporter
from cuda_link.cuda_ipc_importer import CUDAIPCImporter
from cuda_link.cuda_runtime_types import CudaIpcError
from cuda_link import shm_protocol, activation_barrier
import cuda_link.nvml_observer
import sluice.cuda_link
assert cuda_link is sluice.cuda_link and Exporter is sluice.cuda_link.Exporter is cuda_link.Exporter
assert CUDAIPCImporter is cuda_link.CUDAIPCImporter and CudaIpcError is cuda_link.CudaIpcError
assert cuda_link.nvml_observer.NVMLObserver is cuda_link.NVMLObserver
"""
SPAWNS = SAYS + """
import multiprocessing, os, subprocess

def child(queue):
    import cuda_link
    queue.put(cuda_link.__name__)

if __name__ == "__main__":
    assert sys.argv[1:] == ["one", "--two"], sys.argv
    assert os.path.basename(__file__) == "program.py" and __import__("beside").VALUE == 5
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        print(queue.get(timeout=200))
        process.join()
    sys.stdout.flush()
    subprocess.run([sys.executable, "-c", "import cuda_link; print(cuda_link.__name__)"], check=True)
"""


def test_install(run):
    assert run("import sluice.cuda_link; sluice.cuda_link.install(); sluice.cuda_link.install()\n" + SAYS) == ""


@pytest.mark.parametrize("statement", [
    "import cuda_link._env as found", "import cuda_link.importer as found",
    "import streams._compat.cuda_ipc as found", "import streams._compat.cuda_ipc; found = streams._compat.cuda_ipc",
    "from streams._compat import cuda_ipc as found", "import streams._compat.cuda_ipc.importer as found",
    "import streams._compat.cuda_ipc._cuda_adapters as found",
])
def test_each_way_to_import_it(tmp_path, run, statement):
    """Also where nobody has imported the package that the copy is in."""
    copy = tmp_path / "streams" / "_compat" / "cuda_ipc"
    copy.mkdir(parents=True)
    (copy / "__init__.py").write_text("raise ImportError('this is the copy')\n")
    out = run(f"import sys, sluice.cuda_link as link; sys.path.insert(0, {str(tmp_path)!r}); spec = link.__spec__\n"
              f"link.install(); link.install('streams._compat.cuda_ipc'); link.install('streams._compat.cuda_ipc')\n{statement}\n"
              "assert link.__spec__ is spec and found.__spec__.name == found.__name__\nprint(found.__name__)")
    assert out.startswith("sluice.cuda_link")


def test_install_does_not_take_the_place_of_another(run):
    done = run("import sys, types; other = types.ModuleType('cuda_link'); other.__path__ = ['elsewhere'];"
               "other.__file__ = 'elsewhere/__init__.py'; sys.modules['cuda_link'] = other;"
               "import sluice.cuda_link; sluice.cuda_link.install()", check=False)
    assert "elsewhere" in done.stderr and "RuntimeError" in done.stderr


def test_an_unedited_program_runs(tmp_path, run):
    """Its own processes, too, however they are started."""
    (tmp_path / "program.py").write_text(SPAWNS)
    (tmp_path / "beside.py").write_text("VALUE = 5\n")
    code = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'sluice.cuda_link', *{!r}], check=True)"
    assert run(code.format([str(tmp_path / "program.py"), "one", "--two"])) == "sluice.cuda_link\n" * 3


def test_an_unedited_module_runs(tmp_path, run):
    (tmp_path / "module_of_theirs.py").write_text(SAYS + "print(__name__, sys.argv[1:])\n")
    command = [sys.executable, "-m", "sluice.cuda_link", "-m", "module_of_theirs", "a"]
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))  # which may have the package itself
    out = run(f"import subprocess; subprocess.run({command!r}, check=True)", env={"PYTHONPATH": path})
    assert out == "__main__ ['a']\n"


def test_a_copy_of_cuda_link_in_another_package(tmp_path, run):
    """As StreamDiffusion has one."""
    copy = tmp_path / "streams" / "_compat" / "cuda_ipc"
    copy.mkdir(parents=True)
    for folder in (copy, copy.parent, copy.parent.parent):
        (folder / "__init__.py").write_text("raise ImportError('no CUDA runtime')\n" if folder == copy else "")
    (tmp_path / "program.py").write_text("""
from streams._compat.cuda_ipc import CUDAIPCImporter
from streams._compat.cuda_ipc.cuda_ipc_exporter import CUDAIPCExporter
import sluice.cuda_link
assert CUDAIPCImporter is sluice.cuda_link.CUDAIPCImporter and CUDAIPCExporter is sluice.cuda_link.CUDAIPCExporter
print("ours")
""")
    command = [sys.executable, "-m", "sluice.cuda_link", "--as", "streams._compat.cuda_ipc", str(tmp_path / "program.py")]
    assert run(f"import subprocess; subprocess.run({command!r}, check=True)") == "ours\n"


def test_examples_of_theirs_find_what_they_take_from_the_console(tmp_path, run):
    """They begin with that, and look for another cuda_link where it is missing."""
    (tmp_path / "program.py").write_text("""
from cuda_link._console import install_console_ctrl_handler, run_with_watchdog
import threading
done = []
state = install_console_ctrl_handler("[receiver]", lambda: done.append(1), defer_close=True)
print(state.stop_requested, state.shutdown_via)
run_with_watchdog(lambda: done.append(2), 60, "importer.close()", "[receiver]")
run_with_watchdog(threading.Event().wait, 0.01, "exporter.close()", "[sender]")
print(done)
""")
    command = [sys.executable, "-m", "sluice.cuda_link", str(tmp_path / "program.py")]
    assert run(f"import subprocess; subprocess.run({command!r}, check=True)").splitlines() == [
        "False None", "[sender] exporter.close() takes longer than 0.01 s: it is left alone", "[2]"]


def test_it_says_how_it_is_called(run):
    for arguments, status in ((["--help"], 0), ([], 2)):
        done = run(f"import sys, runpy; sys.argv = ['x', *{arguments}];"
                   "runpy.run_module('sluice.cuda_link', run_name='__main__')", check=False)
        assert done.returncode == status and "python -m sluice.cuda_link" in done.stdout + done.stderr


def test_importing_it_imports_no_framework(run):
    assert run("import sys, sluice.cuda_link; print([m for m in ('torch', 'cupy', 'numpy') if m in sys.modules])") == "[]\n"


def test_modules_that_programs_import_are_there():
    for name in ("exporter", "importer", "cuda_ipc_exporter", "cuda_ipc_importer", "cuda_ipc_wrapper", "cuda_graphs", "debug_utils",
                 "nvml_observer", "shm_protocol", "activation_barrier", "cuda_runtime_types"):
        assert importlib.import_module(f"sluice.cuda_link.{name}").__doc__


def test_without_nvml_there_are_no_figures(monkeypatch):
    observer = cuda_link.NVMLObserver()
    assert not observer.enabled and not observer.start() and observer.snapshot() == {"nvml_available": False}
    monkeypatch.setenv("CUDALINK_NVML", "1")
    with cuda_link.NVMLObserver() as observer:
        assert observer.enabled and observer.snapshot()["nvml_available"] in (cuda_link.NVML_AVAILABLE, False)


def test_the_document_has_every_name_and_setting():
    text = DOCUMENT.read_text()
    for name in (RELEASE_1_1 | RELEASE_1_12 | NOT_HERE | set(VARIABLES) | {"install", "CUDALINK_DOORBELL", "CUDALINK_NVML"}):
        assert f"`{name}" in text or f"{name}`" in text or f" {name}," in text, name


THEIRS = """
import dataclasses, sys
sys.path.insert(0, {folder!r})
import cuda_link as theirs
import sluice.cuda_link as ours
def fields(kind): return [(each.name, each.default) for each in dataclasses.fields(kind)]
assert theirs.__file__.startswith({folder!r}) and set(theirs.__all__) - {not_here!r} <= set(ours.__all__)
for name in ("FrameSpec", "GpuFrame", "ExportPolicy", "ImportSpec", "ImportPolicy", "ImportResult"):
    if hasattr(theirs, name):
        assert fields(getattr(theirs, name)) == fields(getattr(ours, name)), name
for name in ("FrameOutcome", "ImportOutcome"):
    if hasattr(theirs, name):
        values = [[(each.name, each.value) for each in getattr(link, name)] for link in (theirs, ours)]
        assert values[0] == values[1], name
print("alike")
"""


def test_theirs_is_as_it_was_when_this_was_written(run):
    """With cuda-link's own package: SLUICE_CUDA_LINK names its folder."""
    folder = os.environ.get("SLUICE_CUDA_LINK")
    if not folder:
        pytest.skip("SLUICE_CUDA_LINK names no folder of cuda-link's package")
    done = run(THEIRS.format(folder=folder, not_here=NOT_HERE), check=False)
    assert "alike" in done.stdout, done.stderr


def test_native_names():
    from sluice.cuda_link.importer import channel_of
    assert channel_of("cam") == channel_of("cipd:cam") == ("cipd:cam", False)
    assert channel_of("/cam") == channel_of("//cam") == channel_of("cipd:/cam") == ("cipd:cam", False)
    assert channel_of("sluice:cam") == ("sluice:cam", True)
