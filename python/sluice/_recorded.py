# SPDX-License-Identifier: MIT
"""Frames and arrays of a recording, in the mapped file."""
import math
import struct

from . import _sluice
from ._final import final
from ._formats import ALPHAS, ROW_ORDERS, Colour, check_pixel_format, numpy_types
from ._frames import describe, parse_json
from ._structs import dtype_text, text

ARRAY = struct.Struct("<32s 2BH I 3Q 8q 8q 4I 8Q 6B 2x")  # an array record
FRAME = struct.Struct("<3Q 2q 6I")
NEW_SESSION, NEW_FORMAT = 1, 2
FACTOR, MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1


def hash_of(data):
    """docs/recording.md, "The hash"."""
    size = len(data)
    words = struct.unpack(f"<{-(-size // 32) * 4}Q", data + bytes(-size % 32))
    lanes = [FACTOR * lane & MASK for lane in range(1, 5)]
    for number, word in enumerate(words):
        x = (lanes[number & 3] ^ word) * FACTOR & MASK
        lanes[number & 3] = (x << 29 | x >> 35) & MASK
    for lane in lanes:
        size = (size ^ lane) * FACTOR & MASK
        size ^= size >> 32
    return size


class _Record:
    """An array record: what it says, checked."""

    def __init__(self, values):
        name, code, bits, lanes, ndim, _, self.nbytes, self.check, *rest = values
        self.name, self.dtype, self.shape, self.strides = text(name), (code, bits, lanes), tuple(rest[:8])[:ndim], tuple(rest[8:16])[:ndim]
        pixel_format, width, height, self.plane_count, *rest = rest[16:]
        self.planes, colour = tuple(zip(rest[0:8:2], rest[1:8:2])), tuple(rest[8:12])
        self.image = pixel_format, width, height, colour, rest[12], rest[13]
        self.itemsize = bits // 8 * lanes
        self.fits = (ndim <= 8 and bits % 8 == 0 < self.itemsize and name[31] == 0 and min(self.shape + self.strides, default=0) >= 0
                     and self._end() <= self.nbytes and math.prod(self.shape) * self.itemsize <= self.nbytes  # none lies on another
                     and (pixel_format == 0 or 1 <= self.plane_count <= 4))

    def _end(self):
        if 0 in self.shape:
            return 0
        return sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides)) + self.itemsize


def array_of(data, at):
    return _Record(ARRAY.unpack_from(data, at))


def documented(cls):
    """Gives the members of a class with slots the words that its slots have."""
    for name, words in cls.__slots__.items():
        if words:
            slot = vars(cls)[name]
            setattr(cls, name, property(slot.__get__, slot.__set__, None, words))
    return cls


@final
@documented
class RecordedArray:
    """An array of a RecordedFrame, read-only, in the mapped file; it has NumPy's array interface."""

    __slots__ = {
        "_map": None, "_at": None, "_record": None, "_planes": None, "name": "its name in the frame",
        "dtype": "data type as text, as Array.dtype", "shape": "extents; of vectors the lanes are the last one",
        "strides": "bytes from one element to the next, for each extent", "nbytes": "bytes from the first element to the last",
        "pixel_format": "of an image: \"bgr24\", ...; None for others", "width": "of an image, in pixels; None for others",
        "height": "of an image, in rows; None for others", "colour": "of an image: a Colour", "row_order": "of an image, as Array.row_order",
        "alpha": "of an image, as Array.alpha"}
    device = "host"
    read_only = True

    @classmethod
    def _make(cls, mapped, at, record):
        self = cls()
        lanes = record.dtype[2]
        self._map, self._at, self._record, self._planes = mapped, at, record, None
        self.name, self.dtype, self.nbytes = record.name, dtype_text(*record.dtype), record.nbytes
        self.shape = record.shape + ((lanes,) if lanes > 1 else ())
        self.strides = record.strides + ((record.itemsize // lanes,) if lanes > 1 else ())
        pixel_format, width, height, colour, row_order, alpha = record.image
        self.pixel_format = _sluice._pixel_format(pixel_format)
        self.width, self.height = (width, height) if self.pixel_format else (None, None)
        self.colour, self.row_order, self.alpha = Colour(*colour), ROW_ORDERS[row_order % 2], ALPHAS[alpha % 4]
        return self

    def numpy(self, pixel_format=None):
        """-> numpy.ndarray

        The array in place, read-only. `pixel_format` is the expected one ("bgr24"): FormatError if the array has another."""
        if pixel_format is not None:
            check_pixel_format(pixel_format)
            if _sluice._pixel_format(pixel_format) != self.pixel_format:
                raise _sluice.FormatError(f"array '{self.name}' has pixel format {self.pixel_format}, not {pixel_format}: convert it")
        code, bits, _ = self._record.dtype
        ndarray, dtype = numpy_types(dtype_text(code, bits, 1), bits)
        if 0 in self.shape:
            return ndarray(self.shape, dtype)
        return ndarray(self.shape, dtype, self._map, self._at, self.strides)

    def copy(self):
        """-> numpy.ndarray

        A writable copy of its own."""
        return self.numpy().copy()

    @property
    def planes(self):
        """of an image: a tuple of RecordedArrays, as Array.planes; () for others"""
        if self.pixel_format is None:
            return ()
        if self._planes is None:
            count = self._record.plane_count
            self._planes = (self,) if count == 1 else tuple(self._plane(number, count) for number in range(count))
        return self._planes

    def _plane(self, number, count):
        offset, pitch = self._record.planes[number]
        across = 1 if number and self.pixel_format != "yuv444p" else 0
        down = 0 if self.pixel_format.startswith("yuv422p") else across
        pair = (2,) if number and count == 2 else ()
        size, shape = self._record.itemsize, (self.height >> down, self.width >> across, *pair)
        record = _Record.__new__(_Record)
        record.name, record.dtype, record.itemsize, record.image = self.name, self._record.dtype, size, (0, 0, 0, (0, 0, 0, 0), 0, 0)
        record.shape, record.strides = shape, (pitch, size * math.prod(pair), *(size for _ in pair))
        record.nbytes = record._end()
        if offset + record.nbytes > self.nbytes:
            raise _sluice.CorruptError(f"plane {number} of array '{self.name}' ends outside of the array: the recording is damaged")
        return RecordedArray._make(self._map, self._at + offset, record)

    @property
    def __array_interface__(self):
        """NumPy's array interface, version 3"""
        return self.numpy().__array_interface__

    def __array__(self, dtype=None, copy=None):
        """What NumPy calls: numpy()."""
        made = self.numpy() if dtype is None else self.numpy().astype(dtype)
        return made.copy() if copy else made

    def _repr_png_(self):
        """What notebooks show: a small PNG; None if it is no picture."""
        from ._picture import png
        try:
            return png(self)
        except Exception:  # no NumPy, or the file's numbers contradict each other
            return None

    def __repr__(self):
        return f"<sluice.RecordedArray '{self.name}' {describe(self)}>"


@final
@documented
class RecordedFrame:
    """A frame of a Recording, as a mapping of names to RecordedArrays; also frame[0]. Its header has what a Frame's has; `number`
    and `time` (seconds after the first frame) say where it is in the recording."""

    __slots__ = {
        "_arrays": None, "_of": None, "number": "its place in the recording, from 0", "time": "seconds after the first frame",
        "sequence": "as Frame.sequence", "session": "as Frame.session", "missed": "frames that the recording did not get before it",
        "capture_ns": "when its content was captured, in nanoseconds of `capture_clock`", "capture_clock": "as Frame.capture_clock",
        "commit_ns": "when it was committed, in time.monotonic_ns() of the recording machine", "generation": "as Frame.generation",
        "new_session": "as Frame.new_session", "new_format": "as Frame.new_format", "meta": "metadata, as bytes"}

    @classmethod
    def _make(cls, mapped, head, at, size, of, number, time):
        self = cls()
        (self.sequence, self.session, self.missed, self.capture_ns, self.commit_ns, self.capture_clock, self.generation, flags, count,
         meta, _) = FRAME.unpack_from(head)
        if not 1 <= count <= 16 or meta > 4096 or len(head) != FRAME.size + meta + count * ARRAY.size:
            raise _sluice.CorruptError(f"{of} has a description of the wrong size: the recording is damaged")
        self._of, self.number, self.time, self.meta = of, number, time, head[FRAME.size:FRAME.size + meta]
        self.new_session, self.new_format = bool(flags & NEW_SESSION), bool(flags & NEW_FORMAT)
        self._arrays = {}
        for place in range(FRAME.size + meta, len(head), ARRAY.size):
            record = array_of(head, place)
            if not record.fits or record.nbytes > size:
                raise _sluice.CorruptError(f"{of} describes an impossible array '{record.name}': the recording is damaged")
            self._arrays[record.name] = RecordedArray._make(mapped, at, record)
            at, size = at + record.nbytes, size - record.nbytes
        return self

    def __getitem__(self, which, /):
        if isinstance(which, str):
            if which not in self._arrays:
                raise KeyError(f"the frame has no array '{which}'; it has {', '.join(map(repr, self._arrays))}")
            return self._arrays[which]
        return tuple(self._arrays.values())[which]

    def keys(self):
        """-> tuple of the arrays' names"""
        return tuple(self._arrays)

    def values(self):
        """-> tuple of its RecordedArrays"""
        return tuple(self._arrays.values())

    def items(self):
        """-> tuple of (name, RecordedArray)"""
        return tuple(self._arrays.items())

    def __iter__(self):
        return iter(self._arrays)

    def __len__(self):
        return len(self._arrays)

    def __contains__(self, name, /):
        return name in self._arrays

    def numpy(self, name=None, pixel_format=None):
        """-> numpy.ndarray

        An array of the frame (the first one, or `name`) in place, read-only."""
        return self[0 if name is None else name].numpy(pixel_format)

    def copy(self, name=None):
        """-> numpy.ndarray

        A writable copy of an array."""
        return self[0 if name is None else name].copy()

    @property
    def meta_json(self):
        """what JSON in the metadata says; None if there is no metadata. Raises ValueError if it is not JSON"""
        return parse_json(self.meta, lambda: self._of)

    def verify(self):
        """Raises CorruptError if the data is damaged. Slow: Python computes the hash, some 30 MB/s."""
        for array in self.values():
            if hash_of(array._map[array._at:array._at + array.nbytes]) != array._record.check:
                raise _sluice.CorruptError(f"{self._of}: the data of array '{array.name}' is damaged")

    def __array__(self, dtype=None, copy=None):
        """What NumPy calls: numpy()."""
        return self[0].__array__(dtype, copy)

    def _repr_png_(self):
        """What notebooks show: a small PNG of the first array that is a picture; None if there is none."""
        return next((made for made in (array._repr_png_() for array in self.values()) if made), None)

    def __repr__(self):
        arrays = ", ".join(f"'{name}' {describe(array)}" for name, array in self.items())
        return f"<sluice.RecordedFrame {self.number}, at {self.time:.3f} s: {arrays}>"
