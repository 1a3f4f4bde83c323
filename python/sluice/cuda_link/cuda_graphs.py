# SPDX-License-Identifier: MIT
"""Graphs, by the calls that cuda-link's CUDARuntimeAPI has for them: capture a stream, instantiate, change a node, launch.

A capture that is begun here takes the calls of the same object on that stream; others', and other streams', stay outside."""
from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from .cuda_runtime_types import (
    CUDAGraph_t,
    CUDAGraphExec_t,
    CUDAGraphNode_t,
    address_of,
    cudaExtent,
    cudaMemcpy3DParms,
    cudaPitchedPtr,
    cudaPos,
)

__all__ = ["CUDAGraphsMixin"]

_HOST = 1  # CU_MEMORYTYPE_HOST
_KINDS = range(4)  # of copies: cudaMemcpyKind


class _Side(ctypes.Structure):
    """One side of a CUDA_MEMCPY3D."""

    _fields_ = [("x", c_size_t), ("y", c_size_t), ("z", c_size_t), ("lod", c_size_t), ("kind", c_int), ("host", c_void_p),
                ("device", c_uint64), ("array", c_void_p), ("reserved", c_void_p), ("pitch", c_size_t), ("height", c_size_t)]


class _Copy(ctypes.Structure):
    """The driver's CUDA_MEMCPY3D."""

    _fields_ = [("source", _Side), ("target", _Side), ("width", c_size_t), ("rows", c_size_t), ("depth", c_size_t)]


def _point(side: _Side, address: int, count: int) -> None:
    side.host, side.device = (address, 0) if side.kind == _HOST else (None, address)
    side.pitch = count


class CUDAGraphsMixin:
    """The part of CUDARuntimeAPI that is about graphs. Failures raise CudaIpcError."""

    _context: c_void_p
    _captured: set[int]

    def _call(self, name: str, *arguments: Any) -> None:
        raise NotImplementedError

    def stream_begin_capture(self, stream: Any, mode: int = 0) -> None:
        """Mode 0: calls of any thread that a capture does not bear break it; 1: those of this thread; 2: none does."""
        self._call("cuStreamBeginCapture_v2", c_void_p(address_of(stream)), c_int(mode))
        self._captured.add(address_of(stream))

    def stream_end_capture(self, stream: Any) -> CUDAGraph_t:
        """The graph, which graph_destroy() ends."""
        graph = CUDAGraph_t()
        self._captured.discard(address_of(stream))
        self._call("cuStreamEndCapture", c_void_p(address_of(stream)), byref(graph))
        return graph

    def graph_instantiate(self, graph: Any, flags: int = 0) -> CUDAGraphExec_t:
        """What can be launched, which graph_exec_destroy() ends. Its nodes are named by those of `graph`, as long as that is there."""
        made = CUDAGraphExec_t()
        self._call("cuGraphInstantiateWithFlags", byref(made), c_void_p(address_of(graph)), c_uint64(flags))
        return made

    def graph_launch(self, graph_exec: Any, stream: Any) -> None:
        self._call("cuGraphLaunch", c_void_p(address_of(graph_exec)), c_void_p(address_of(stream)))

    def graph_get_nodes(self, graph: Any) -> list[CUDAGraphNode_t]:
        """In the order in which they were made."""
        count = c_size_t()
        self._call("cuGraphGetNodes", c_void_p(address_of(graph)), None, byref(count))
        nodes = (c_uint64 * max(1, count.value))()
        self._call("cuGraphGetNodes", c_void_p(address_of(graph)), nodes, byref(count))
        return [CUDAGraphNode_t(each) for each in nodes[:count.value]]

    def graph_destroy(self, graph: Any) -> None:
        self._call("cuGraphDestroy", c_void_p(address_of(graph)))

    def graph_exec_destroy(self, graph_exec: Any) -> None:
        self._call("cuGraphExecDestroy", c_void_p(address_of(graph_exec)))

    @staticmethod
    def make_memcpy3d_params(dst: Any, src: Any, count: int, kind: int) -> cudaMemcpy3DParms:
        """A copy of `count` bytes in a row, as the runtime describes one."""
        source, target = (cudaPitchedPtr(address_of(each), count, count, 1) for each in (src, dst))
        return cudaMemcpy3DParms(None, cudaPos(), source, None, cudaPos(), target, cudaExtent(count, 1, 1), int(kind))

    def graph_exec_memcpy_node_set_params(self, graph_exec: Any, node: Any, dst: Any, src: Any, count: int, kind: int) -> None:
        """Launches from now on copy this; of memory of the same kind and device. How the node was captured says which call of the
        driver's it came of, and only what that named may be named again: so the node is asked first."""
        if int(kind) not in _KINDS:
            raise ValueError(f"{kind} is not a kind of copy: it must be 0 to 3")
        copy = _Copy()
        self._call("cuGraphMemcpyNodeGetParams", c_void_p(address_of(node)), byref(copy))
        _point(copy.source, address_of(src), count)
        _point(copy.target, address_of(dst), count)
        copy.width, copy.rows, copy.depth = count, 1, 1
        self._call("cuGraphExecMemcpyNodeSetParams", c_void_p(address_of(graph_exec)), c_void_p(address_of(node)), byref(copy),
                   self._context)

    graph_exec_memcpy_node_set_params_1d = graph_exec_memcpy_node_set_params

    def graph_exec_event_record_node_set_event(self, graph_exec: Any, node: Any, event: Any) -> None:
        self._call("cuGraphExecEventRecordNodeSetEvent", c_void_p(address_of(graph_exec)), c_void_p(address_of(node)),
                   c_void_p(address_of(event)))

    def graph_exec_event_wait_node_set_event(self, graph_exec: Any, node: Any, event: Any) -> None:
        self._call("cuGraphExecEventWaitNodeSetEvent", c_void_p(address_of(graph_exec)), c_void_p(address_of(node)),
                   c_void_p(address_of(event)))

    def record_event_external(self, event: Any, stream: Any) -> None:
        """On a stream that captures: each launch of the graph records the event, for those outside."""
        self._call("cuEventRecordWithFlags", c_void_p(address_of(event)), c_void_p(address_of(stream)), c_uint(1))
