# SPDX-License-Identifier: MIT
"""Readers in an event loop."""
import asyncio
import math

from ._sluice import Closed, Timeout

# (loop, descriptor): futures of those who wait for it
_waiting: dict = {}


def _wake(key):
    for future in _waiting.get(key, ()):
        if not future.done():
            future.set_result(None)


async def _readable(descriptor):
    loop = asyncio.get_running_loop()
    key = loop, descriptor
    future = loop.create_future()
    futures = _waiting.setdefault(key, [])
    futures.append(future)
    if len(futures) == 1:
        loop.add_reader(descriptor, _wake, key)
    try:
        await future
    finally:
        futures.remove(future)
        if not futures:
            del _waiting[key]
            loop.remove_reader(descriptor)


async def _take(reader, iterates):
    while True:
        frame = reader._poll(iterates)
        if frame is not None:
            return frame
        await _readable(reader.fileno())


async def step(reader, _):
    """reader.__anext__()"""
    try:
        return await _take(reader, True)
    except Closed:
        raise StopAsyncIteration from None


async def next_async(reader, timeout):
    """reader.next_async(timeout)"""
    if timeout is None or timeout == math.inf:
        return await _take(reader, False)
    try:
        async with asyncio.timeout(timeout):
            return await _take(reader, False)
    except TimeoutError as error:
        if isinstance(error, Timeout):
            raise
        raise Timeout(f"channel '{reader.name}': no new frame came in time") from None


async def enter(reader, _):
    """reader.__aenter__()"""
    return reader


async def leave(reader, _):
    """reader.__aexit__()"""
    reader.close()
