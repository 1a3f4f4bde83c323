# SPDX-License-Identifier: MIT
"""One interface for all releases of cuda-link: sluice.cuda_link, cuda_link of 1.5 and later, and the older classes."""
from python_kit import TIMEOUT

LINK_SHAPE = (1080, 1920, 4)  # float32: 31.6 MiB
LINK_BYTES = LINK_SHAPE[0] * LINK_SHAPE[1] * LINK_SHAPE[2] * 4


def answer(queue):
    """The other process's answer; raises the exception that it sent."""
    found = queue.get(timeout=TIMEOUT)
    if isinstance(found, Exception):
        raise found
    return found


class _Exporter:
    def __init__(self, link, name, shape, dtype, policy):
        self.frame, self.published = link.GpuFrame, link.FrameOutcome.PUBLISHED  # looked up once, as by an import
        self.exporter = link.Exporter.open(link.FrameSpec(name, *shape, dtype), policy=policy and link.ExportPolicy(**policy))

    def export(self, address, size, stream=0):
        outcome = self.exporter.export(self.frame(address, size, stream))
        if outcome is not self.published:
            raise RuntimeError(f"a frame was not exported: {outcome.name}")

    def close(self):
        self.exporter.close()


class _ClassExporter:
    """An environment variable of the program decides whether it blocks."""

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
    """An object with export(address, size, stream), which raises unless the frame was published, and close()."""
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
    """An object with close() and caller(method), which returns the bound method and a function from its result to the frame or None."""
    return _Importer(link, name, policy or {}) if hasattr(link, "Importer") else _ClassImporter(link, name)
