# SPDX-License-Identifier: MIT
"""OpenCV and PyTorch, where they are installed."""
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


def test_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    values = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    with sluice.Writer("t", shape=(4, 6), dtype=torch.float32) as writer, sluice.Reader("t") as reader:
        writer.send(values)
        frame = reader.next()
        tensor = frame.torch()
        assert torch.equal(tensor, values) and tensor.data_ptr() == frame[0].address
        assert torch.equal(torch.from_dlpack(frame), values)
        frame.release()
        assert reader.stats().held == 1
        del tensor
        assert reader.stats().held == 0
        writer.send(values.T.contiguous().T)
        assert torch.equal(reader.next().torch(), values)
    for dtype in (torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64):
        with sluice.Writer("t", shape=(4,), dtype=dtype) as writer, sluice.Reader("t") as reader:
            writer.send(torch.ones(4, dtype=dtype))
            tensor = reader.next().torch()
            assert tensor.dtype == dtype and torch.equal(tensor, torch.ones(4, dtype=dtype))
