# SPDX-License-Identifier: MIT
"""Arrays of NumPy of any kind, by hypothesis."""
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
          "complex64", "complex128", "bool"]


def any_array(data):
    """Of any data type, with gaps, steps back, axes in any order, and elements that come again."""
    dtype = data.draw(st.sampled_from(DTYPES))
    whole = data.draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=8, min_side=1, max_side=4),
                                 elements=hnp.from_dtype(np.dtype(dtype), allow_nan=False)))
    array = whole
    for axis in range(whole.ndim):
        start = data.draw(st.integers(0, whole.shape[axis] - 1))
        step = data.draw(st.sampled_from([1, 1, 2, -1, -2]))
        index = slice(start, None, step)
        array = array[(slice(None),) * axis + (index,)]
    array = array.transpose(data.draw(st.permutations(range(array.ndim))))
    if data.draw(st.booleans()) and array.ndim < 8:
        array = np.broadcast_to(array, (2, *array.shape))
    return array
