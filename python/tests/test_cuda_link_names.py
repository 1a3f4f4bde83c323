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
import types

import pytest

import sluice.cuda_link as cuda_link

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
    "cudart_event_query_fn_ptr": "",
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
    for line, kind in (("from sluice.cuda_link import FakeCUDAAdapter", "ImportError"),
                       ("from sluice.cuda_link import Format, FakeCUDAAdapter as other", "ImportError"),
                       ("from sluice.cuda_link import install; install(); from cuda_link import FakeCUDAAdapter", "ImportError"),
                       ("from sluice.cuda_link import install; install(); from cuda_link._cuda_adapters import FakeCUDAAdapter", "ImportError"),
                       ("import sluice.cuda_link; sluice.cuda_link.FakeCUDAAdapter", "AttributeError")):
        done = run(line, check=False)
        assert f"{kind}: sluice.cuda_link has no FakeCUDAAdapter: Sluice asks the driver itself" in done.stderr, done.stderr
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        cuda_link.nothing  # noqa: B018


def test_who_asks_for_what_is_not_here_is_told_that_it_is_not():
    for module in (cuda_link, importlib.import_module("sluice.cuda_link.cuda_ipc_wrapper")):
        assert not hasattr(module, "FakeCUDAAdapter") and getattr(module, "FakeCUDAAdapter", 7) == 7


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


@pytest.mark.linux("channels of Sluice's own")
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


@pytest.mark.parametrize("variable, text", [
    ("CUDALINK_BARRIER_STALE_NS", "-1"), ("CUDALINK_BARRIER_STALE_NS", str(1 << 63)), ("CUDALINK_BARRIER_STALE_NS", "9" * 5000),
    ("CUDALINK_WAIT_SPIN_US", "-1"), ("CUDALINK_WAIT_SPIN_US", "99999999999999999999"),
    ("CUDALINK_WAIT_SPIN_US", str(((1 << 63) - 1) // 1000 + 1)),
    ("CUDALINK_GPU_WAIT_ADAPTIVE_SLEEP_PCT", "200"), ("CUDALINK_GPU_WAIT_ADAPTIVE_SLEEP_PCT", "-101"),
    ("CUDALINK_GPU_WAIT_ADAPTIVE_WINDOW", str(1 << 32)), ("CUDALINK_GPU_WAIT_ADAPTIVE_WINDOW", "1.5")])
def test_a_variable_out_of_range_means_the_default(variable, text, monkeypatch):
    kind = POLICIES[VARIABLES[variable][0]]
    monkeypatch.setenv(variable, text)
    assert kind.from_env() == kind()


def test_a_variable_at_the_end_of_its_range_counts(monkeypatch):
    from sluice.cuda_link import _check
    for variable, value in (("CUDALINK_WAIT_SPIN_US", ((1 << 63) - 1) // 1000), ("CUDALINK_WAIT_SPIN_US", 0),
                            ("CUDALINK_GPU_WAIT_ADAPTIVE_SLEEP_PCT", -100), ("CUDALINK_GPU_WAIT_ADAPTIVE_WINDOW", (1 << 32) - 1)):
        monkeypatch.setenv(variable, str(value))
        policy = cuda_link.ImportPolicy.from_env()
        assert getattr(policy, VARIABLES[variable][1]) == value
        _check.import_policy(policy)  # what is taken from there is never refused
    for value in (0, (1 << 63) - 1):
        monkeypatch.setenv("CUDALINK_BARRIER_STALE_NS", str(value))
        assert cuda_link.ExportPolicy.from_env().barrier_stale_ns == value


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
