# SPDX-License-Identifier: MIT
"""Headless Chromium, driven by its DevTools protocol over a WebSocket; nothing but the standard library.

    with Chromium(folder) as browser:
        browser.go("http://127.0.0.1:8030/")
        browser.run("document.title")
"""
import base64
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request

LIMIT = 60  # s


def find():
    """The program, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Socket:
    """A client of the WebSocket protocol (RFC 6455): text messages only."""
    def __init__(self, port, path):
        self.socket = socket.create_connection(("127.0.0.1", port), LIMIT)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.file = self.socket.makefile("rb")
        if b" 101 " not in self.file.readline():
            raise ConnectionError("no WebSocket")
        while self.file.readline().strip():
            pass

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        size = (bytes([0x80 | len(data)]) if len(data) < 126 else bytes([0xFE]) + struct.pack(">H", len(data))
                if len(data) < 65536 else bytes([0xFF]) + struct.pack(">Q", len(data)))
        self.socket.sendall(b"\x81" + size + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(data)))

    def receive(self):
        whole = b""
        while True:
            first, second = self.file.read(2)
            size = second & 127
            size = struct.unpack(">H", self.file.read(2))[0] if size == 126 else struct.unpack(">Q", self.file.read(8))[0] if size == 127 else size
            data = self.file.read(size)
            if first & 15 in (0, 1):
                whole += data
                if first & 0x80:
                    return whole.decode()

    def close(self):
        self.file.close()
        self.socket.close()


class Chromium:
    def __init__(self, *flags, size=(1280, 800)):
        self.folder = tempfile.mkdtemp(prefix="sluice-chromium-")
        self.program = subprocess.Popen(
            [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--mute-audio",
             "--force-color-profile=srgb", "--hide-scrollbars", f"--window-size={size[0]},{size[1]}", "--remote-debugging-port=0",
             f"--user-data-dir={self.folder}", *flags, "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.count, self.events = 0, []

    def __enter__(self):
        try:
            port = self.wait_for_port()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=LIMIT) as answer:
                page = next(one for one in json.load(answer) if one["type"] == "page")
            self.socket = Socket(port, "/" + page["webSocketDebuggerUrl"].split("/", 3)[3])
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if hasattr(self, "socket"):
            self.socket.close()
        self.program.terminate()
        try:
            self.program.wait(10)
        except subprocess.TimeoutExpired:
            self.program.kill()
            self.program.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def wait_for_port(self):
        path, end = pathlib.Path(self.folder, "DevToolsActivePort"), time.monotonic() + LIMIT
        while time.monotonic() < end:
            if path.exists() and (lines := path.read_text().split()):
                return int(lines[0])
            if self.program.poll() is not None:
                raise RuntimeError(f"chromium ended with {self.program.returncode}")
            time.sleep(0.05)
        raise TimeoutError("chromium did not start")

    def call(self, method, **parameters):
        self.count += 1
        self.socket.send(json.dumps({"id": self.count, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.receive())
            if message.get("id") == self.count:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            if "method" in message:
                self.events.append(message)

    def go(self, url):
        self.call("Page.navigate", url=url)

    def run(self, expression):
        """The value of JavaScript in the page; it may be a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        return answer["result"].get("value")

    def until(self, expression):
        """Waits until the JavaScript is true, and returns its value."""
        end, problem = time.monotonic() + LIMIT, None
        while time.monotonic() < end:
            try:
                if value := self.run(expression):
                    return value
            except RuntimeError as error:  # such as while a page is loaded
                problem = error
            time.sleep(0.02)
        raise TimeoutError(f"{expression} did not become true{f': {problem}' if problem else ''}")

    def press(self, key):
        code = {"Escape": 27, "Enter": 13, "ArrowRight": 39, "ArrowLeft": 37}.get(key, ord(key[0].upper()))
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def point(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def resize(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def theme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def complaints(self):
        """Errors of scripts and of the security policy so far."""
        self.run("0")
        return [json.dumps(event["params"])[:300] for event in self.events
                if event["method"] == "Runtime.exceptionThrown" or
                (event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error"
                 and event["params"]["entry"]["source"] in ("security", "javascript"))]

    def asked(self):
        """Addresses of all requests so far."""
        self.run("0")
        return [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
