# SPDX-License-Identifier: MIT
"""The inputs of an ONNX file, as the package onnx reads them, or onnxruntime where that is not installed."""
from __future__ import annotations

import importlib.util
import os
import pathlib
from typing import Any, NamedTuple

import numpy as np


class Input(NamedTuple):
    """`shape`: of each dimension the size, its symbol, or None where it is unknown; None if the model does not tell any."""
    name: str
    shape: tuple[int | str | None, ...] | None
    dtype: np.dtype[Any]

    @property
    def rows(self) -> int:
        """Those of one batch: a first dimension that is not fixed is taken as 1."""
        first = self.shape[0] if self.shape else None
        return first if isinstance(first, int) else 1


def inputs_of(model: str | pathlib.Path) -> list[Input]:
    """In the model's order. Raises ImportError, OSError, or ValueError for what is no model."""
    path = os.fspath(model)
    with open(path, "rb"):
        pass  # the packages say less about a file that cannot be read
    if importlib.util.find_spec("onnx"):
        return _by_onnx(path)
    if importlib.util.find_spec("onnxruntime"):
        return _by_onnxruntime(path)
    raise ImportError(f"nothing can read {path}: pip install onnx")


def _by_onnx(path: str) -> list[Input]:
    import onnx
    try:
        graph = onnx.load(path, load_external_data=False).graph  # their types and shapes are in the file itself
    except Exception as error:  # protobuf's, which have no common base that is public
        raise ValueError(f"{path} is not an ONNX model: {error}") from None
    if not graph.node:
        raise ValueError(f"{path} is not an ONNX model: it has no nodes")
    stored = {each.name for each in graph.initializer}
    return [_of_value(each, path) for each in graph.input if each.name not in stored]


def _of_value(value: Any, path: str) -> Input:
    import onnx
    if not value.type.HasField("tensor_type"):
        raise ValueError(f"{path}: the input {value.name} is no tensor")
    tensor = value.type.tensor_type
    dims = [dim.dim_value if dim.dim_value > 0 else dim.dim_param or None for dim in tensor.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return Input(value.name, tuple(dims) if tensor.HasField("shape") else None, dtype)


TYPES = {"float": "float32", "double": "float64", "bool": "bool", "float16": "float16",
         **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}}


def _by_onnxruntime(path: str) -> list[Input]:
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        inputs = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).get_inputs()
    except Exception as error:  # onnxruntime's, likewise
        raise ValueError(f"{path} cannot be loaded: {error}") from None
    found = []
    for each in inputs:
        kind = each.type.removeprefix("tensor(").removesuffix(")")
        if kind not in TYPES:
            raise ValueError(f"{path}: the input {each.name} is a {each.type}, which NumPy does not have")
        dims = [dim if isinstance(dim, str) or dim and dim > 0 else None for dim in each.shape]
        found.append(Input(each.name, tuple(dims), np.dtype(TYPES[kind])))
    return found
