# SPDX-License-Identifier: MIT
"""Recording: the frames of a file that `sluice record` wrote, in place in the mapped file. docs/recording.md has every byte. Files
are not trusted: whatever is used was checked."""
import bisect
import mmap
import os
import struct

from . import _sluice
from ._final import final
from ._formats import described
from ._recorded import ARRAY, RecordedFrame, array_of, documented, hash_of
from ._structs import image_or_tensor

MAGIC = b"\x89SLR\r\n\x1a\n"
FILE = struct.Struct("<8s 2I 2q 72s Q")
BLOCK = struct.Struct("<2I 3Q")
FORMAT_HEAD, END_HEAD = struct.Struct("<2I Q"), struct.Struct("<2Q q")
FORMAT, FRAME, END = 1, 2, 3
COMMIT_NS = 32  # where a frame's head has its time
HEAD_MOST = 8640
PAUSE = 60  # seconds: as in `sluice play`, a longer step, or one back, is none


@final
@documented
class Recording:
    """A recording by `sluice record CHANNEL FILE.slr`, as a sequence of RecordedFrames: recording[7], recording[-1], a slice, or
    `for frame in recording`. The file is mapped, and nothing is copied: it may be larger than memory, but must not be cut while it is
    used. A file without an end, as its writer was killed, has the frames that are whole.

    damaged    True: of a damaged file take the frames in front of the damage

    Raises FileNotFoundError and PermissionError as open() does; FormatError for what is no recording; CorruptError for a damaged one,
    at the latest where a damaged frame is used."""

    __slots__ = {
        "_map": None, "_places": None, "_times": None, "_path": None, "_end": None, "channel": "the name of the channel",
        "created_ns": "when the file was made, in nanoseconds since 1970", "format": "{name: Tensor or Image}: the first format of the channel",
        "damage": "what is wrong with the file, if it was opened with damaged=True; else None"}

    def __new__(cls, path, *, damaged=False):
        self = super().__new__(cls)
        self._path, self._places, self._times, self._end, self.damage, self.format = os.fspath(path), [], [], None, None, {}
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size < FILE.size:
                raise _sluice.FormatError(f"{self._path} is too short for a Sluice recording: it has no header")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            self._read_header()
            self._read_blocks()
        except _sluice.CorruptError as error:
            if not damaged:
                raise
            self.damage = str(error)
        return self

    # ---- reading the file ----

    def _read_header(self):
        magic, version, size, self.created_ns, _, channel, check = FILE.unpack_from(self._map)
        if magic != MAGIC:
            raise _sluice.FormatError(f"{self._path} is not a Sluice recording: `sluice record CHANNEL FILE.slr` makes them")
        if version != 1 or size != FILE.size:
            raise _sluice.VersionError(f"{self._path} is a recording of version {version}, and this release reads version 1")
        if check != hash_of(self._map[:FILE.size - 8]):
            raise _sluice.FormatError(f"{self._path} has a damaged header: nothing of it can be trusted")
        self.channel = channel.partition(b"\0")[0].decode("utf-8", "replace")

    def _read_blocks(self):
        """Finds the frames; their heads are checked when they are used."""
        at, whole, last = FILE.size, len(self._map), None
        while at + BLOCK.size <= whole:
            kind, head, data, check, own = BLOCK.unpack_from(self._map, at)
            if own != hash_of(self._map[at:at + 24]) or head > HEAD_MOST or kind not in (FORMAT, FRAME, END):
                self._corrupt(at, "a block's head is damaged")
            begin = at + BLOCK.size
            if data > whole or begin + head + data > whole:
                return  # its writer died
            if kind == FRAME:
                last = self._add_frame(at, head, last)
            elif kind == FORMAT:
                self._read_format(begin, head, data, check)
            else:
                self._read_end(begin, head, data, check)
            at = begin + head + data

    def _corrupt(self, at, why):
        raise _sluice.CorruptError(f"{self._path} is damaged at byte {at}: {why}; Recording(path, damaged=True) has the "
                                   f"{len(self._places)} frames before")

    def _checked(self, begin, head, check):
        found = self._map[begin:begin + head]
        if hash_of(found) != check:
            self._corrupt(begin, "a block's description is damaged")
        return found

    def _add_frame(self, at, head, last):
        if head < COMMIT_NS + 32:
            self._corrupt(at, "a frame block has the wrong size")
        now, = struct.unpack_from("<q", self._map, at + BLOCK.size + COMMIT_NS)
        step = 0 if last is None else (now - last) / 1e9
        self._times.append((self._times[-1] if self._times else 0.0) + (step if 0 <= step <= PAUSE else 0.0))
        self._places.append(at)
        return now

    def _read_format(self, begin, head, data, check):
        found = self._checked(begin, head, check)
        count = FORMAT_HEAD.unpack_from(found)[0] if head >= FORMAT_HEAD.size else 0
        if data or not 1 <= count <= 16 or head != FORMAT_HEAD.size + count * ARRAY.size:
            self._corrupt(begin, "a format block has the wrong size")
        if not self.format:
            arrays = (array_of(found, FORMAT_HEAD.size + number * ARRAY.size) for number in range(count))
            self.format = {each.name: image_or_tensor(each.dtype, each.shape, *each.image) for each in arrays}

    def _read_end(self, begin, head, data, check):
        found = self._checked(begin, head, check)
        if data or head != END_HEAD.size:
            self._corrupt(begin, "the end block has the wrong size")
        self._end = END_HEAD.unpack(found)

    # ---- frames ----

    def __len__(self):
        return len(self._places)

    def __iter__(self):
        return map(self._frame, range(len(self)))

    def __getitem__(self, which, /):
        if isinstance(which, slice):
            return [self[number] for number in range(*which.indices(len(self)))]
        if not hasattr(which, "__index__"):
            raise TypeError(f"{which!r} is no index: recording[7] is a frame by its number, recording.at(1.5) by its time in seconds")
        number = which.__index__()
        if not -len(self) <= number < len(self):
            raise IndexError(f"{self._path} has {len(self)} frames: there is no frame {number}")
        return self._frame(number % len(self))

    def _frame(self, number):
        if self._map is None:
            raise _sluice.ClosedError(f"the recording {self._path} is closed")
        at = self._places[number]
        _, head, data, check, _ = BLOCK.unpack_from(self._map, at)
        begin = at + BLOCK.size
        return RecordedFrame._make(self._map, self._checked(begin, head, check), begin + head, data, f"frame {number} of {self._path}",
                             number, self._times[number])

    def at(self, seconds):
        """-> RecordedFrame

        The frame that was the newest one so many seconds after the first; before that the first. Raises IndexError if there are no
        frames."""
        if not self._times:
            raise IndexError(f"{self._path} has no frames")
        return self._frame(max(0, bisect.bisect_right(self._times, seconds) - 1))

    @property
    def times(self):
        """tuple: of each frame the seconds after the first one, as `sluice play` plays them"""
        return tuple(self._times)

    @property
    def duration(self):
        """seconds from the first frame to the last"""
        return self._times[-1] if self._times else 0.0

    @property
    def complete(self):
        """True if it was closed properly; False if its writer died, or still writes it"""
        return self._end is not None

    @property
    def path(self):
        """of the file"""
        return self._path

    def close(self):
        """Gives the file back. Frames and arrays that live stay valid: the last of them unmaps it."""
        self._map = None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback, /):
        self.close()
        return False

    def __repr__(self):
        state = ", closed" if self._map is None else "" if self.complete else ", without an end"
        return (f"<sluice.Recording {self._path!r} of '{self.channel}': {len(self)} frames, {self.duration:.3f} s{state}: "
                f"{described(self.format)}>")

    def __reduce__(self):
        raise TypeError("a Recording cannot be pickled: pass its path and open it in the other process")
