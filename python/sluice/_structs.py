# SPDX-License-Identifier: MIT
"""C's structs, which the extension hands over as they are in memory: how they are unpacked."""
import struct

from ._formats import ALPHAS, ROW_ORDERS, Colour, Image, Tensor
from ._sluice import _pixel_format

DTYPES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool", 7: "float8_e3m4", 8: "float8_e4m3",
          9: "float8_e4m3b11fnuz", 10: "float8_e4m3fn", 11: "float8_e4m3fnuz", 12: "float8_e5m2", 13: "float8_e5m2fnuz",
          14: "float8_e8m0fnu"}
FORMAT = struct.Struct("@4I Q")  # struct sluice_format, up to its arrays
ARRAY = struct.Struct("@32s P 2Q 2BH i 8q 8q 4I 8Q 6B 2x I 12x")  # struct sluice_array
FORMAT_BYTES = FORMAT.size + 16 * ARRAY.size


def text(words):
    return words.partition(b"\0")[0].decode("utf-8", "replace")


def dtype_text(code, bits, lanes):
    """ "float32", "bool", "float32x4" """
    name = DTYPES.get(code, f"type{code}_")
    return f"{name}{'' if code == 6 or code >= 7 else bits}{f'x{lanes}' if lanes > 1 else ''}"


def image_or_tensor(dtype, shape, pixel_format, width, height, colour, row_order, alpha):
    name = _pixel_format(pixel_format)
    if name is None:
        return Tensor(shape, dtype_text(*dtype))
    return Image(name, width, height, Colour(*colour), ROW_ORDERS[row_order % 2], ALPHAS[alpha % 4])


def first_array(data):
    """(data type, shape) of the first array of a struct sluice_format, also of an image's."""
    _, _, _, _, code, bits, lanes, ndim, *rest = ARRAY.unpack_from(data, FORMAT.size)
    return dtype_text(code, bits, lanes), tuple(rest[:ndim])


def formats(data):
    """{name: Tensor or Image} of a struct sluice_format."""
    found = {}
    for number in range(FORMAT.unpack_from(data)[1]):
        name, _, _, _, *rest = ARRAY.unpack_from(data, FORMAT.size + number * ARRAY.size)
        pixel_format, width, height, _ = rest[20:24]
        found[text(name)] = image_or_tensor(rest[:3], tuple(rest[4:4 + rest[3]]), pixel_format, width, height, rest[32:36],
                                            *rest[36:38])
    return found
