# SPDX-License-Identifier: MIT
"""What cuda-link's own README shows of its package, in 1.1 and since: the same calls, by programs that say `import cuda_link` and know
nothing of Sluice. PyTorch and CuPy are stand-ins here; tests/gpu has the real ones."""
import json
import pathlib

import pytest

import child
from cuda_link_kit import a_link
from eventually import STARTS

HERE = pathlib.Path(__file__).parent
BEGIN = f"""
import json, os, sys, types
sys.path.insert(0, {str(HERE)!r})
NAME = sys.argv[2]
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
import gpu_kit
gpu_kit.find()
import stand_ins
torch, cupy = stand_ins.install()
gpu = gpu_kit.Gpu()
current = gpu.stream()
torch.stream = current
torch.cuda.current_stream = lambda device=None: types.SimpleNamespace(cuda_stream=current)
import sluice.cuda_link
sluice.cuda_link.install()
sluice.cuda_link.activation_barrier.SHM_NAME = NAME + "-barrier"

def tell(what):
    print(json.dumps(what), file=answers)

def go_on():
    return sys.stdin.readline()

def seen(frame):
    data = frame.tobytes() if hasattr(frame, "tobytes") else gpu.read(frame.data, frame.nbytes)
    tell([type(frame).__module__.partition(".")[0], list(frame.shape), sorted(set(data))])

class Output:
    "A tensor that a model makes on PyTorch's current stream."
    def __init__(self, nbytes):
        from cuda_link import get_cuda_runtime
        self.nbytes, self.memory = nbytes, get_cuda_runtime().malloc(nbytes)

    def data_ptr(self):
        return self.memory.value

    def fill_(self, value):
        gpu.fill(self.data_ptr(), value, self.nbytes, current)

"""

IMPORTS = """
from cuda_link import Importer, ImportSpec, ImportOutcome
importer = Importer.open(ImportSpec(shm_name=NAME, shape=(4, 6, 4), dtype="uint8", timeout_ms=60000.0))
result = importer.get_frame()
if result.outcome is ImportOutcome.NEW_FRAME:
    tensor = result.frame
    seen(tensor)
go_on()
result = importer.get_frame_numpy()
if result.outcome is ImportOutcome.NEW_FRAME:
    array = result.frame
    seen(array)
go_on()
result = importer.get_frame_cupy()
if result.outcome is ImportOutcome.NEW_FRAME:
    cupy_arr = result.frame
    seen(cupy_arr)
importer.close()
go_on()
with Importer.open(ImportSpec(shm_name=NAME)) as importer:
    for _ in range(100):
        result = importer.get_frame()
        if result.outcome is ImportOutcome.NEW_FRAME:
            tensor = result.frame
            seen(tensor)
importer.close()
"""

IMPORTS_1_1 = """
from cuda_link import CUDAIPCImporter
importer = CUDAIPCImporter(shm_name=NAME, shape=(4, 6, 4), dtype="uint8", debug=False, timeout_ms=60000.0)
if importer.is_ready():
    tensor = importer.get_frame()
    seen(tensor)
go_on()
if importer.is_ready():
    array = importer.get_frame_numpy()
    seen(array)
go_on()
if importer.is_ready():
    cupy_arr = importer.get_frame_cupy()
    seen(cupy_arr)
importer.cleanup()
go_on()
with CUDAIPCImporter(shm_name=NAME) as importer:
    for _ in range(100):
        tensor = importer.get_frame()
        if tensor is not None:
            seen(tensor)
importer.cleanup()
"""

WAITS = """
from cuda_link import Importer, ImportSpec, ImportOutcome
importer = Importer.open(ImportSpec(shm_name=NAME, timeout_ms=60000.0))
tell(importer.get_frame_numpy().outcome.name)
while True:
    result = importer.get_frame_numpy()
    if result.outcome is ImportOutcome.NEW_FRAME:
        break
seen(result.frame)
"""

EXPORTS = """
from cuda_link import Exporter, FrameSpec, GpuFrame
output_tensor = Output(4 * 6 * 4)
with Exporter.open(FrameSpec(shm_name=NAME, height=4, width=6, channels=4, dtype="uint8", num_slots=2)) as exporter:
    tell("open")
    while value := go_on().strip():
        output_tensor.fill_(int(value))
        stream_handle = torch.cuda.current_stream().cuda_stream
        exporter.export(GpuFrame(ptr=output_tensor.data_ptr(), size=output_tensor.nbytes, producer_stream=stream_handle))
"""

EXPORTS_1_1 = """
from cuda_link import CUDAIPCExporter
output_tensor = Output(4 * 6 * 4)
exporter = CUDAIPCExporter(shm_name=NAME, height=4, width=6, channels=4, dtype="uint8", num_slots=2)
exporter.initialize()
tell("open")
while value := go_on().strip():
    output_tensor.fill_(int(value))
    exporter.export_frame(gpu_ptr=output_tensor.data_ptr(), size=output_tensor.nbytes)
exporter.cleanup()
"""

EXPORTS_1_1_AS_CONTEXT = """
from cuda_link import CUDAIPCExporter
tensor = Output(4 * 6 * 4)
with CUDAIPCExporter(shm_name=NAME, height=4, width=6) as exporter:
    exporter.initialize()
    tell("open")
    while value := go_on().strip():
        tensor.fill_(int(value))
        exporter.export_frame(gpu_ptr=tensor.data_ptr(), size=tensor.nbytes)
"""


@pytest.fixture
def link(gpu):
    with a_link() as link:
        yield link


@pytest.fixture
def program(link, tmp_path):
    """Starts one of the above."""
    path = tmp_path / "program.py"
    with child.children(path, STARTS) as start:
        def run(text):
            path.write_text(BEGIN + text)
            return start("program", link.name)
        yield run


def told(program):
    return json.loads(program.read())


@pytest.mark.parametrize("text", [IMPORTS, IMPORTS_1_1], ids=["1.12", "1.1"])
def test_frames_are_imported(link, program, text):
    exporter = link.exporter()
    exporter.export(1)
    assert exporter.settled() == "settled"
    runs = program(text)
    for value, kind in enumerate(("torch", "numpy", "cupy"), 1):
        assert told(runs) == [kind, [4, 6, 4], [value]]
        exporter.export(value + 1)
        assert exporter.settled() == "settled"  # else the frame before may be what is finished
        runs.write("")
    assert told(runs) == ["torch", [4, 6, 4], [4]]
    assert runs.wait() == 0


def test_an_importer_may_be_there_first(link, program):
    runs = program(WAITS)
    assert told(runs) == "RECONNECTING"
    link.exporter().export(5)
    assert told(runs) == ["numpy", [4, 6, 4], [5]]
    assert runs.wait() == 0


@pytest.mark.parametrize("text", [EXPORTS, EXPORTS_1_1, EXPORTS_1_1_AS_CONTEXT], ids=["1.12", "1.1", "1.1, as a context"])
def test_frames_are_exported(link, program, text):
    runs = program(text)
    assert told(runs) == "open"
    importer = link.importer()
    assert importer.stats()["num_slots"] == 2
    for value in range(1, 6):
        runs.write(str(value))
        frame = importer.until("numpy")
        assert frame["value"] == value and frame["whole"] and frame["shape"] == [4, 6, 4]
    runs.write("")
    assert runs.wait() == 0
    assert importer.numpy()["outcome"] == "SHUTDOWN"
