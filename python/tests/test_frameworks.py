# SPDX-License-Identifier: MIT
"""OpenCV, JAX and CuPy, where they are installed. PyTorch has a file of its own."""
import importlib.util
import warnings

import numpy as np
import pytest

import sluice


def test_a_frame_committed_unwritten_warns(run):
    out = run("""
import warnings, sluice
warnings.simplefilter("error")
with sluice.Writer("w", shape=(480, 640, 3)) as writer, sluice.Reader("w") as reader:
    for fill in (None, 0, 255):
        try:
            with writer.frame() as frame:
                if fill is not None:
                    frame.numpy()[:] = fill
            print("committed")
        except RuntimeWarning as warning:
            assert "nothing was written" in str(warning)
            print("warned")
    print(reader.next().sequence, writer.stats().cancelled)
    with sluice.Writer("small", shape=4) as small, small.frame():
        pass
""", env={"SLUICE_DEBUG": "1"})
    assert out == "warned\ncommitted\ncommitted\n2 1\n"


def test_without_debugging_nothing_is_touched():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with sluice.Writer("w", shape=1000) as writer:
            with writer.frame() as frame:
                assert (frame.numpy() == 0).all()


def test_opencv_writes_into_a_slot():
    cv2 = pytest.importorskip("cv2", reason="opencv-python-headless is not installed")
    picture = np.random.default_rng(1).integers(0, 255, (48, 64, 3), "u1")
    with sluice.Writer("cv", sluice.Image("gray", 64, 48)) as writer, sluice.Reader("cv") as reader:
        with writer.frame() as frame:
            out = frame.numpy()
            assert cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY, dst=out) is out
        got = reader.next().numpy()
        assert (got == cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY)).all()
        assert cv2.resize(got, (32, 24)).shape == (24, 32)
        with pytest.raises((cv2.error, ValueError)):
            cv2.putText(got, "x", (1, 1), 0, 1, 255)


def test_an_output_that_does_not_fit_is_another_array():
    """The trap of docs/python-numpy-opencv.md: OpenCV makes a new array, and the slot stays unwritten."""
    cv2 = pytest.importorskip("cv2", reason="opencv-python-headless is not installed")
    picture = np.full((48, 64, 3), 200, "u1")
    with sluice.Writer("cv", sluice.Image("gray", 32, 24)) as writer:
        with writer.frame() as frame:
            out = frame.numpy()
            assert cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY, dst=out) is not out and (out == 0).all()


def test_jax(run):
    """In a process of its own: JAX has threads, and other tests fork."""
    if not importlib.util.find_spec("jax"):
        pytest.skip("jax is not installed")
    run("""
import os
os.environ["JAX_PLATFORMS"] = "cpu"
import jax, numpy as np, sluice
values = np.arange(24, dtype="f4").reshape(4, 6)
with sluice.Writer.like("jax", values) as writer, sluice.Reader("jax") as reader:
    writer.send(jax.numpy.asarray(values))
    frame = reader.next()
    array = jax.dlpack.from_dlpack(frame)
    assert (np.asarray(array) == values).all() and array.shape == (4, 6)
    frame.release()
    assert reader.stats().held in (0, 1)  # 0 where JAX copied: memory that it is not aligned for
with sluice.Writer("bf", shape=4, dtype="bfloat16") as writer, sluice.Reader("bf") as reader:
    writer.send(jax.numpy.ones(4, "bfloat16"))
    assert float(jax.dlpack.from_dlpack(reader.next())[3]) == 1
""")


@pytest.mark.skipif(not importlib.util.find_spec("cupy"), reason="cupy is not installed")
def test_arrays_on_a_gpu_are_refused():
    import cupy
    with sluice.Writer("gpu", shape=4, dtype="float32") as writer:
        with pytest.raises(sluice.UnsupportedError, match="on a device.*host memory"):
            writer.send(cupy.zeros(4, "f4"))
        writer.send(cupy.zeros(4, "f4").get())
