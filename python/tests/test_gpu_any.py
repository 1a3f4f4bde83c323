# SPDX-License-Identifier: MIT
"""With hypothesis: arrays of any shape, strides and data type on a GPU."""
import asyncio

import pytest

import sluice
from dl import take

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")
hypothesis = pytest.importorskip("hypothesis", reason="hypothesis is not installed")
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # of DLPack, by NumPy's kinds


async def fetch(frame):
    return await frame.fetch()


@hypothesis.settings(max_examples=60, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(data=hypothesis.strategies.data())
def test_any_shape_strides_and_type(gpu, data):
    """What comes out is what went in; DLPack and the array interface say how it lies in the slot."""
    from any_arrays import any_array
    array = any_array(data)
    with sluice.Writer.like("any", array, device=gpu.device) as writer, sluice.Reader("any") as reader:
        writer.send(array)
        with reader.next(timeout=60, stream=sluice.Stream.default(gpu.device)) as frame:
            target = numpy.zeros_like(array)
            frame.copy_to(target)
            for found in (frame.numpy(), frame.copy(), asyncio.run(fetch(frame)), target):
                assert found.dtype == array.dtype and found.shape == array.shape
                numpy.testing.assert_array_equal(found, array)
            taken, interface = take(frame, 1), frame.__cuda_array_interface__
            assert taken.shape == interface["shape"] == array.shape and taken.data == interface["data"][0] == frame[0].address
            assert taken.dtype == (CODES[array.dtype.kind], 8 * array.itemsize, 1) and interface["typestr"] == array.dtype.str
            assert tuple(each * array.itemsize for each in taken.strides) == frame[0].strides
            slot = numpy.frombuffer(gpu.read(taken.data, frame.nbytes), array.dtype)
            numpy.testing.assert_array_equal(slot.reshape(array.shape), array)  # rows are whole: no padding was asked for
