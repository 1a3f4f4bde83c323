# SPDX-License-Identifier: MIT
"""What runs side by side, and what does not, by the time that it takes: the GPU must have nothing else to do. Numbers are those of
the specification's tests. A ratio is the median of five, after one that does not count."""
import functools
import statistics
import threading
import time

import numpy
import pytest

import sluice
from needs import torch
from work import DEVICE, cycles_of_a_millisecond

SOURCE = """
__global__ void spin(long long cycles)
{
    for (long long begin = clock64(); clock64() - begin < cycles;)
        ;
}
__global__ void add(int *x, int by, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        x[i] += by;
}
"""
ONE = {"grid": 1, "block": 1}
SPIN = 50  # ms


@functools.cache
def load():
    return sluice.Kernels(SOURCE, DEVICE)


def spin_on(stream, milliseconds=SPIN):
    load().spin(int(milliseconds * cycles_of_a_millisecond()), stream=stream, **ONE)


def time_of(work):
    sluice.synchronize(DEVICE)
    start = time.perf_counter()
    work()
    sluice.synchronize(DEVICE)
    return time.perf_counter() - start


def ratio(work, whole):
    """How long the one takes, of the other's time."""
    return statistics.median([time_of(work) / time_of(whole) for _ in range(6)][1:])


@pytest.fixture
def streams():
    made = [sluice.Stream(DEVICE) for _ in range(8)]
    yield made
    for stream in made:
        stream.close()


@pytest.mark.parametrize("count, limit", [(2, 0.65), (4, 0.40), (8, 0.25)])
def test_11_12_spins_on_as_many_streams(streams, count, limit):
    def side_by_side():
        for stream in streams[:count]:
            spin_on(stream)

    def one_by_one():
        for _ in range(count):
            spin_on(streams[0])

    assert ratio(side_by_side, one_by_one) <= limit


def test_13_spins_on_one_stream(streams):
    def once():
        spin_on(streams[0])

    def twice():
        once()
        once()

    assert ratio(twice, once) >= 1.8


def test_14_a_wait_waits(streams):
    def in_turn():
        spin_on(streams[0])
        streams[1].wait(streams[0].record())
        spin_on(streams[1])

    assert ratio(in_turn, lambda: spin_on(streams[0])) >= 1.8


def test_15_a_small_kernel_beside_the_default_stream(streams):
    def small():
        start = time.perf_counter()
        spin_on(sluice.Stream.default(DEVICE), 200)
        spin_on(streams[0], 0)
        streams[0].synchronize()
        took = time.perf_counter() - start
        sluice.synchronize(DEVICE)
        return took

    whole = time_of(lambda: spin_on(streams[0], 200))
    assert statistics.median([small() for _ in range(6)][1:]) <= 0.1 * whole


def test_16_parallel_sections_of_two(streams):
    def side_by_side():
        with sluice.parallel(streams[0]) as ways:
            for _ in range(2):
                with ways.branch() as branch:
                    spin_on(branch)

    def one_by_one():
        spin_on(streams[0])
        spin_on(streams[0])

    assert ratio(side_by_side, one_by_one) <= 0.65


def test_16_sections_are_joined_after_an_exception(streams):
    """What the stream does next is behind the slow branch that was left by it."""
    done, seen = torch.zeros(1, dtype=torch.int32, device=DEVICE), []
    torch.cuda.synchronize()
    for number in range(1, 21):
        with pytest.raises(KeyError):
            with sluice.parallel(streams[0]) as ways:
                with ways.branch() as branch:
                    spin_on(branch, 2)
                    with torch.cuda.stream(branch.to_torch()):
                        done.fill_(number)
                    raise KeyError
        with torch.cuda.stream(streams[0].to_torch()):
            seen.append(done.clone())
    torch.cuda.synchronize()
    assert [int(each) for each in seen] == list(range(1, 21))


def test_20_a_thousand_launches_beside_a_thread_that_waits(streams):
    fx, data = load(), numpy.zeros(16, "int32")
    fx.add(data, 1, 16, over=16, stream=streams[1])

    def attempt():
        spin_on(streams[0], 1000)
        thread = threading.Thread(target=streams[0].synchronize)
        thread.start()
        start = time.perf_counter()
        for _ in range(1000):
            spin_on(streams[1], 0)
        took = time.perf_counter() - start
        assert thread.is_alive()
        thread.join()
        return took

    attempt()
    assert min(attempt() for _ in range(3)) <= 0.2


def graph_of_a_spin(stream):
    with sluice.capture(stream) as graph:
        spin_on(stream)
    return graph


def test_36_a_graph_never_overlaps_itself_and_two_do(streams):
    first, second = graph_of_a_spin(streams[0]), graph_of_a_spin(streams[1])

    def once():
        first.launch(streams[0])

    def itself():
        first.launch(streams[0])
        first.launch(streams[1])

    def two():
        first.launch(streams[0])
        second.launch(streams[1])

    assert ratio(itself, once) >= 1.8
    assert ratio(two, itself) <= 0.65


def test_32_branches_of_a_graph(streams):
    with sluice.capture(streams[0]) as graph:
        with sluice.parallel(streams[0]) as ways:
            for _ in range(2):
                with ways.branch() as branch:
                    spin_on(branch)

    def one_by_one():
        spin_on(streams[0])
        spin_on(streams[0])

    assert ratio(lambda: graph.launch(streams[0]), one_by_one) <= 0.65


def test_37_numpy_beside_the_default_stream(streams):
    fx, data = load(), numpy.zeros(100_000, "int32")

    def launch():
        start = time.perf_counter()
        spin_on(sluice.Stream.default(DEVICE), 1000)
        fx.add(data, 1, data.size, over=data, stream=streams[0])
        took = time.perf_counter() - start
        sluice.synchronize(DEVICE)
        return took

    took = [launch() for _ in range(4)][1:]
    assert (data == 4).all()
    assert statistics.median(took) <= 0.3


def test_38_copies_of_pinned_arrays_overlap(streams):
    """Those to the GPU with those from it, of another stream."""
    fx = load()
    arrays = [torch.zeros(16 << 20, dtype=torch.int32, pin_memory=True).numpy() for _ in range(2)]

    def launch(array, stream):
        for _ in range(4):
            fx.add(array, 1, array.size, over=array, stream=stream)

    def side_by_side():
        thread = threading.Thread(target=launch, args=(arrays[0], streams[0]))
        thread.start()
        launch(arrays[1], streams[1])
        thread.join()

    def one_by_one():
        for array in arrays:
            launch(array, streams[0])

    assert ratio(side_by_side, one_by_one) <= 0.75
    assert all((array == array[0]).all() and array[0] == 48 for array in arrays)


def test_30_what_a_busy_stream_makes_wait(streams):
    """synchronize() of the default stream waits for it; the close of another one waits for nothing."""
    def close():
        stream = sluice.Stream(DEVICE)
        spin_on(stream, 200)
        start = time.perf_counter()
        stream.close()
        took = time.perf_counter() - start
        sluice.synchronize(DEVICE)
        return took

    def wait():
        spin_on(sluice.Stream.default(DEVICE), 200)
        sluice.Stream.default(DEVICE).synchronize()

    whole = time_of(lambda: spin_on(streams[0], 200))
    assert min(close() for _ in range(3)) <= 0.05 * whole
    assert time_of(wait) >= 0.9 * whole
