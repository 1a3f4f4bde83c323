# SPDX-License-Identifier: MIT
import sys
import time

import numpy as np
import pytest

import sluice


# ---- metadata that is no bytes ----

def test_metadata_from_text_and_json():
    with sluice.Writer("j", shape=4) as writer, sluice.Reader("j") as reader:
        for meta, sent, said in (("\xe9 1", "\xe9 1".encode(), None), ({"pose": [1, 2.5], "t": "\xe9"}, None, {"pose": [1, 2.5], "t": "\xe9"}),
                                 ([1, None, True], b"[1,null,true]", [1, None, True]), ((), b"[]", []), ("", b"", None), (b"", b"", None)):
            writer.send(bytes(4), meta=meta)
            with reader.next(timeout=60) as frame:
                assert sent is None or frame.meta == sent
                if said is not None or not meta:
                    assert frame.meta_json == said
        with writer.frame(meta="first") as frame:
            frame.meta = {"a": 1}
            assert frame.meta_json == {"a": 1} and frame.meta == b'{"a":1}'


@pytest.mark.parametrize("meta, error, says", [
    (3, TypeError, "bytes or a buffer, a str, or a dict"), (object(), TypeError, "a str"), ({"a": np.float32(1)}, TypeError, "item"),
    ({"a": float("nan")}, ValueError, "dict"), ("\ud800", ValueError, "str"), ({"a": "x" * 5000}, ValueError, "4096"),
    (np.zeros(8, "u1")[::2], BufferError, "contiguous"), ({1, 2}, TypeError, "set"),
])
def test_metadata_that_cannot_be(meta, error, says):
    with sluice.Writer("j", shape=4) as writer:
        for call in (lambda: writer.send(bytes(4), meta=meta), lambda: writer.frame(meta=meta)):
            with pytest.raises(error, match=says):
                call()
        assert writer.stats().committed == 0


@pytest.mark.parametrize("meta", [b"text", b"{", b"[" * 4096, b"\xff", b'{"a": 1}x', b"9" * 4096])
def test_metadata_of_others_that_is_no_json(meta):
    with sluice.Writer("j", shape=4) as writer, sluice.Reader("j") as reader:
        writer.send(bytes(4), meta=meta)
        with reader.next(timeout=60) as frame:
            assert frame.meta == meta
            if meta != b"9" * 4096 or sys.get_int_max_str_digits() < 4096 and sys.get_int_max_str_digits():
                with pytest.raises(ValueError, match="frame 1.*JSON"):
                    frame.meta_json


# ---- arguments ----

@pytest.mark.parametrize("make, says", [
    (lambda: sluice.Image("bgr", 4, 4), 'did you mean "bgr24"'), (lambda: sluice.Image("RGB", 4, 4), 'did you mean "rgb24"'),
    (lambda: sluice.Image("nv21", 4, 4), 'did you mean "nv12"'), (lambda: sluice.Image("zzz", 4, 4), "sluice.pixel_formats"),
    (lambda: sluice.Image("bgr24", 0, 4), "width is 0"), (lambda: sluice.Image("bgr24", 4, 65537), "height is 65537"),
    (lambda: sluice.Image("bgr24", 4, 4, row_order="up"), "row_order"), (lambda: sluice.Image("bgr24", 4, 4, alpha="none"), "alpha"),
    (lambda: sluice.Writer("w", sluice.Image("bgr24", 4, 4)._replace(pixel_format="bgr")), 'did you mean "bgr24"'),
    (lambda: sluice.Writer("w", shape=4, slots=-1), "slots is -1"), (lambda: sluice.Writer("w", shape=4, uids=[-1]), "uids"),
    (lambda: sluice.Reader("w", hold=0), "hold is 0"), (lambda: sluice.Reader("w", every=0), "every is 0"),
    (lambda: sluice.Reader("w", depth=-1), "depth is -1"),
])
def test_values_are_checked_at_the_call(make, says):
    with pytest.raises(ValueError, match=says):
        make()


@pytest.mark.parametrize("make, says", [
    (lambda: sluice.Image(3, 4, 4), "pixel format is 3"), (lambda: sluice.Image("bgr24", "4", 4), "width must be an int"),
    (lambda: sluice.Image("bgr24", 4, 4.5), "height must be an int"), (lambda: sluice.Image("bgr24", 4, 4, (1, 2)), "colour is"),
    (lambda: sluice.Image("bgr24", 4, 4, (1, 2, 3, 400)), "colour is"), (lambda: sluice.Writer("w", "bgr24"), "is no format"),
    (lambda: sluice.Writer("w", [4, 4]), "is no format"), (lambda: sluice.Writer("w", shape="4"), "the shape is"),
    (lambda: sluice.Writer("w", shape=4, slots=2.5), "slots must be an int"), (lambda: sluice.Writer("w", shape=4, uids="me"), "uids"),
    (lambda: sluice.Reader("w", hold=1.5), "hold must be an int"), (lambda: sluice.Reader("w", every="2"), "every must be an int"),
])
def test_types_are_checked_at_the_call(make, says):
    with pytest.raises(TypeError, match=says):
        make()


def test_a_hold_that_is_too_large_names_the_limit():
    with sluice.Writer("w", shape=4, slots=4, max_slots=8):
        with pytest.raises(sluice.LimitError, match="hold 20 .* 8 slots allow 6"):
            sluice.Reader("w", hold=20)
        with pytest.raises(sluice.LimitError, match="hold 100 .* two less than it has slots"):
            sluice.Reader("w", hold=100)


def test_a_time_out_says_whether_there_is_a_writer():
    with sluice.Reader("w", wait=None) as reader:
        with pytest.raises(sluice.NoWriter, match="no writer"):
            reader.next(timeout=0)
        with sluice.Writer("w", shape=4) as writer:
            writer.wait_for_readers(1, 60)
            while True:  # the writer may know of the reader before the reader knows of it
                try:
                    reader.next(timeout=0)
                except sluice.NoWriter:
                    time.sleep(0.001)
                except sluice.Timeout as error:
                    assert "has a writer" in str(error)
                    break


def test_a_pixel_format_that_is_asked_for_has_its_near_name():
    with sluice.Writer("w", sluice.Image("bgr24", 4, 4)) as writer, sluice.Reader("w") as reader:
        with pytest.raises(sluice.FormatError, match='did you mean "bgr24"'):
            writer.send(np.zeros((4, 4, 3), "u1"), pixel_format="bgr")
        writer.send(np.zeros((4, 4, 3), "u1"), pixel_format="BGR24")
        with reader.next(timeout=60) as frame:
            with pytest.raises(sluice.FormatError, match='did you mean "rgb24"'):
                frame.numpy(pixel_format="rgb")


def test_a_failed_read_is_left_out_by_cancel(run):
    """And without that, SLUICE_DEBUG warns at the line of the program."""
    out = run("""
import sys, warnings, sluice
warnings.showwarning = lambda text, kind, file, line, *more: print(file == __file__ if "__file__" in globals() else file, line)
writer = sluice.Writer("w", shape=(48, 64, 3))
def read(array): return False
for turn in range(3):
    with writer.frame() as frame:
        if not read(frame.numpy()):
            frame.cancel()
            break
print(writer.stats().committed, writer.stats().cancelled)
for turn in range(3):
    with writer.frame() as frame:
        if not read(frame.numpy()):
            break
print(writer.stats().committed)
""", env={"SLUICE_DEBUG": "1"})
    first, warned, last = out.splitlines()
    assert (first, last) == ("0 1", "1") and warned.split()[-1] in ("13", "15") and "sluice/" not in warned
