# SPDX-License-Identifier: MIT
"""Calibration sets: what goes into a network while it runs, recorded, and cut into the batches that a quantizer takes.

    recorder = Recorder("calib")                    # in the loop
    recorder.tap("sample", latents)

    batches = CalibrationSet.load("calib").for_model("unet.onnx")      # afterwards
    quantize_static("unet.onnx", "unet-int8.onnx", batches.reader())

or `python -m sluice.live.calibrate calib --model unet.onnx -o calib.npz`. docs/live-calibration.md has a whole program."""
from __future__ import annotations

import argparse
import bisect
import itertools
import os
import pathlib
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ._recorder import RECORDS, Recorder, save
from ._values import closest, did_you_mean

__all__ = ["Batches", "CalibrationError", "CalibrationSet", "Reader", "Recorder"]

Arrays = dict[str, np.ndarray[Any, Any]]


class CalibrationError(ValueError):
    """A recording that does not fit a model: every reason, each on a line of its own."""


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
        pass  # the package says less about a file that cannot be read
    try:
        import onnx
    except ImportError:
        raise ImportError(f"nothing can read {path}: pip install onnx") from None
    try:
        graph = onnx.load(path, load_external_data=False).graph  # their types and shapes are in the file itself
    except Exception as error:  # protobuf's, which have no common base that is public
        raise ValueError(f"{path} is not an ONNX model: {error}") from None
    if not graph.node:
        raise ValueError(f"{path} is not an ONNX model: it has no nodes")
    stored, found = {each.name for each in graph.initializer}, []
    for each in graph.input:
        if each.name in stored:
            continue
        if not each.type.HasField("tensor_type"):
            raise ValueError(f"{path}: the input {each.name} is no tensor")
        tensor = each.type.tensor_type
        dims = tuple(dim.dim_value if dim.dim_value > 0 else dim.dim_param or None for dim in tensor.shape.dim)
        found.append(Input(each.name, dims if tensor.HasField("shape") else None, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)))
    return found


class CalibrationSet:
    """A recording: the folder of a Recorder. Records are read when they are needed, one at a time."""

    def __init__(self, records: Sequence[pathlib.Path]) -> None:
        self._records = list(records)

    @classmethod
    def load(cls, where: str | pathlib.Path) -> CalibrationSet:
        """Raises CalibrationError if there are no records."""
        records = sorted(pathlib.Path(where).glob(RECORDS))
        if not records:
            raise CalibrationError(f"{where} has no records: Recorder({str(where)!r}) writes them, as {RECORDS}")
        return cls(records)

    def __len__(self) -> int:
        return len(self._records)

    def for_model(self, model: str | pathlib.Path, ignore: Iterable[str] = ()) -> Batches:
        """The batches for an ONNX file, of which the package onnx reads the inputs. `ignore`: recorded tensors that are not for this
        model.

        Raises CalibrationError, which names each tensor with a wrong name, type or shape, with NaN or Inf; ImportError without the
        package."""
        inputs, problems, first = inputs_of(model), _Problems(), dict[str, tuple[int, ...]]()
        for each in inputs:
            if not each.shape:
                why = "has no dimension" if each.shape == () else "tells no shape"
                problems.add(f"{each.name}: this input of the model {why}, so there is nothing to cut into batches")
        counts = [_count(inputs, path, set(ignore), first, problems) for path in self._records]
        if problems:
            raise CalibrationError(f"the recording does not fit {model}:\n{problems.text(len(self))}")
        return Batches(inputs, self._records, counts)


class _Problems(dict[str, list[str]]):
    """Each kind once, with the records that have it."""

    def add(self, problem: str, *record: str) -> None:
        self.setdefault(problem, []).extend(record)

    def text(self, count: int) -> str:
        return "\n".join(f"  {problem}" + (f" ({len(where)} of {count} records, first {where[0]})" if where else "")
                         for problem, where in self.items())


def _count(inputs: list[Input], path: pathlib.Path, ignore: set[str], first: dict[str, tuple[int, ...]],
           problems: _Problems) -> int:
    """How many batches a record gives. `first`: the shapes in the first record."""
    try:
        arrays = _read(path)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        problems.add(f"a record cannot be read: {error}", path.name)
        return 0
    names = {each.name for each in inputs}
    for name in sorted(arrays.keys() - names - ignore):
        problems.add(f"{name}: the model has no such input{did_you_mean(closest(name, names - arrays.keys()))}", path.name)
    groups = dict[str, int]()
    for each in inputs:
        array = arrays.get(each.name)
        if array is None:
            problems.add(f"{each.name}: the model's input is not recorded", path.name)
        elif wrong := _wrong(each, array, first.setdefault(each.name, array.shape)):
            problems.add(f"{each.name}: {wrong}", path.name)
        else:
            groups[each.name] = len(array) // each.rows
    most = max(groups.values(), default=0)
    for name in groups:
        if groups[name] not in (1, most):
            problems.add(f"{name}: it has {groups[name]} groups of rows, and other inputs have {most}: it must be as many, or one",
                         path.name)
    return most


def _wrong(wanted: Input, array: np.ndarray[Any, Any], first: tuple[int, ...]) -> str | None:
    shape, dtype = wanted.shape or (), wanted.dtype
    fixed = [(size, dim) for size, dim in zip(array.shape[1:], shape[1:]) if isinstance(dim, int)]
    if len(array.shape) != len(shape) or any(size != dim for size, dim in fixed):
        return f"the shape {_text(array.shape)} is recorded, and the model takes {_text(shape)}"
    if array.shape[1:] != first[1:]:
        return f"the shape {_text(array.shape)} is recorded, and {_text(first)} before: a set has one size"
    if len(array) % wanted.rows or not len(array):
        return f"{len(array)} rows are recorded, and the model takes groups of {wanted.rows}"
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        return f"{array.dtype} is recorded, and the model takes {dtype}"
    if bad := [what for what, is_bad in (("NaN", np.isnan), ("Inf", np.isinf)) if is_bad(array).any()]:
        return f"it has {' and '.join(bad)}"
    with np.errstate(over="ignore"):
        converted = array.astype(dtype)
    fits = np.array_equal(converted, array) if dtype.kind in "biu" else np.isfinite(converted).all()
    return None if fits else f"it has values that {dtype} cannot hold"


def _read(path: pathlib.Path) -> Arrays:
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def _text(shape: Iterable[int | str | None]) -> str:
    return f"({', '.join('?' if dim is None else str(dim) for dim in shape)})"


class Batches:
    """What for_model() returns: `len(batches)` batches, {name of the input: array}. In each, an input has as many rows as its first
    dimension in the model, or one if that is not fixed. A record gives as many batches as it has such groups of rows. If an input
    has a single group there, such as a pair of keys and values, all of them have this group: none is ever split."""

    def __init__(self, inputs: Sequence[Input], records: Sequence[pathlib.Path], iterations: Sequence[int]) -> None:
        self.inputs = tuple(inputs)
        self._records, self._ends = list(records), list(itertools.accumulate(iterations))
        self._loaded: tuple[int, Arrays] = (-1, {})

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, number: int) -> Arrays:
        if not 0 <= number < len(self):
            raise IndexError(f"there are {len(self)} batches: there is no batch {number}")
        record = bisect.bisect_right(self._ends, number)
        arrays = self._arrays(record)
        within = number - (self._ends[record - 1] if record else 0)
        batch = {}
        for each in self.inputs:
            array = arrays[each.name]
            begin = 0 if len(array) == each.rows else within * each.rows
            batch[each.name] = array[begin:begin + each.rows]
        return batch

    def _arrays(self, record: int) -> Arrays:
        if self._loaded[0] != record:
            arrays = _read(self._records[record])
            self._loaded = record, {each.name: arrays[each.name].astype(each.dtype, copy=False) for each in self.inputs}
        return self._loaded[1]

    def as_dict(self) -> Arrays:
        """All batches, one behind another: of every input `len(batches)` times the rows of its first dimension. This is the
        `calibration_data` of NVIDIA's Model Optimizer."""
        whole = {name: np.empty((len(self) * len(array), *array.shape[1:]), array.dtype) for name, array in self[0].items()}
        for number in range(len(self)):
            for name, array in self[number].items():
                whole[name][number * len(array):(number + 1) * len(array)] = array
        return whole

    def reader(self) -> Reader:
        """A `calibration_data_reader` for onnxruntime's quantize_static() and for Model Optimizer: one record is in memory."""
        return Reader(self)


class Reader:
    """Of onnxruntime's kind CalibrationDataReader: one batch after another."""

    def __init__(self, batches: Batches) -> None:
        self._batches, self._begin, self._end, self._at = batches, 0, len(batches), 0

    def get_next(self) -> Arrays | None:
        """The next batch, {name of the input: array}; None behind the last."""
        if self._at == self._end:
            return None
        self._at += 1
        return self._batches[self._at - 1]

    def get_first(self) -> Arrays:
        """The first batch; the next one stays the same."""
        return self._batches[self._begin]

    def rewind(self) -> None:
        """The first batch is the next one."""
        self._at = self._begin

    def set_range(self, start_index: int, end_index: int) -> None:
        """Only the batches from `start_index` up to, and without, `end_index`."""
        self._begin = min(max(start_index, 0), len(self))
        self._end = max(self._begin, min(end_index, len(self)))
        self._at = self._begin

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Arrays]:
        return iter(self.get_next, None)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sluice.live.calibrate", allow_abbrev=False,
                                     description="Makes a calibration set for an ONNX model from a recording of its inputs.")
    parser.add_argument("recording", metavar="RECORDING", help="the folder of a Recorder")
    parser.add_argument("--model", required=True, metavar="MODEL.onnx", help="the model that will be quantized")
    parser.add_argument("-o", "--output", required=True, metavar="FILE.npz",
                        help="the set, an array for each input: the calibration data of NVIDIA's Model Optimizer")
    parser.add_argument("--ignore", action="append", default=[], metavar="NAME",
                        help="a recorded tensor that is not for this model; may be repeated")
    options = parser.parse_args(arguments)
    try:
        records = CalibrationSet.load(options.recording)
        batches = records.for_model(options.model, options.ignore)
        whole = batches.as_dict()
        save(pathlib.Path(options.output), whole)
    except (OSError, ValueError, ImportError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    shapes = ", ".join(f"{name} {_text(array.shape)}" for name, array in whole.items())
    print(f"{options.output}: {len(batches)} batches from {len(records)} records: {shapes}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
