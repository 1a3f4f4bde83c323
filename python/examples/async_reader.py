# SPDX-License-Identifier: MIT
"""Reads "camera" in an event loop beside other work, until it ends."""
import asyncio

import sluice


async def show():
    async with sluice.Reader("camera", wait=10) as reader:
        async for frame in reader:
            print(f"frame {frame.sequence}: {frame.numpy().mean():.1f}")


async def tick():
    while True:
        await asyncio.sleep(0.25)
        print("tick")


async def main():
    ticking = asyncio.create_task(tick())
    await show()
    ticking.cancel()


if __name__ == "__main__":
    asyncio.run(main())
