# SPDX-License-Identifier: MIT
"""Readers in an event loop."""
import asyncio
import concurrent.futures
import math

from ._sluice import Closed

# (loop, descriptor): the futures of the tasks that wait for it
_waiting: dict = {}


def _wake(key):
    for future in _waiting.get(key, ()):
        _finish(future, True)


def _finish(future, readable):
    if not future.done():
        future.set_result(readable)


async def _readable(descriptor, until):
    """False if the loop's time is `until` before that; None: it never is."""
    loop = asyncio.get_running_loop()
    key = loop, descriptor
    future = loop.create_future()
    futures = _waiting.setdefault(key, [])
    futures.append(future)
    if len(futures) == 1:
        loop.add_reader(descriptor, _wake, key)
    timer = None if until is None else loop.call_at(until, _finish, future, False)
    try:
        return await future
    finally:
        if timer:
            timer.cancel()
        futures.remove(future)
        if not futures:
            del _waiting[key]
            loop.remove_reader(descriptor)


async def _take(reader, iterates, stream=None, until=None):
    """A frame, or None at that time."""
    while True:
        frame = reader._poll(iterates, stream)
        if frame is not None:
            return frame
        descriptor, keeper = reader._descriptor()  # open while `keeper` lives: close() wakes the waiting tasks
        if not await _readable(descriptor, until):
            return None
        del keeper


async def step(reader):
    """reader.__anext__()"""
    try:
        return await _take(reader, True)
    except Closed:
        raise StopAsyncIteration from None


async def next_async(reader, timeout, stream):
    """reader.next_async(timeout, stream=stream)"""
    until = None if timeout is None or timeout == math.inf else asyncio.get_running_loop().time() + timeout
    frame = await _take(reader, False, stream, until)
    return reader.next(0, stream=stream) if frame is None else frame  # if there is none, its exception says why


# ---- frame.fetch() ----

_threads = None


def _wait_in_thread(wait, wake):
    """Calls wait(), then wake(error or None), on another thread."""
    global _threads
    if _threads is None:  # Sluice's own: other code may keep the loop's executor busy for any time
        _threads = concurrent.futures.ThreadPoolExecutor(16, "sluice-fetch")

    def work():
        try:
            wait()
        except BaseException as error:
            wake(error)
        else:
            wake(None)

    _threads.submit(work)


def _settle(future, error):
    if future.done():  # cancelled
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


async def fetch(copy, done):
    """frame.fetch() from a GPU; `copy` is under way, or done. If this is cancelled, the thread keeps the copy's memory,
    and the frame, until the copy is done."""
    if not done:
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def wake(error):
            try:
                loop.call_soon_threadsafe(_settle, future, error)
            except RuntimeError:
                pass  # the loop has closed

        _wait_in_thread(copy.wait, wake)
        await future
    return copy.result()


async def fetch_host(array):
    """The same in host memory. Large arrays are copied on another thread."""
    if array.nbytes <= 65536:
        return array.copy()
    return await asyncio.get_running_loop().run_in_executor(None, array.copy)
