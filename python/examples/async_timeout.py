# SPDX-License-Identifier: MIT
"""Waits for single frames in an event loop, with a time-out."""
import asyncio

import sluice


async def main():
    with sluice.Writer("slow", shape=16) as writer, sluice.Reader("slow") as reader:
        try:
            await reader.next_async(timeout=0.1)
        except sluice.Timeout:
            print("nothing yet")

        asyncio.get_running_loop().call_later(0.1, writer.send, bytearray(16))
        frame = await reader.next_async(timeout=5)
        print("frame", frame.sequence)


if __name__ == "__main__":
    asyncio.run(main())
