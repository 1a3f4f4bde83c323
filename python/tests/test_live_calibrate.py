# SPDX-License-Identifier: MIT
"""Calibration sets: recorded beside a loop, cut for a model, and used by onnxruntime's own quantizer."""
import logging
import os
import pathlib
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import sluice
from eventually import wait_until
from sluice.live.calibrate import CalibrationError, CalibrationSet, Recorder, inputs_of, main

ROOT = pathlib.Path(__file__).parents[2]
FRAMES = 5
SHAPES = {"sample": (1, 4), "kv": (2, 3, 4)}  # of one batch


def needs(*packages):
    for name in packages:
        pytest.importorskip(name, reason=f"{name} is not installed")


@pytest.fixture
def model(tmp_path):
    """sample, of any number of rows, and kv: a pair of keys and values, of which the first dimension is 2."""
    needs("onnx", "onnxruntime")
    return build(tmp_path / "model.onnx")


def build(path, sample="FLOAT"):
    import onnx.parser
    from onnx import numpy_helper
    graph = onnx.parser.parse_model(f"""
<ir_version: 8, opset_import: ["": 17]>
attention ({sample.lower()}[batch, 4] sample, float[2, tokens, 4] kv) => (float[batch, 4] out)
<int64 zero = {{0}}, int64 one = {{1}}>
{{
    numbers = Cast<to = 1>(sample)
    query = MatMul(numbers, weights)
    keys = Gather(kv, zero)
    values = Gather(kv, one)
    across = Transpose<perm = [1, 0]>(keys)
    scores = MatMul(query, across)
    shares = Softmax(scores)
    out = MatMul(shares, values)
}}""")
    weights = np.random.default_rng(1).normal(0, 0.5, (4, 4)).astype(np.float32)
    graph.graph.initializer.append(numpy_helper.from_array(weights, "weights"))
    onnx.save(graph, path)
    return path


def frame(number, rows=1):
    random = np.random.default_rng(number)
    keys = random.normal(0, 1, (1, 3, 4))
    return {"sample": random.normal(0, 1, (rows, 4)).astype(np.float32),
            "kv": np.concatenate([keys, 10 + keys]).astype(np.float32)}  # so that keys and values are easily told apart


def record(where, frames, every=1, **options):
    with Recorder(where, every=every, **options) as recorder:
        for each in frames:
            for name, tensor in each.items():
                recorder.tap(name, tensor)
            wait_until(lambda: recorder._work.empty())  # a test has no patience for the disk, and must lose no record
    return where


def split(data):
    """What Model Optimizer 0.47.0 makes of `calibration_data`, by CalibrationDataProvider.__init__() in
    modelopt/onnx/quantization/calib_utils.py: the first name of the sorted ones tells how many parts, and all are cut into as many,
    whatever comes out. get_input_names() in modelopt/onnx/utils.py sorts."""
    names = sorted(SHAPES)
    count = int(len(data[names[0]]) / SHAPES[names[0]][0])
    parts = {name: np.array_split(data[name], count) for name in names}
    return [{name: parts[name][number] for name in names} for number in range(count)]


def assert_frames(batches, frames):
    assert len(batches) == len(frames)
    for batch, wanted in zip(batches, frames):
        assert batch.keys() == wanted.keys()
        assert all(np.array_equal(batch[name], wanted[name]) for name in wanted)


# ---- recording ----

def test_every_third_run_up_to_the_limit(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    record(tmp_path / "calib", [frame(number) for number in range(20)], every=3, limit=4)
    records = CalibrationSet.load(tmp_path / "calib")
    assert len(records) == 4
    assert_frames([dict(np.load(path)) for path in records._records], [frame(number) for number in (0, 3, 6, 9)])
    assert [each.getMessage() for each in caplog.records] == [
        f"{tmp_path / 'calib'}: 4 records, as many as were asked for: recording has ended"]


def test_a_restarted_program_goes_on_there(tmp_path):
    for begin in (0, 2, 4):
        record(tmp_path, [frame(begin), frame(begin + 1)], limit=5)
    assert_frames([dict(np.load(path)) for path in sorted(tmp_path.iterdir())], [frame(number) for number in range(5)])


def test_a_tensor_is_recorded_as_it_was(tmp_path):
    """The loop uses the same memory again at once."""
    memory, samples = np.zeros((1, 4), np.float32), [np.full((1, 4), number, np.float32) for number in range(9)]
    with Recorder(tmp_path, every=1) as recorder:
        for each in samples:
            memory[:] = each
            recorder.tap("sample", memory)
            wait_until(lambda: recorder._work.empty())
    assert_frames([dict(np.load(path)) for path in sorted(tmp_path.iterdir())], [{"sample": each} for each in samples])


def test_a_records_tensors_belong_together(tmp_path):
    """Also if not every run has all, and if the last one is left half way."""
    with Recorder(tmp_path, every=1) as recorder:
        for number in range(4):
            recorder.next()
            for name, tensor in frame(number).items():
                if name == "kv" or number % 2:
                    recorder.tap(name, tensor)
            wait_until(lambda: recorder._work.empty())
        recorder.next()
        recorder.tap("sample", frame(4)["sample"])
    wanted = [{name: tensor for name, tensor in frame(number).items() if name == "kv" or number % 2} for number in range(4)]
    assert_frames([dict(np.load(path)) for path in sorted(tmp_path.iterdir())], wanted)


@pytest.mark.parametrize("name", ["file", "arr_0", "/down/0/kv:1", "a b.npy", "größe"])
def test_any_name(tmp_path, name):
    record(tmp_path, [{name: np.ones((1, 4), np.float32)}])
    assert list(np.load(tmp_path / "record-000000.npz")) == [name]


@pytest.mark.parametrize("tensor", [[1.0], 1.0, "text", np.array(["text"]), np.array([1j]), np.array([None])], ids=str)
def test_what_is_no_tensor(tmp_path, tensor):
    with Recorder(tmp_path) as recorder, pytest.raises(TypeError, match="sample: .* cannot be recorded"):
        recorder.tap("sample", tensor)
    for wrong in ({"every": 0}, {"limit": 0}):
        with pytest.raises(ValueError, match="must be at least 1"):
            Recorder(tmp_path, **wrong)


def test_types_that_numpy_does_not_have(tmp_path):
    needs("ml_dtypes")
    import ml_dtypes
    record(tmp_path, [{"sample": np.array([[1.5]], ml_dtypes.bfloat16)}])
    array = np.load(tmp_path / "record-000000.npz")["sample"]
    assert array.dtype == np.float32 and array.tolist() == [[1.5]]


def test_pytorch_in_host_memory(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    tensor = torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last).requires_grad_()
    with Recorder(tmp_path, every=1) as recorder:
        recorder.tap("sample", tensor)
        recorder.tap("half", tensor.to(torch.bfloat16))
        with torch.no_grad():
            tensor.zero_()
    arrays = np.load(tmp_path / "record-000000.npz")
    assert arrays["half"].dtype == np.float32
    assert all(np.array_equal(arrays[name], np.arange(24.0).reshape(1, 2, 3, 4)) for name in ("sample", "half"))


def test_a_full_disk_is_said_once_and_loses_nothing(tmp_path, run):
    """A limit of the size of files stands for it: the system refuses to write."""
    said = run(f"""
import logging, resource, sys
import numpy as np
from sluice.live.calibrate import Recorder
logging.basicConfig(stream=sys.stdout, format="%(message)s")
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
with Recorder({str(tmp_path)!r}, every=1) as recorder:
    for size in (10, 20, 100_000, 30, 100_000):
        recorder.tap("sample", np.full((1, size), size, np.float32))
        while not recorder._work.empty():
            pass
print(recorder.records)
""")
    assert said.splitlines() == [f"{tmp_path}: recording has ended after 2 records, which stay: [Errno 27] File too large", "2"]
    assert sorted(os.listdir(tmp_path)) == ["record-000000.npz", "record-000001.npz"]
    assert [np.load(path)["sample"].shape for path in sorted(tmp_path.iterdir())] == [(1, 10), (1, 20)]


def test_a_killed_program_leaves_whole_records(tmp_path):
    code = f"""
import itertools
import numpy as np
from sluice.live.calibrate import Recorder
recorder = Recorder({str(tmp_path)!r}, every=1, limit=1_000_000)
for number in itertools.count():
    recorder.tap("sample", np.full((1, 100_000), number, np.float32))
"""
    child = subprocess.Popen([sys.executable, "-c", code])
    wait_until(lambda: len(list(tmp_path.glob("record-*.npz"))) >= 3)
    child.send_signal(signal.SIGKILL)
    child.wait()
    for path in CalibrationSet.load(tmp_path)._records:
        array = np.load(path)["sample"]
        assert (array == array[0, 0]).all()


def test_a_slow_disk_does_not_hold_the_loop_up(tmp_path):
    """The first file is a pipe: the thread stands still until somebody reads it."""
    os.mkfifo(tmp_path / "record-000000.npz.part")
    recorder = Recorder(tmp_path, every=1)
    for number in range(100):
        recorder.tap("sample", frame(number)["sample"])
    recorder.next()
    assert recorder.records == 0 and recorder.skipped >= 100 - 1 - 4  # the one at the disk, those that wait
    with open(tmp_path / "record-000000.npz.part", "rb") as pipe:
        pipe.read()
    recorder.close()
    (tmp_path / "record-000000.npz").unlink()
    later = [dict(np.load(path)) for path in sorted(tmp_path.iterdir())]
    assert_frames(later[:3], [{"sample": frame(number)["sample"]} for number in (1, 2, 3)])


# ---- batches ----

def test_of_every_input_its_own_rows(tmp_path, model):
    frames = [frame(number) for number in range(FRAMES)]
    batches = CalibrationSet.load(record(tmp_path / "calib", frames)).for_model(model)
    data = batches.as_dict()
    assert list(data) == ["sample", "kv"] and [len(array) for array in data.values()] == [FRAMES, 2 * FRAMES]
    assert_frames(split(data), frames)
    assert_frames(list(batches.reader()), frames)


def test_a_pair_for_several_rows_is_repeated_whole(tmp_path, model):
    """A batch of three goes through one row at a time, beside the pair that was there."""
    frames = [frame(number, rows=3) for number in range(2)]
    batches = CalibrationSet.load(record(tmp_path / "calib", frames)).for_model(model)
    wanted = [{"sample": each["sample"][row:row + 1], "kv": each["kv"]} for each in frames for row in range(3)]
    assert [len(array) for array in batches.as_dict().values()] == [6, 12]
    assert_frames(split(batches.as_dict()), wanted)
    assert_frames(list(batches.reader()), wanted)


def test_model_optimizers_own_class(tmp_path, model):
    utils = pytest.importorskip("modelopt.onnx.quantization.calib_utils", reason="nvidia-modelopt[onnx] is not installed")
    frames = [frame(number) for number in range(FRAMES)]
    batches = CalibrationSet.load(record(tmp_path / "calib", frames)).for_model(model)
    assert_frames(utils.CalibrationDataProvider(str(model), batches.as_dict()).calibration_data_list, frames)
    assert_frames(split(batches.as_dict()), frames)


def test_the_reader(tmp_path, model):
    frames = [frame(number) for number in range(FRAMES)]
    reader = CalibrationSet.load(record(tmp_path / "calib", frames)).for_model(model).reader()
    assert len(reader) == FRAMES
    assert_frames([reader.get_first(), *reader], [frames[0], *frames])
    assert reader.get_next() is None
    reader.rewind()
    assert_frames(list(reader), frames)
    reader.set_range(start_index=1, end_index=3)
    assert_frames([reader.get_first(), *reader], [frames[1], *frames[1:3]])


class Parts:
    """A reader of parts that somebody else cut."""

    def __init__(self, parts):
        self._parts = iter(parts)

    def get_next(self):
        return next(self._parts, None)


def quantize(model, reader, **options):
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
    assert isinstance(reader, CalibrationDataReader)
    to = model.with_name("quantized.onnx")
    quantize_static(model, to, reader, activation_type=QuantType.QInt8, weight_type=QuantType.QInt8, **options)
    return to


@pytest.mark.parametrize("options", [{}, {"extra_options": {"CalibStridedMinMax": 1}}], ids=["at once", "by ranges"])
def test_onnxruntime_quantizes_with_it(tmp_path, model, options):
    import onnxruntime
    frames = [frame(number) for number in range(FRAMES)]
    quantized = quantize(model, CalibrationSet.load(record(tmp_path / "calib", frames)).for_model(model).reader(), **options)
    whole, small = (onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]) for path in (model, quantized))
    for each in frames:
        wanted, got = whole.run(None, each)[0], small.run(None, each)[0]
        assert np.abs(wanted - got).max() < 0.5 and np.abs(wanted).max() > 5
    import onnx
    assert any(node.op_type == "QuantizeLinear" for node in onnx.load(quantized).graph.node)


def test_naive_tiling_fails(tmp_path, model):
    """As many rows of each input as there are frames, or each row as often: the split makes no batches of the model of that."""
    frames = [frame(number) for number in range(FRAMES)]
    sample = np.concatenate([each["sample"] for each in frames])
    rows = split({"sample": sample, "kv": np.resize(frames[0]["kv"], (FRAMES, 3, 4))})
    assert {part["kv"].shape[0] for part in rows} != {2}
    with pytest.raises(Exception, match="(?i)got invalid dimensions for input: kv"):
        quantize(model, Parts(rows))
    repeated = split({"sample": sample, "kv": np.repeat(frames[0]["kv"], FRAMES, axis=0)})
    assert {part["kv"].shape for part in repeated} == {SHAPES["kv"]}  # it runs, on keys without their values
    assert not any(np.array_equal(part["kv"], frames[0]["kv"]) for part in repeated[:2])


# ---- what does not fit ----

def problems(where, model, ignore=()):
    with pytest.raises(CalibrationError) as caught:
        CalibrationSet.load(where).for_model(model, ignore)
    first, *rest = str(caught.value).splitlines()
    assert first == f"the recording does not fit {model}:"
    return [each.strip() for each in rest]


def test_all_that_is_wrong_at_once(tmp_path, model):
    bad = [frame(number) for number in range(FRAMES)]
    bad[1]["sample"][0, 2] = np.nan
    bad[2]["kv"] = bad[2]["kv"][:1]
    bad[3]["sample"], bad[3]["kv"][0, 0, 0] = np.ones((1, 5), np.float32), -np.inf
    bad[4]["samples"] = bad[4].pop("sample")
    bad[4]["picture"] = np.ones((1, 4), np.float32)
    assert problems(record(tmp_path / "calib", bad), model) == [
        "sample: it has NaN (1 of 5 records, first record-000001.npz)",
        "kv: 1 rows are recorded, and the model takes groups of 2 (1 of 5 records, first record-000002.npz)",
        "sample: the shape (1, 5) is recorded, and the model takes (batch, 4) (1 of 5 records, first record-000003.npz)",
        "kv: it has Inf (1 of 5 records, first record-000003.npz)",
        "picture: the model has no such input (1 of 5 records, first record-000004.npz)",
        "samples: the model has no such input; did you mean sample? (1 of 5 records, first record-000004.npz)",
        "sample: the model's input is not recorded (1 of 5 records, first record-000004.npz)"]


@pytest.mark.parametrize("change, problem", [
    ({"kv": np.ones((2, 7, 4), np.float32)},
     "kv: the shape (2, 7, 4) is recorded, and (2, 3, 4) before: a set has one size"),
    ({"kv": np.ones((2, 4), np.float32)}, "kv: the shape (2, 4) is recorded, and the model takes (2, tokens, 4)"),
    ({"kv": np.ones((0, 3, 4), np.float32)}, "kv: 0 rows are recorded, and the model takes groups of 2"),
    ({"kv": np.ones((4, 3, 4), np.float32), "sample": np.ones((3, 4), np.float32)},
     "kv: it has 2 groups of rows, and other inputs have 3: it must be as many, or one"),
    ({"sample": np.full((1, 4), 1e300)}, "sample: it has values that float32 cannot hold"),
    ({"sample": np.array([[np.nan, np.inf, 0, 0]])}, "sample: it has NaN and Inf"),
])
def test_what_is_wrong(tmp_path, model, change, problem):
    found = problems(record(tmp_path / "calib", [frame(0), {**frame(1), **change}]), model)
    assert found == [f"{problem} (1 of 2 records, first record-000001.npz)"]


def test_types(tmp_path):
    needs("onnx", "onnxruntime")
    to_int = build(tmp_path / "int.onnx", sample="INT32")
    ints = {**frame(0), "sample": np.arange(4).reshape(1, 4)}
    batch = CalibrationSet.load(record(tmp_path / "ints", [ints])).for_model(to_int)[0]
    assert batch["sample"].dtype == np.int32 and batch["sample"].tolist() == [[0, 1, 2, 3]]
    where = " (1 of 1 records, first record-000000.npz)"
    assert problems(record(tmp_path / "floats", [frame(0)]), to_int) == [
        f"sample: float32 is recorded, and the model takes int32{where}"]
    assert problems(record(tmp_path / "large", [{**ints, "sample": ints["sample"] + 2**40}]), to_int) == [
        f"sample: it has values that int32 cannot hold{where}"]
    to_half = build(tmp_path / "half.onnx", sample="FLOAT16")
    assert CalibrationSet.load(tmp_path / "floats").for_model(to_half)[0]["sample"].dtype == np.float16
    whole = build(tmp_path / "whole.onnx")
    assert CalibrationSet.load(tmp_path / "ints").for_model(whole)[0]["sample"].dtype == np.float32


def test_ignored_and_damaged(tmp_path, model):
    where = record(tmp_path / "calib", [{**frame(number), "control": np.ones(3)} for number in range(2)])
    assert problems(where, model) == ["control: the model has no such input (2 of 2 records, first record-000000.npz)"]
    assert len(CalibrationSet.load(where).for_model(model, ignore=["control"])) == 2
    last = where / "record-000001.npz"
    last.write_bytes(last.read_bytes()[:100])
    found, = problems(where, model, ["control"])
    assert found.startswith("a record cannot be read: ") and found.endswith("(1 of 2 records, first record-000001.npz)")
    with pytest.raises(CalibrationError, match=r"has no records: Recorder\('.*'\) writes them, as record-\*.npz"):
        CalibrationSet.load(tmp_path / "nowhere")


def test_the_inputs_of_a_model(model):
    inputs = inputs_of(model)
    assert inputs == [("sample", ("batch", 4), np.float32), ("kv", (2, "tokens", 4), np.float32)]
    assert [each.rows for each in inputs] == [1, 2]


def test_without_the_package(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=f"nothing can read {re.escape(str(model))}: pip install onnx"):
        inputs_of(model)


# ---- the command, and the page's program ----

def calibrate(*arguments):
    return subprocess.run([sys.executable, "-m", "sluice.live.calibrate", *map(str, arguments)], capture_output=True, text=True)


def test_the_command(tmp_path, model):
    frames = [frame(number) for number in range(FRAMES)]
    where = record(tmp_path / "calib", [{**each, "control": np.ones(3)} for each in frames])
    done = calibrate(where, "--model", model, "--ignore", "control", "-o", tmp_path / "calib.npz")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path / 'calib.npz'}: 5 batches from 5 records: sample (5, 4), kv (10, 3, 4)\n"
    assert_frames(split(dict(np.load(tmp_path / "calib.npz"))), frames)


def test_what_the_command_refuses(tmp_path, model, capsys):
    where = record(tmp_path / "calib", [{"sample": frame(0)["sample"]}])
    (tmp_path / "text.onnx").write_text("no model")
    output = tmp_path / "calib.npz"
    for arguments, said in [
            ((where, "--model", model), "kv: the model's input is not recorded"),
            ((where, "--model", tmp_path / "none.onnx"), "No such file or directory"),
            ((where, "--model", tmp_path / "text.onnx"), "text.onnx is not an ONNX model"),
            ((tmp_path / "none", "--model", model), "none has no records"),
            ((where, "--model", model, "-o", tmp_path / "none" / "calib.npz"), "kv: ")]:
        assert main([str(each) for each in (*arguments, *(() if "-o" in arguments else ("-o", output)))]) == 2
        text = capsys.readouterr().err
        assert text.startswith("python -m sluice.live.calibrate: ") and said in text
    assert not output.exists()
    done = calibrate(where, "-o", output)
    assert done.returncode == 2 and "--model" in done.stderr and "Traceback" not in done.stderr


def test_the_pages_program(tmp_path):
    needs("onnx", "onnxruntime")
    import onnx.parser
    import onnxruntime
    model = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["": 17]>
network (float[batch, 3, height, width] picture, float[1, 2] style) => (float[batch, 3, height, width] painted)
{
    share = ReduceMean<axes = [0, 1], keepdims = 0>(style)
    colours = Conv(picture, weights)
    painted = Mul(colours, share)
}""")
    weights = np.random.default_rng(1).normal(0, 0.5, (3, 3, 1, 1)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "weights"))
    onnx.save(model, tmp_path / "model.onnx")
    program = subprocess.Popen([sys.executable, ROOT / "python" / "examples" / "live_calibration.py", "model.onnx"], cwd=tmp_path,
                               stdout=subprocess.PIPE, text=True)
    picture = np.random.default_rng(2).integers(0, 256, (48, 64, 4), np.uint8)
    with sluice.Writer("camera", sluice.Image("rgba", 64, 48)) as writer:
        def recorded():
            frame = writer.try_frame()
            if frame is not None:
                with frame:
                    frame.numpy()[:] = picture
            return program.poll() is not None or len(list((tmp_path / "calib").glob("record-*.npz"))) >= 2

        wait_until(recorded)
    said = program.communicate()[0]
    assert program.returncode == 0
    count, batches = re.fullmatch(r"(\d+) runs recorded, (\d+) batches\n", said).groups()
    assert count == batches and int(count) >= 2
    first = dict(np.load(tmp_path / "calib" / "record-000000.npz"))
    assert first["picture"].shape == (1, 3, 64, 64) and first["picture"].min() < -0.5 and first["picture"].max() > 0.5
    onnxruntime.InferenceSession(tmp_path / "quantized.onnx", providers=["CPUExecutionProvider"]).run(None, first)
