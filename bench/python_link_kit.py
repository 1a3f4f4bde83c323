# SPDX-License-Identifier: MIT
"""cuda-link's interface as the benches use it, of any release: sluice.cuda_link, cuda_link of 1.5 and later, and the classes of before."""
from python_kit import PATIENCE

LINK_SHAPE = (1080, 1920, 4)  # float32: 31.6 MiB
LINK_BYTES = LINK_SHAPE[0] * LINK_SHAPE[1] * LINK_SHAPE[2] * 4


def answer(queue):
    """Of the other process."""
    told = queue.get(timeout=PATIENCE)
    if isinstance(told, Exception):
        raise told
    return told


class _Exporter:
    def __init__(self, link, name, shape, dtype, policy):
        self.frame, self.published = link.GpuFrame, link.FrameOutcome.PUBLISHED  # as programs import names
        self.exporter = link.Exporter.open(link.FrameSpec(name, *shape, dtype), policy=policy and link.ExportPolicy(**policy))

    def export(self, address, size, stream=0):
        outcome = self.exporter.export(self.frame(address, size, stream))
        if outcome is not self.published:
            raise RuntimeError(f"a frame was not exported: {outcome.name}")

    def close(self):
        self.exporter.close()


class _ClassExporter:
    """Whether it blocks an environment variable says, which is the program's."""

    def __init__(self, link, name, shape, dtype):
        height, width, channels = shape
        self.exporter = link.CUDAIPCExporter(shm_name=name, height=height, width=width, channels=channels, dtype=dtype)
        if not self.exporter.initialize():
            raise RuntimeError("cuda-link's exporter does not start")

    def export(self, address, size, stream=0):
        self.exporter.record_source_sync(stream)
        if not self.exporter.export_frame(gpu_ptr=address, size=size):
            raise RuntimeError("a frame was not exported")

    def close(self):
        self.exporter.cleanup()


def exporter_of(link, name, shape, dtype, policy=None):
    """export(address, size, stream) raises unless the frame was published; close()."""
    return _Exporter(link, name, shape, dtype, policy) if hasattr(link, "Exporter") else _ClassExporter(link, name, shape, dtype)


class _Importer:
    def __init__(self, link, name, policy):
        self.importer = link.Importer.open(link.ImportSpec(name), policy=link.ImportPolicy(**policy))
        self.new = link.ImportOutcome.NEW_FRAME

    def caller(self, method):
        return getattr(self.importer, method), lambda result: result.frame if result.outcome is self.new else None

    def close(self):
        self.importer.close()


class _ClassImporter:
    def __init__(self, link, name):
        self.importer = link.CUDAIPCImporter(shm_name=name)
        if not self.importer.is_ready():
            raise RuntimeError("cuda-link's importer does not start")

    def caller(self, method):
        return getattr(self.importer, method), lambda frame: frame

    def close(self):
        self.importer.cleanup()


def importer_of(link, name, policy=None):
    """caller(method): the call itself, and what makes of its answer a frame, or None; close()."""
    return _Importer(link, name, policy or {}) if hasattr(link, "Importer") else _ClassImporter(link, name)
