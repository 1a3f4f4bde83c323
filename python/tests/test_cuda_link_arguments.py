# SPDX-License-Identifier: MIT
"""Invalid arguments of sluice.cuda_link are errors that name the argument, before anything is created."""
import dataclasses
import os

import pytest

import sluice.cuda_link as cuda_link
from sluice.cuda_link import (CUDAIPCExporter, CUDAIPCImporter, Exporter, ExportPolicy, FrameSpec, GpuFrame, Importer, ImportPolicy,
                              ImportSpec)

NAME = f"sluice-test-{os.getpid()}-arguments"
NAMES = [(None, TypeError), (3, TypeError), ("", ValueError), ("a/b", ValueError), ("x" * 300, ValueError), ("a\0b", ValueError)]
SIZES = [(0, ValueError), (-1, ValueError), (2.5, TypeError), ("4", TypeError), (None, TypeError), (1 << 40, ValueError),
         (1 << 70, ValueError)]
DEVICES = [(-1, ValueError), ("cuda:0", TypeError), ("0", TypeError), (None, TypeError)]
SPEC = {"shm_name": NAMES, "height": SIZES, "width": SIZES, "channels": SIZES, "device": DEVICES,
        "dtype": [(None, ValueError), (3, ValueError), ("int64", ValueError)],
        "num_slots": [(0, ValueError), (11, ValueError), ("3", TypeError), (None, TypeError), (2.0, TypeError)]}
FLAGS = {"extra_flags": [(-1, ValueError), ("x", TypeError), (1 << 40, ValueError)]}
HINTS = {"shm_name": NAMES, "device": DEVICES, "shape": [(3, TypeError), ("abc", TypeError), ((0, 2, 2), ValueError)],
         "dtype": [(3, TypeError)], "timeout_ms": [(None, TypeError), ("5", TypeError), (float("nan"), ValueError)]}


def each(*tables):
    return [pytest.param(name, value, error, id=f"{name}-{str(value)[:9]!r}") for table in tables
            for name, cases in table.items() for value, error in cases]


def refused(error, name, call):
    with pytest.raises(error, match="name" if name == "shm_name" else name) as caught:
        call()
    assert type(caught.value).__module__ in ("builtins", "sluice"), "the mistake is the program's, not the GPU's"


@pytest.mark.parametrize("name, value, error", each(SPEC, FLAGS))
def test_a_frame_spec(name, value, error):
    spec = dataclasses.replace(FrameSpec(NAME, 4, 4), **{name: value})
    refused(error, name, lambda: Exporter.open(spec))


@pytest.mark.parametrize("name, value, error", each(SPEC))
def test_an_exporter_of_1_1(name, value, error):
    if name == "shm_name" and isinstance(value, str) and "\0" not in value:
        assert not CUDAIPCExporter(value, 4, 4).initialize()  # as in cuda-link it logs what the channel's place says
        return
    refused(error, name, lambda: CUDAIPCExporter(**{"shm_name": NAME, "height": 4, "width": 4, name: value}))


@pytest.mark.parametrize("name, value, error", each(HINTS))
def test_an_import_spec(name, value, error):
    refused(error, name, lambda: Importer.open(dataclasses.replace(ImportSpec(NAME), **{name: value})))


@pytest.mark.parametrize("name, value, error", each(HINTS))
def test_an_importer_of_1_1(name, value, error):
    if name == "shm_name" and isinstance(value, str) and "\0" not in value:
        assert not CUDAIPCImporter(value).is_ready()
        return
    refused(error, name, lambda: CUDAIPCImporter(**{"shm_name": NAME, name: value}))


@pytest.mark.parametrize("kind, spec", [(Exporter, FrameSpec(NAME, 4, 4)), (Importer, ImportSpec(NAME))])
def test_policies_and_other_kinds(kind, spec):
    other = ImportPolicy() if kind is Exporter else ExportPolicy()
    for wrong in (3, "low_latency", other):
        refused(TypeError, "policy", lambda wrong=wrong: kind.open(spec, policy=wrong))
    for wrong in (None, NAME, other):
        refused(TypeError, "spec", lambda wrong=wrong: kind.open(wrong))
    fields = ["barrier_stale_ns"] if kind is Exporter else ["wait_spin_us", "gpu_wait_adaptive_window", "gpu_wait_adaptive_sleep_pct"]
    for field in fields:
        policy = (ExportPolicy if kind is Exporter else ImportPolicy)(**{field: "x"})
        refused(TypeError, field, lambda policy=policy: kind.open(spec, policy=policy))
    if kind is Importer:
        for field in fields:
            refused(ValueError, field, lambda field=field: kind.open(spec, policy=ImportPolicy(**{field: 1 << 70})))


STREAMS = [("x", TypeError), (1.5, TypeError), (-1, ValueError), (1 << 70, ValueError), (object(), TypeError)]


def test_frames_and_streams(gpu):
    with Exporter.open(FrameSpec(NAME, 4, 4)) as exporter, Importer.open(ImportSpec(NAME)) as importer:
        size, ptr = exporter.data_size, cuda_link.get_cuda_runtime().malloc(64).value
        assert exporter.export(GpuFrame(ptr, size, 0)) is cuda_link.FrameOutcome.PUBLISHED
        for value, error in STREAMS:
            refused(error, "stream", lambda value=value: exporter.export(GpuFrame(ptr, size, value)))
            refused(error, "stream", lambda value=value: exporter.record_source_sync(value))
            refused(error, "stream", lambda value=value: importer.get_frame_cupy(value))
            refused(error, "ptr", lambda value=value: exporter.export(GpuFrame(value, size)))
        for value in ("x", None, 1.5):
            refused(TypeError, "size", lambda value=value: exporter.export(GpuFrame(ptr, value, 0)))
        for value in (None, 3, "x"):
            refused(TypeError, "frame", lambda value=value: exporter.export(value))
        for value in ("x", None):
            refused(TypeError, "timeout_ms", lambda value=value: importer.wait_for_doorbell(value))
        assert exporter.export(GpuFrame(ptr, size, 0)) is cuda_link.FrameOutcome.PUBLISHED
