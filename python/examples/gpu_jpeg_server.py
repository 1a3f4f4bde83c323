# SPDX-License-Identifier: MIT
"""Shows "camera" to any number of browsers: gpu_jpeg_server.py [PORT], and then http://localhost:PORT/ in a browser."""
import asyncio
import sys

import cv2

import sluice

HEADER = b"HTTP/1.0 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=frame\r\n\r\n"
PART = b"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n%s\r\n"


async def show(requests, answers):
    try:
        while (await requests.readline()).strip():
            pass
        answers.write(HEADER)
        async with sluice.Reader("camera", wait=30) as reader:
            async for frame in reader:
                picture = await frame.fetch()  # into pinned memory, while the loop serves others
                _, jpeg = await asyncio.to_thread(cv2.imencode, ".jpg", picture[..., ::-1])
                answers.write(PART % (len(jpeg), jpeg.tobytes()))
                await answers.drain()          # a slow client misses frames and delays nobody
    except ConnectionError:
        pass                                   # the browser has gone
    finally:
        answers.close()


async def main(port):
    server = await asyncio.start_server(show, "localhost", port)
    print("http://localhost:%d/" % server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 8000))
