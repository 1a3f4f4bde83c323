#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sluice web, asked by HTTP. usage: serve.py SLUICE CLOCK DRIVER

DRIVER is the fake one of tests/fake.
"""
import contextlib
import itertools
import json
import os
import pathlib
import re
import resource
import signal
import socket
import struct
import sys
import time
import zlib

from kit import LIMIT, Lint, Place, get, read_parts, stream, until

ROOT = pathlib.Path(__file__).parent.parent.parent


def ask(server, data):
    """Sends bytes, and returns all that comes until the server ends the connection."""
    with socket.create_connection(("127.0.0.1", server.port), LIMIT) as connection:
        connection.sendall(data)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def status_of(data):
    return int(data.split()[1]) if data.startswith(b"HTTP/1.1 ") else None


def npy(data):
    """(shape, bytes) of a NumPy file."""
    size = struct.unpack("<H", data[8:10])[0]
    return eval(re.search(r"'shape': (\(.*?\))", data[10:10 + size].decode())[1]), data[10 + size:]


def png(data):
    """(width, height, rows) of a PNG without filters."""
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height = struct.unpack(">II", data[at + 8:at + 16])
        if kind == b"IDAT":
            packed += data[at + 8:at + 8 + size]
        at += 12 + size
    raw = zlib.decompress(packed)
    line = len(raw) // height
    return width, height, b"".join(raw[y * line + 1:(y + 1) * line] for y in range(height))


def expect(*pairs):
    return [f"{name}: {is_} instead of {wanted}" for name, is_, wanted in pairs if is_ != wanted]


# ---- what is served ----

def numbers(lint, server):
    until(lambda: get(server, "/api/channels/clock").json["fps"], "no rate")
    channels = {one["name"]: one for one in get(server, "/api/channels").json["channels"]}
    lint.check("/api/channels has the channels", expect(("names", sorted(channels), ["clock", "still"])))
    one = get(server, "/api/channels/still").json
    lint.check("/api/channels/NAME has its arrays", expect(
        ("state", one["state"], "live"), ("arrays", [each["name"] for each in one["arrays"]["arrays"]], ["image", "depth", "tensor"])))
    metrics = get(server, "/metrics").body.decode()
    values = dict(re.findall(r'^(sluice_\w+)\{channel="still"\} (\S+)$', metrics, re.M))
    odd = [line for line in metrics.splitlines() if not re.match(r'#|sluice_\w+\{channel="[^"]*"\} [-+.\de]+$', line)]
    lint.check("/metrics counts the frames", odd + expect(("frames", values.get("sluice_frames_total"), "1"), ("up", values.get("sluice_up"), "1")))
    with contextlib.closing(stream(server, "/api/events")[1]) as events:
        line = events.readline()
        lint.check("/api/events sends the list", [] if line.startswith(b"data: ") and json.loads(line[6:])["channels"] else [str(line[:80])])


def pictures(lint, server):
    shape, pixels = npy(get(server, "/snap/still.npy").body)
    width, height, rows = png(get(server, "/snap/still.png").body)
    lint.check("snapshots have the frame, bit for bit", expect(("shape", shape, (360, 640, 4)), ("size", (width, height), (640, 360)),
                                                                ("pixels", rows == pixels, True)))
    shape, tensor = npy(get(server, "/snap/still.npy?array=tensor").body)
    lint.check("a tensor as a file", expect(("shape", shape, (2, 16, 24)), ("last", struct.unpack("<f", tensor[-4:])[0], 767.0)))
    answer = get(server, "/api/channels/still/values?array=tensor&index=1&x=22&y=15&w=5&h=5").json
    lint.check("values of a tensor's plane", expect(("values", answer["values"], [[[766], [767]]]), ("planes", answer["planes"], 2),
                                                     ("range", (answer["low"], answer["high"]), (384, 767))))
    answer = get(server, "/api/channels/still/values?x=639&y=359").json
    lint.check("values of an image's pixel", expect(("values", answer["values"], [[list(pixels[-4:])]])))
    sizes = {}
    for query in ("", "?width=64", "?array=depth", "?array=depth&low=0&high=10", "?array=tensor&colour=gray&index=1", "?x=10&y=10&w=30&h=20"):
        body = get(server, f"/snap/still.jpg{query}").body
        frame = re.search(rb"\xff\xc0..\x08(....)", body, re.S)
        sizes[query] = struct.unpack(">HH", frame[1])[::-1] if frame and body.endswith(b"\xff\xd9") else body[:60]
    lint.check("pictures have the size that was asked for", expect(("sizes", list(sizes.values()), [
        (640, 360), (64, 36), (64, 48), (64, 48), (24, 16), (30, 20)])))
    wrong = [("/snap/still.png?array=tensor", 422), ("/snap/still.png?array=none", 404), ("/snap/still.jpg?array=none", 422),
             ("/snap/still.jpg?array=tensor&index=9", 422), ("/snap/still.jpg?x=640&y=0&w=1&h=1", 422), ("/api/channels/still/values?x=640&y=0", 422)]
    lint.check("what cannot be shown is refused", expect(*[(path, get(server, path).status, status) for path, status in wrong]))


def documented(lint, server):
    described = get(server, "/openapi.json").json
    problems = []
    for path, methods in described["paths"].items():
        if path.startswith("/h264") and not get(server, "/api/channels").json["encoder"]:
            continue
        connection, answer = stream(server, path.replace("{name}", "clock"))
        kind = next(iter(methods["get"]["responses"]["200"]["content"]))
        problems += expect((path, answer.status, 200), (path, answer.headers["Content-Type"].split(";")[0], kind))
        connection.close()
    lint.check("every route of /openapi.json answers, with the type that it says", problems)
    source = (ROOT / "tools/web/request.c").read_text()
    routes = set(re.findall(r'\{ "(/(?:api|snap|mjpeg|h264|metrics)[^"]*)"', source))
    told = {path.partition("{name}")[0] for path in described["paths"]}
    keys = set(re.search(r"keys\[KEYS\] = \{(.*?)\}", source, re.S)[1].replace('"', "").replace(" ", "").replace("\n", "").split(",")) - {"token"}
    lint.check("/openapi.json has every route and every key", [str(routes ^ told)] * (routes != told) + expect(
        ("keys", {one["name"] for one in described["components"]["parameters"].values() if one["in"] == "query"}, keys)))


def sharing(lint, place, server):
    viewers = [stream(server, "/mjpeg/clock") for _ in range(8)]
    firsts = [next(read_parts(response)) for _, response in viewers]
    lint.check("each viewer gets JPEG", [str(one[:20]) for one in firsts if not (one.startswith(b"\xff\xd8") and one.endswith(b"\xff\xd9"))])
    lint.check("eight viewers are one reader", expect(("readers", len(place.readers("clock")), 1)))
    moving = read_parts(viewers[0][1])
    got = len(list(itertools.islice(moving, 60)))  # seven others read nothing meanwhile
    lint.check("a viewer gets pictures while others are stopped", expect(("pictures", got, 60)))
    for connection, _ in viewers:
        connection.close()
    until(lambda: not place.readers("clock"), "the reader stays")
    lint.check("no viewer, no reader", [])


def restart(lint, place, server):
    writer = place.write("phoenix", "320x180")
    connection, response = stream(server, "/mjpeg/phoenix")
    parts = read_parts(response)
    next(parts)
    writer.kill()
    writer.wait()
    place.write("phoenix", "352x288")
    size = until(lambda: (found := re.search(rb"\xff\xc0..\x08(....)", next(parts), re.S)) and struct.unpack(">HH", found[1]) == (288, 352),
                 "the new writer's pictures do not come")
    lint.check("pictures come back with a writer that was killed, in its new size", [] if size else ["no"])
    connection.close()


def video(lint, server):
    name = "H.264 starts with a key frame, and every part is whole"
    if not get(server, "/api/channels").json["encoder"]:
        lint.check(name, [], skip="ffmpeg has no libx264 here")
        return
    connection, response = stream(server, "/h264/clock")
    keys, problems = [], []
    for _ in range(40):
        size, key = struct.unpack(">IB", response.read(5))
        packet = response.read(size)
        keys.append(key)
        problems += [] if packet.startswith((b"\0\0\0\1", b"\0\0\1")) and len(packet) == size else [f"a packet begins with {packet[:8]}"]
    lint.check(name, problems + expect(("first", keys[0], 1), ("key frames", 1 <= sum(keys) <= 3, True)))
    connection.close()


def without_ffmpeg(lint, sluice, clock):
    with Place(sluice, clock, SLUICE_FFMPEG="/nowhere/ffmpeg") as place:
        place.write("clock", "64x64")
        named = place.run("web", "--encoder", "libx264", "--listen", "127.0.0.1:0")
        server = place.serve()
        lint.check("without ffmpeg there is no H.264", expect(
            ("encoder", get(server, "/api/channels").json["encoder"], None), ("status", get(server, "/h264/clock").status, 404),
            ("MJPEG", get(server, "/snap/clock.jpg").status, 200), ("an encoder that is named", named.returncode, 1)))


def wide(lint, place, server):
    place.write("wide", "65536x64", 0)
    body = get(server, "/snap/wide.jpg").body
    frame = re.search(rb"\xff\xc0..\x08(....)", body, re.S)
    lint.check("a picture 65,536 wide", expect(("size", frame and struct.unpack(">HH", frame[1]), (1, 1280)),
                                               ("PNG", png(get(server, "/snap/wide.png").body)[:2], (65536, 64))))


def on_a_gpu(lint, sluice, clock, driver):
    """The fake driver's memory cannot be read by the CPU: frames are fetched."""
    with Place(sluice, clock, SLUICE_CUDA_DRIVER=driver, SLUICE_FAKE_FATAL="1", SLUICE_FAKE_APART="1") as place:
        place.play("gpu", "--pattern", "--size", "640x360", "--device", "cuda:0")
        server = place.serve()
        width, height, _ = png(get(server, "/snap/gpu.png").body)
        connection, response = stream(server, "/mjpeg/gpu")
        part = next(read_parts(response))
        connection.close()
        lint.check("a channel on a GPU", expect(("device", get(server, "/api/channels/gpu").json["device"], "cuda:0"),
                                                ("PNG", (width, height), (640, 360)), ("JPEG", part[:2], b"\xff\xd8")))


# ---- who may ask ----

def requests(lint, server):
    wrong = [("/nothing", 404), ("/mjpeg/..%2f..", 404), ("/mjpeg/../../etc/passwd", 404), ("/snap/..%2f..%2fetc%2fpasswd.png", 404),
             ("/mjpeg/none", 404), ("/api/channels/none", 404), ("/mjpeg/clock%00", 404), ("/mjpeg/%ff", 404), ("/mjpeg/%4", 404),
             ("/snap/still.jpg?width=x", 400), ("/snap/still.jpg?width=1&width=1", 400), ("/snap/still.jpg?what=1", 400),
             ("/snap/still.jpg?low=2&high=1", 400), ("/snap/still.jpg?low=nan&high=1", 400), ("/snap/still.jpg?width=99999999999", 400)]
    lint.check("what does not exist, or cannot be read, is refused", expect(*[(path, get(server, path).status, status) for path, status in wrong]))
    data = ask(server, b"GET /mjpeg/" + b"a" * 8192 + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    long = ask(server, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100000 + b"\r\n\r\n")
    lint.check("names and headers without end", expect(("name", status_of(data) in (404, 414), True), ("header", status_of(long) in (413, 431, 414, None), True)))
    lint.check("methods and bodies", expect(
        ("POST", get(server, "/", "POST").status in (400, 405), True), ("DELETE", get(server, "/", "DELETE").status, 405),
        ("HEAD", get(server, "/", "HEAD").status, 200), ("body", get(server, "/", body=b"x").status, 400)))
    smuggled = b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 44\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    lint.check("half a request in another one", expect(("answers", ask(server, smuggled).count(b"HTTP/1.1 "), 1)))
    lint.check("one Host", expect(
        ("two", status_of(ask(server, b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")), 400),
        ("none", status_of(ask(server, b"GET / HTTP/1.0\r\n\r\n")), 400)))


def origins(lint, server):
    here = f"127.0.0.1:{server.port}"
    hosts = [("evil.example", 403), (f"evil.example:{server.port}", 403), ("127.0.0.1.evil.example", 403), ("localhost", 200),
             (f"[::1]:{server.port}", 200), ("proxy.example", 200), ("a" * 300, 403), ("[::1", 403), ("localhost:x", 403)]
    lint.check("names of other sites are refused (DNS rebinding)", expect(*[(host, get(server, "/", headers={"Host": host}).status, status)
                                                                            for host, status in hosts]))
    sites = [({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403), ({"Origin": f"http://{here}"}, 200),
             ({"Origin": f"https://{here}"}, 200), ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
             ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200), ({"Sec-Fetch-Site": "same-origin"}, 200)]
    lint.check("pages of other sites are refused", expect(*[(str(more), get(server, "/", headers=more).status, status) for more, status in sites]))
    missing = [f"{path}: {name}" for path in ("/", "/page.js", "/api/channels", "/nothing", "/snap/still.jpg") for name in
               ("Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Resource-Policy")
               if name not in get(server, path).headers]
    lint.check("every answer has the headers of the security policy", missing)


def tokens(lint, place):
    refused = place.run("web", "--listen", "0.0.0.0:0")
    lint.check("other machines need a token", expect(("exit", refused.returncode, 2), ("message", "--token" in refused.stderr, True)))
    odd = ["127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", ":8030", "[::1", "[::1]8030", "", "[]:1"]
    lint.check("addresses that are none", expect(*[(one, place.run("web", "--listen", one).returncode, 2) for one in odd]))
    short = place.run("web", "--token", "short")
    lint.check("a token is long", expect(("exit", short.returncode, 2)))
    file = place.folder / "token"
    file.write_text("a-token-of-some-length\n")
    server = place.serve("--token", "auto", listen="0.0.0.0:0")
    token = server.url.partition("?token=")[2]
    bearer = {"Authorization": f"Bearer {token}"}
    wrong = [token[:-1] + ("0" if token[-1] != "0" else "1"), token[:-1], token + "0", "", "x" * 500]
    lint.check("a generated token", expect(
        ("length", len(token), 32), ("without", get(server, "/api/channels").status, 401), ("with", get(server, "/api/channels", headers=bearer).status, 200),
        ("wrong", {get(server, "/", headers={"Authorization": f"Bearer {one}"}).status for one in wrong}, {401}),
        ("wrong in the address", get(server, "/?token=" + wrong[0]).status, 401), ("in another address", get(server, f"/api/channels?token={token}").status, 401)))
    answer = get(server, f"/?token={token}")
    cookie = answer.headers["Set-Cookie"]
    lint.check("a browser gets a cookie", expect(
        ("status", answer.status, 200), ("it goes on", b"url=/" in answer.body, True), ("flags", "HttpOnly; SameSite=Strict" in cookie, True),
        ("with it", get(server, "/", headers={"Cookie": f"a=b; {cookie.split(';')[0]}; c=d"}).status, 200)))
    other = place.serve("--token", f"@{file}")
    lint.check("a token of a file", expect(("with", get(other, "/", headers={"Authorization": "Bearer a-token-of-some-length"}).status, 200),
                                           ("without", get(other, "/").status, 401), ("shown", "token" in other.url, False)))
    taken = place.run("web", "--listen", f"127.0.0.1:{other.port}")
    lint.check("a port that is taken", expect(("exit", taken.returncode, 1), ("message", "--listen" in taken.stderr, True)))
    for one in (server, other):
        one.terminate()
        lint.check("Ctrl-C ends it", expect(("exit", one.wait(LIMIT), 0)))


def crowd(lint, server, count=1000):
    """Each gets the page or 503; none hangs."""
    name = f"{count} connections at once"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 100:
        lint.check(name, [], skip=f"at most {hard} descriptors here")
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 100), hard))
    connections = []
    for _ in range(count):
        connections.append(socket.create_connection(("127.0.0.1", server.port), LIMIT))
    for one in connections:
        one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answers = [status_of(one.recv(65536)) for one in connections]
    lint.check(name, expect(("answers", set(answers), {200, 503}), ("answered", 32 <= answers.count(200) <= 64, True)))
    for one in connections:
        one.close()
    until(lambda: get(server, "/").status == 200, "the server stays full")


def stopped_viewer(lint, place, server):
    """The server keeps less than four pictures for a viewer that reads nothing."""
    name = "a stopped viewer costs less than four pictures"
    if os.environ.keys() & {"ASAN_OPTIONS", "TSAN_OPTIONS"}:
        lint.check(name, [], skip="a sanitizer keeps what was freed")
        return

    def memory():
        return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{server.pid}/status").read_text())[1])
    moving, response = stream(server, "/mjpeg/clock")
    parts = read_parts(response)
    list(itertools.islice(parts, 10))
    before = memory()
    stopped = [stream(server, "/mjpeg/clock")[0] for _ in range(10)]
    size = max(len(part) for part in itertools.islice(parts, 60))
    grown = (memory() - before) * 1024 / len(stopped)
    lint.check(name, [] if grown < 4 * max(size, 65536) else [f"{grown:.0f} bytes, of {size}"])
    for one in (*stopped, moving):
        one.close()


def loris(lint, connection):
    """Opened at the start, it has sent a line of a header now and then."""
    end = time.monotonic() + LIMIT
    with contextlib.suppress(ConnectionError):
        while time.monotonic() < end and connection.send(b"X-More: 1\r\n"):
            time.sleep(0.2)
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                if connection.recv(100) == b"":
                    raise ConnectionError
            connection.setblocking(True)
    lint.check("a request that never ends is ended", [] if time.monotonic() < end else ["it goes on"])
    connection.close()


def main():
    sluice, clock, driver = sys.argv[1:]
    lint = Lint()
    with Place(sluice, clock) as place:
        if place.lacks_web():
            lint.check("sluice web", [], skip=place.lacks_web())
            lint.finish()
        place.write("clock")
        place.write("still", "640x360", 0)
        server = place.serve("--host", "proxy.example")
        slow = socket.create_connection(("127.0.0.1", server.port), LIMIT)
        slow.sendall(b"GET / HTTP/1.1\r\n")
        numbers(lint, server)
        pictures(lint, server)
        documented(lint, server)
        sharing(lint, place, server)
        restart(lint, place, server)
        video(lint, server)
        wide(lint, place, server)
        without_ffmpeg(lint, sluice, clock)
        on_a_gpu(lint, sluice, clock, driver)
        requests(lint, server)
        origins(lint, server)
        tokens(lint, place)
        stopped_viewer(lint, place, server)
        crowd(lint, server)
        loris(lint, slow)
        server.send_signal(signal.SIGINT)
        lint.check("it ends while it is viewed, and says nothing", expect(("exit", server.wait(LIMIT), 0)))
    lint.finish()


main()
