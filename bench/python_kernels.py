# SPDX-License-Identifier: MIT
"""For python/bench_gpu.py: a launch of a kernel with four arguments that does nothing, by Sluice, by what else Python programs use, and
by the driver alone from C (python_launch.c). All are of one process and take turns.

Each is used as its documents say that it is fastest: what can be made in advance, is. Sluice and cuda.core get addresses, which the
goal is for; Sluice gets tensors, too, as CuPy, Triton and PyTorch do. A sample is the mean of a few launches in a row,
as a program makes them for one picture; the GPU is idle before."""
import contextlib
import ctypes
import os
import pathlib
import subprocess
import tempfile

from python_kit import DEVICE, note, now, with_goal
from rows import row

GROUP = 10
OVER_BARE, OVER_CORE = 1500, 1.05  # ns; factor: the goal
THREADS = 32
SOURCE = """
extern "C" __global__ void check(const int *words, unsigned long long count, int value, int *bad)
{
    if (threadIdx.x < count && words[threadIdx.x] != value)
        *bad = 1;
}
"""
PTX = b""".version 6.4
.target sm_50
.address_size 64
.visible .entry check(.param .u64 words, .param .u64 count, .param .u32 value, .param .u64 bad)
{
    ret;
}
"""
NON_BLOCKING = 1


class Missing(Exception):
    """What is needed for a way is not there."""


class Driver:
    """CUDA's driver by ctypes, in the primary context of GPU 0. The tests' fake one has separate entry points for others than Sluice."""

    def __init__(self):
        self.library = ctypes.CDLL(os.environ.get("SLUICE_CUDA_DRIVER") or "libcuda.so.1")
        self.prefix = "test_cu" if hasattr(self.library, "test_cuInit") else "cu"
        self.context = ctypes.c_void_p()
        self.call("Init", 0)
        self.call("DevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("CtxSetCurrent", self.context)

    def function(self, name):
        return getattr(self.library, self.prefix + name)

    def call(self, name, *arguments):
        code = self.function(name)(*arguments)
        if code:
            raise RuntimeError(f"cu{name} returned {code}")

    def memory(self):
        """A page of GPU memory, as an address."""
        address = ctypes.c_void_p()
        self.call("MemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4096))
        return address.value

    def stream(self):
        stream = ctypes.c_void_p()
        self.call("StreamCreateWithPriority", ctypes.byref(stream), NON_BLOCKING, 0)
        return stream.value

    def synchronize(self):
        self.call("CtxSynchronize")

    def kernel(self):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("ModuleLoadData", ctypes.byref(module), PTX)
        self.call("ModuleGetFunction", ctypes.byref(function), module, b"check")
        return function


class Interface:
    """Memory as arrays of other libraries show it."""

    def __init__(self, address):
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (1024,), "typestr": "<i4", "strides": None, "version": 3}


# ---- ways: each gives a function that launches once. `stream` is the driver's, `words` and `bad` are addresses ----

def by_sluice(words, bad, stream, bound=False):
    import sluice
    try:
        kernel = sluice.Kernels(SOURCE, device=DEVICE, name="bench.cu").check
    except sluice.UnsupportedError as error:  # without NVRTC
        raise Missing(str(error)) from None
    if stream is None:
        on = sluice.Stream.default(DEVICE)
    else:
        on = sluice.Stream.from_handle(stream, DEVICE)
    if not bound:
        return lambda: kernel(words, 0, 7, bad, grid=1, block=THREADS, stream=on)
    kernel = kernel.on(on)
    return lambda: kernel(words, 0, 7, bad, grid=1, block=THREADS)


def by_cuda_core(words, bad, stream):
    import numpy
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, Stream, launch
    device = Device(0)
    device.set_current()
    kernel = Program(SOURCE, code_type="c++", options=ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("check")
    on = device.default_stream if stream is None else Stream.from_handle(stream)
    config, count, value = LaunchConfig(grid=1, block=THREADS), numpy.uint64(0), numpy.int32(7)
    return lambda: launch(on, config, kernel, words, count, value, bad)


def by_cupy(words, bad, stream):
    import cupy
    import numpy
    kernel, count, value = cupy.RawKernel(SOURCE, "check"), numpy.uint64(0), numpy.int32(7)
    one, two = (cupy.ndarray(1024, "i4", cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(address, 4096, None), 0)) for address in (words, bad))
    on = cupy.cuda.Stream.null if stream is None else cupy.cuda.ExternalStream(stream)

    def launch():
        kernel((1,), (THREADS,), (one, count, value, two))

    launch.around = on
    return launch


def by_triton(torch, words, bad, stream):
    try:
        import triton
    except ImportError as error:
        raise Missing(str(error)) from None

    @triton.jit
    def nothing(words, count, value, bad):
        pass

    def launch():
        nothing[(1,)](words, 0, 7, bad, num_warps=1)

    launch.around = torch.cuda.stream(torch.cuda.default_stream() if stream is None else torch.cuda.ExternalStream(stream))
    return launch


def by_torch(torch, words, stream):
    def launch():
        words.add_(0)

    launch.around = torch.cuda.stream(torch.cuda.default_stream() if stream is None else torch.cuda.ExternalStream(stream))
    return launch


def bare(driver, words, bad, stream, folder):
    """A function that launches GROUP times and returns the ns."""
    source, library = pathlib.Path(__file__).with_name("python_launch.c"), pathlib.Path(folder, "python_launch.so")
    try:
        subprocess.run([*os.environ.get("CC", "cc").split(), "-O2", "-shared", "-fPIC", "-o", library, source], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Missing(f"no C compiler: {error}") from None
    loop = ctypes.CDLL(str(library)).bench_launch
    loop.restype = ctypes.c_int64
    values = ctypes.c_uint64(words), ctypes.c_uint64(0), ctypes.c_uint32(7), ctypes.c_uint64(bad)
    pointers = (ctypes.c_void_p * 4)(*map(ctypes.addressof, values))
    function, launch = driver.kernel(), driver.function("LaunchKernel")

    def launch_all(keep=values):
        took = loop(launch, function, ctypes.c_void_p(stream), pointers, GROUP)
        if took < 0:
            raise RuntimeError(f"cuLaunchKernel returned {-took}")
        return took

    return launch_all


# ---- measuring ----

def ways_of(torch, driver, stream, folder, report):
    """{name: function that launches GROUP times and returns the ns}."""
    words, bad = driver.memory(), driver.memory()
    addresses = ctypes.c_void_p(words), ctypes.c_void_p(bad)
    makers = {"the driver, from C": None, "sluice": lambda: by_sluice(*addresses, stream),
              "sluice, Kernel.on()": lambda: by_sluice(*addresses, stream, bound=True)}
    if torch:
        tensors = torch.zeros(1024, dtype=torch.int32, device=DEVICE), torch.zeros(1024, dtype=torch.int32, device=DEVICE)
        makers |= {"sluice, tensors": lambda: by_sluice(*tensors, stream),
                   "sluice, __cuda_array_interface__": lambda: by_sluice(Interface(words), Interface(bad), stream),
                   "cuda.core": lambda: by_cuda_core(words, bad, stream), "cupy.RawKernel": lambda: by_cupy(words, bad, stream),
                   "triton": lambda: by_triton(torch, *tensors, stream), "torch, add_": lambda: by_torch(torch, tensors[0], stream)}
    ways = {}
    for name, make in makers.items():
        try:
            launch_all = timed(torch, make(), stream) if make else bare(driver, words, bad, stream, folder)
            launch_all()
            ways[name] = launch_all
        except Exception as error:
            ours = name.startswith(("sluice", "the driver")) and not isinstance(error, (ImportError, Missing))
            why = f"{type(error).__name__}: {error}"[-1000:]
            report["failed" if ours else "missing"].append(
                {"bench": "py_gpu_kernel_launch", "params": {"way": name}, "why": why} if ours else {"rows": f"py_gpu_kernel_launch, {name}", "why": why})
    return ways


def timed(torch, launch, stream):
    """With tensors of PyTorch its current stream is the one that is launched on, so that none waits for another."""
    around = getattr(launch, "around", None)
    if not around and torch:
        around = torch.cuda.stream(torch.cuda.default_stream() if stream is None else torch.cuda.ExternalStream(stream))

    def launch_all():
        with around or contextlib.nullcontext():
            before = now()
            for _ in range(GROUP):
                launch()
            return now() - before

    return launch_all


def take_turns(driver, ways, rounds):
    """{name: samples}: ns of one launch."""
    samples = {name: [] for name in ways}
    for number in range(-max(5, rounds // 20), rounds):
        for name, launch_all in ways.items():
            took = launch_all()
            driver.synchronize()
            if number >= 0:
                samples[name].append(took // GROUP)
    return samples


def rows_of(samples, stream):
    medians = {name: row("", {}, some)["p50_ns"] for name, some in samples.items()}
    limit, core = medians.get("the driver, from C"), medians.get("cuda.core")
    goal = limit and min(limit + OVER_BARE, core * OVER_CORE if core else limit + OVER_BARE)
    for name, some in samples.items():
        each = row("py_gpu_kernel_launch", {"way": name, "stream": stream, "arguments": 4}, some)
        yield with_goal(each, None if name.startswith("the driver") else limit, int(goal) if goal and name in ("sluice", "sluice, Kernel.on()") else None)


def kernels(torch, rounds, report):
    """With `torch` None it uses the GPU that the driver sees."""
    driver = Driver()
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        for name, stream in (("explicit", driver.stream()), ("default", None)):
            note(f"launches of kernels, stream: {name}")
            ways = ways_of(torch, driver, stream, folder, report)
            report["rows"] += rows_of(take_turns(driver, ways, rounds), name)
