# SPDX-License-Identifier: MIT
"""Conversions of zimg, libyuv and swscale, by ctypes. Each is skipped where its library is not installed."""
import ctypes

import numpy as np
import pytest


def load(*names):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    return pytest.skip(f"{names[0]} is not installed")


def aligned(shape):
    """Bytes whose rows begin at multiples of 64, as zimg wants them."""
    pitch = (shape[1] + 63) // 64 * 64
    whole = np.zeros(shape[0] * pitch + 64, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start:start + shape[0] * pitch].reshape(shape[0], pitch)[:, :shape[1]]


def pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


# ---- zimg: planes ----

class Format(ctypes.Structure):
    """zimg_image_format of its interface 2.4."""
    _fields_ = [(name, ctypes.c_uint) for name in ("version", "width", "height")] + [
        ("pixel_type", ctypes.c_int), ("subsample_w", ctypes.c_uint), ("subsample_h", ctypes.c_uint)] + [
        (name, ctypes.c_int) for name in ("family", "matrix", "transfer", "primaries")] + [
        ("depth", ctypes.c_uint)] + [(name, ctypes.c_int) for name in ("range", "parity", "chroma")] + [
        ("region", ctypes.c_double * 4), ("alpha", ctypes.c_int)]


class Plane(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("stride", ctypes.c_ssize_t), ("mask", ctypes.c_uint)]


class Buffer(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("planes", Plane * 4)]


ZIMG = 2 << 8 | 4
RGB, YUV = 1, 2  # families
WHOLE = 0xFFFFFFFF  # mask: the buffer has all rows


class Zimg:
    def __init__(self):
        self.library = load("libzimg.so.2")
        self.library.zimg_filter_graph_build.restype = ctypes.c_void_p

    def format(self, width, height, family, matrix, full, halves):
        made = Format()
        self.library.zimg_image_format_default(ctypes.byref(made), ZIMG)
        made.width, made.height, made.family, made.matrix, made.depth = width, height, family, matrix, 8
        made.transfer = made.primaries = 1
        made.pixel_type = made.chroma = 0  # bytes; left
        made.range, made.subsample_w, made.subsample_h = full, *halves
        return made

    def buffer(self, planes):
        made = Buffer(ZIMG)
        for at, plane in enumerate(planes):
            made.planes[at] = Plane(plane.ctypes.data, plane.strides[0], WHOLE)
        return made

    def to_rgb(self, planes, matrix, full):
        """Planes Y, U, V to R, G, B."""
        (height, width), small = planes[0].shape, planes[1].shape
        source = self.format(width, height, YUV, matrix, full, (small[1] < width, small[0] < height))
        target = self.format(width, height, RGB, 0, 1, (0, 0))
        graph = ctypes.c_void_p(self.library.zimg_filter_graph_build(ctypes.byref(source), ctypes.byref(target), None))
        if not graph:
            text = ctypes.create_string_buffer(200)
            self.library.zimg_get_last_error(text, ctypes.c_size_t(200))
            raise AssertionError(text.value)
        size = ctypes.c_size_t()
        assert self.library.zimg_filter_graph_get_tmp_size(graph, ctypes.byref(size)) == 0
        room = aligned((1, size.value + 64))
        given = [aligned(plane.shape) for plane in planes]
        for to, plane in zip(given, planes):
            to[...] = plane
        got = [aligned((height, width)) for _ in range(3)]
        code = self.library.zimg_filter_graph_process(graph, ctypes.byref(self.buffer(given)), ctypes.byref(self.buffer(got)),
                                                      pointer(room), None, None, None, None)
        self.library.zimg_filter_graph_free(graph)
        assert code == 0
        return np.stack(got, axis=-1)


# ---- libyuv ----

class Yuv:
    CONSTANTS = {(6, 0): "kYuvI601Constants", (6, 1): "kYuvJPEGConstants", (1, 0): "kYuvH709Constants", (1, 1): "kYuvF709Constants",
                 (9, 0): "kYuv2020Constants", (9, 1): "kYuvV2020Constants"}

    def __init__(self):
        self.library = load("libyuv.so.0", "libyuv.so")

    def to_rgb(self, planes, matrix, full):
        """Planes Y, UV of NV12, or Y, U, V of 4:2:0."""
        height, width = planes[0].shape
        bgra = np.zeros((height, width, 4), np.uint8)
        constants = ctypes.c_char.in_dll(self.library, self.CONSTANTS[matrix, full])
        convert = self.library.NV12ToARGBMatrix if len(planes) == 2 else self.library.I420ToARGBMatrix
        rows = [each for plane in planes for each in (pointer(plane), plane.strides[0])]
        assert convert(*rows, pointer(bgra), bgra.strides[0], ctypes.byref(constants), width, height) == 0
        return bgra[..., 2::-1]

    def to_nv12(self, bgra):
        """By BT.601, limited."""
        height, width = bgra.shape[:2]
        y, uv = np.zeros((height, width), np.uint8), np.zeros((height // 2, width), np.uint8)
        assert self.library.ARGBToNV12(pointer(bgra), bgra.strides[0], pointer(y), width, pointer(uv), width, width, height) == 0
        return y, uv


# ---- swscale ----

class Swscale:
    YUV444P, RGB24 = 5, 2  # AVPixelFormat
    ACCURATE = 0x40000 | 0x2000 | 0x10  # SWS_ACCURATE_RND, SWS_FULL_CHR_H_INT, SWS_POINT
    COEFFICIENTS = {1: 1, 6: 5, 9: 9}  # of sws_getCoefficients

    def __init__(self):
        self.library = load("libswscale.so.6", "libswscale.so.7", "libswscale.so.8", "libswscale.so.5")
        self.library.sws_getContext.restype = self.library.sws_getCoefficients.restype = ctypes.c_void_p

    def to_rgb(self, planes, matrix, full):
        """Planes Y, U, V without subsampling."""
        height, width = planes[0].shape
        context = ctypes.c_void_p(self.library.sws_getContext(width, height, self.YUV444P, width, height, self.RGB24, self.ACCURATE,
                                                              None, None, None))
        table = ctypes.c_void_p(self.library.sws_getCoefficients(self.COEFFICIENTS[matrix]))
        assert self.library.sws_setColorspaceDetails(context, table, full, table, 1, 0, 1 << 16, 1 << 16) >= 0
        got = np.zeros((height, width, 3), np.uint8)
        given = (ctypes.c_void_p * 4)(*(plane.ctypes.data for plane in planes))
        strides = (ctypes.c_int * 4)(*(plane.strides[0] for plane in planes))
        out, out_strides = (ctypes.c_void_p * 4)(got.ctypes.data), (ctypes.c_int * 4)(got.strides[0])
        assert self.library.sws_scale(context, given, strides, 0, height, out, out_strides) == height
        self.library.sws_freeContext(context)
        return got
