# SPDX-License-Identifier: MIT
"""sluice.cuda_link's CUDARuntimeAPI: memory, graphs and events of a program's own; and what an importer is connected to."""
import ctypes
import threading

import pytest
from cuda_link_kit import a_link

import sluice.cuda_link as cuda_link

SIZE = 4096
ON_DEVICE = 3


@pytest.fixture
def runtime(gpu):
    return cuda_link.get_cuda_runtime()


@pytest.fixture
def memory(runtime):
    """Four pieces on the GPU, full of 1, 2, 3 and 4."""
    pieces = [runtime.malloc(SIZE) for _ in range(4)]
    for value, piece in enumerate(pieces, 1):
        source = ctypes.create_string_buffer(bytes([value]) * SIZE, SIZE)
        runtime.memcpy(piece, ctypes.addressof(source), SIZE, 1)
    yield pieces
    for piece in pieces:
        runtime.free(piece)


def content(runtime, piece):
    target = ctypes.create_string_buffer(SIZE)
    runtime.memcpy(ctypes.addressof(target), piece, SIZE, 2)
    values = set(target.raw)
    assert len(values) == 1
    return values.pop()


def test_a_graph_of_a_copy_is_launched_and_changed(runtime, memory):
    """As cuda-link's own exporter uses these calls."""
    stream, (one, two, three, four) = runtime.create_stream(), memory
    runtime.stream_begin_capture(stream, mode=0)
    runtime.memcpy_async(one, two, SIZE, ON_DEVICE, stream)
    runtime.memcpy_async(three, one, SIZE, ON_DEVICE, stream)
    graph = runtime.stream_end_capture(stream)
    assert content(runtime, one) == 1  # nothing was done yet
    nodes = runtime.graph_get_nodes(graph)
    assert len(nodes) == 2 and len({node.value for node in nodes}) == 2
    made = runtime.graph_instantiate(graph)
    runtime.graph_launch(made, stream)
    runtime.stream_synchronize(stream)
    assert content(runtime, one) == content(runtime, three) == 2
    runtime.graph_exec_memcpy_node_set_params_1d(made, nodes[0], one, four, SIZE, ON_DEVICE)
    runtime.graph_launch(made, stream)
    runtime.stream_synchronize(stream)
    assert content(runtime, one) == content(runtime, three) == 4 and content(runtime, two) == 2
    with pytest.raises(ValueError, match="not a kind of copy"):
        runtime.graph_exec_memcpy_node_set_params(made, nodes[0], one, four, SIZE, 9)
    runtime.graph_exec_destroy(made)
    runtime.graph_destroy(graph)
    runtime.destroy_stream(stream)


def test_calls_on_a_stream_that_others_capture_are_refused(runtime, gpu, memory):
    stream = runtime.create_stream()
    with gpu.capture(stream.value):
        with pytest.raises(cuda_link.CudaIpcError, match="capturing"):
            runtime.memcpy_async(memory[0], memory[1], SIZE, ON_DEVICE, stream)
    runtime.destroy_stream(stream)
    assert content(runtime, memory[0]) == 1


def test_what_a_copy_is_by_the_runtimes_struct():
    params = cuda_link.CUDARuntimeAPI.make_memcpy3d_params(ctypes.c_void_p(64), 128, 20, 3)
    assert (params.dstPtr.ptr, params.srcPtr.ptr, params.srcPtr.pitch, params.kind) == (64, 128, 20, 3)
    assert (params.extent.width, params.extent.height, params.extent.depth) == (20, 1, 1)


def test_a_call_that_the_driver_lacks_is_named(runtime):
    with pytest.raises(cuda_link.CudaIpcError, match="this driver has no cuNothing: install a later one"):
        runtime._call("cuNothing")


def test_events_are_asked_by_native_code_on_any_thread(runtime, gpu):
    """The importer of cuda-link 1.12 hands this address to a loop in C++."""
    query = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(runtime.cudart_event_query_fn_ptr())
    stream, event, said = runtime.create_stream(), runtime.create_sync_event(), []
    gate = gpu.gate(stream.value)
    runtime.record_event(event, stream)
    thread = threading.Thread(target=lambda: said.append(query(event.value)))  # which has no context
    thread.start()
    thread.join()
    assert said == [600] and not runtime.query_event(event)
    gate.open()
    runtime.stream_synchronize(stream)
    assert query(event.value) == 0 and runtime.query_event(event)
    runtime.destroy_event(event)
    runtime.destroy_stream(stream)


def test_devices(runtime):
    assert runtime.set_device(0) == 0 and runtime.restore_context(0) is None
    with pytest.raises(cuda_link.CudaIpcError, match="get_cuda_runtime"):
        runtime.set_device(1)
    assert runtime.get_runtime_version() >= 12000 and 0 < runtime.mem_get_info()[0] <= runtime.mem_get_info()[1]
    runtime.check_sticky_error("nothing")


def test_what_an_importer_is_connected_to(gpu):
    with a_link() as link:
        importer = cuda_link.Importer.open(cuda_link.ImportSpec(link.name))
        assert importer.connection is None
        exporter = link.exporter(slots=2)
        exporter.export(1)
        importer.request_immediate_reconnect()
        while importer.get_frame_numpy().outcome is not cuda_link.ImportOutcome.NEW_FRAME:
            pass
        connection = importer.connection
        assert isinstance(connection, cuda_link.IPCConnection) and connection.num_slots == 2 and connection.ipc_version >= 1
        assert all(each.value for each in connection.dev_ptrs) and connection.cuda is cuda_link.get_cuda_runtime()
        connection.close()
        assert importer.is_ready() and all(each.value for each in importer.connection.dev_ptrs)
        importer.close()
        assert importer.connection is None
