# SPDX-License-Identifier: MIT
"""sluice.cuda_link beside Sluice's own calls: on native channels, and on channels of cuda-link's."""
import pytest

import sluice
from cuda_link_kit import SHAPE, a_link, is_frame, says
from dl import take


@pytest.fixture
def link(gpu):
    with a_link() as link:
        yield link


@pytest.mark.linux("channels of Sluice's own")
def test_native_channels_are_mapped(link):
    name = f"sluice:{link.name}"
    exporter, importer = link.exporter(name=name, slots=4), link.importer(name=name)
    seen = []
    for value in range(1, 9):
        assert exporter.export(value) == "PUBLISHED"
        seen.append(is_frame(importer.until("get"), value, shape=SHAPE))
    assert len({told["id"] for told in seen}) == len({told["address"] for told in seen})
    exporter.export(9)
    is_frame(importer.until("numpy"), 9)
    assert importer.stats()["mapping"] == "writable"
    exporter.close()
    says(importer.get(), "SHUTDOWN")


@pytest.mark.linux("channels of Sluice's own")
def test_native_channels_that_must_not_be_written_are_copied(link, run):
    with sluice.Writer(link.name, shape=tuple(SHAPE), device="cuda:0") as writer:
        importer = link.importer(name=f"sluice:{link.name}")
        with writer.frame():
            pass
        told = importer.until("numpy")
        assert told["outcome"] == "NEW_FRAME" and importer.stats()["mapping"] == "copied"


@pytest.mark.linux("channels of Sluice's own")
def test_a_framework_that_is_not_there_is_said_to_be_missing(run):
    out = run("""
import sys
sys.modules["torch"] = sys.modules["cupy"] = None
import sluice, sluice.cuda_link as cuda_link
assert not cuda_link.TORCH_AVAILABLE and not cuda_link.CUPY_AVAILABLE
with sluice.Writer("bare", shape=(2, 2, 1)) as writer:
    importer = cuda_link.Importer.open(cuda_link.ImportSpec("sluice:bare"))
    for method in (importer.get_frame, importer.get_frame_cupy):
        with writer.frame():
            pass
        try:
            method()
        except (RuntimeError, NotImplementedError) as error:
            print(type(error).__name__)
""")
    assert out.splitlines()[0] == "RuntimeError" and len(out.splitlines()) == 2


@pytest.mark.linux("channels of Sluice's own")
def test_native_channels_in_host_memory(link):
    with sluice.Writer(link.name, shape=tuple(SHAPE)) as writer:
        importer = link.importer(name=f"sluice:{link.name}")
        with writer.frame() as frame:
            frame.numpy()[:] = 6
        is_frame(importer.until("numpy"), 6, shape=SHAPE)


# ---- Sluice's own calls on such a channel ----

def test_a_reader_of_sluices_reads_what_an_exporter_exports(link):
    exporter = link.exporter()
    with sluice.Reader(f"cipd:{link.name}", wait=60) as reader:
        for value in range(1, 6):
            exporter.export(value)
            with reader.next(timeout=60) as frame:
                assert frame.shape == tuple(SHAPE) and frame.dtype == "uint8" and frame.device == "cuda:0"
                assert (frame.numpy() == value).all()
        assert reader.stats().taken == 5
        exporter.close()
        with pytest.raises(sluice.Closed):
            reader.next(timeout=60)


def test_an_importer_reads_what_a_writer_of_sluices_writes(link, gpu):
    importer = link.importer()
    with sluice.Writer(f"cipd:{link.name}", shape=tuple(SHAPE), device="cuda:0") as writer:
        stream = gpu.stream()
        for value in range(1, 6):
            with writer.frame(stream=sluice.Stream.from_handle(stream)) as frame:
                gpu.fill(take(frame, stream).data, value, frame.nbytes, stream)
            is_frame(importer.until("get" if value % 2 else "numpy"), value, shape=SHAPE)
        for bad in ({"policy": "wait"}, {"slots": 11}, {"writable": True}, {"uids": [0]}):
            with pytest.raises(sluice.Error):
                sluice.Writer(f"cipd:{link.name}-2", shape=tuple(SHAPE), device="cuda:0", **bad)
