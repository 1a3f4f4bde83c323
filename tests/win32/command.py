# SPDX-License-Identifier: MIT
"""The command on Windows, on the fake driver: what tests/win32/run runs under Wine. Prints TAP.

usage: command.py SLUICE.EXE        in the folder with nvcuda.dll
This runs on Linux, and starts the command under Wine: with pipes, or on a terminal, which Wine shows as a console. A
signal SIGINT to a program of Wine is Ctrl-C there.
"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import traceback

COMMAND = sys.argv[1]
WAIT = 60  # seconds for what takes less than one
SIZE = (64, 48)
FRAME = SIZE[0] * SIZE[1] * 4


class Running:
    """The command, while it runs. Its output goes to a file: Wine's own processes would keep a pipe open."""

    def __init__(self, *arguments, **variables):
        self.file = tempfile.TemporaryFile()
        self.start(arguments, variables, stdin=subprocess.DEVNULL, stdout=self.file, stderr=self.file)

    def start(self, arguments, variables, **more):
        self.process = subprocess.Popen(["wine", COMMAND, *arguments], env={**os.environ, **variables}, **more)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def text(self):
        return os.pread(self.file.fileno(), 1 << 20, 0).decode().replace("\r\n", "\n")

    def until(self, words):
        end = time.monotonic() + WAIT
        while words not in self.text():
            assert self.process.poll() is None and time.monotonic() < end, f"it does not say {words!r}: {self.text()!r}"
            time.sleep(0.01)

    def ended(self, code=0):
        """What it said in all, when it has ended with this code."""
        assert self.process.wait(WAIT) == code, (self.process.returncode, self.text())
        return self.text()

    def end(self, code=0):
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        return self.ended(code)


def said(*arguments, code=0, **variables):
    with Running(*arguments, **variables) as command:
        return command.ended(code)


def channel(test):
    return f"cipd:command test {os.getpid()} {test}"


def play(name, *more):
    """Plays the test picture; returns when the channel is there."""
    playing = Running("play", "test", name, "--size", "{}x{}".format(*SIZE), "--format", "bgra", *more)
    try:
        until_state(name, "running")
    except BaseException:
        playing.process.kill()
        raise
    return playing


def states():
    return {row["name"]: row["state"] for row in json.loads(said("ls", "--json", "--all"))["cuda_link"]}


def until_state(name, *wanted):
    end = time.monotonic() + WAIT
    while states().get(name) not in wanted:
        assert time.monotonic() < end, (name, states())


# ---- what is there ----


def looks():
    """ls, info and top tell of a live channel."""
    name = channel("looks")
    with play(name):
        assert f"{name}  running  64x48x4 uint8 bgra" in said("ls"), said("ls")
        info = json.loads(said("info", name, "--json"))
        assert (info["width"], info["height"], info["order"], info["by_sluice"]) == (*SIZE, "bgra", True), info
        text = said("info", name)
        assert "48 rows of 64 pixels" in text and f"section {name[5:]}" in text and "/dev/" not in text, text
        table = said("top", "--once", name)
        assert re.search(re.escape(name) + r" +live +\S", table) and "only channels" not in table, table
        told = [json.loads(line) for line in said("top", "--json", "--batch", "2", "--interval", "0.3", "cipd:*").splitlines()]
        rows = [row for row in told[-1]["channels"] if row["name"] == name]
        assert len(told) == 2 and rows[0]["fps"] > 0, told


def nothing_there():
    text = said("ls")
    assert text == "no channels\n" or "cipd:" in text, text
    for command in ("info", "snap"):
        text = said(command, channel("none"), *(["none.png"] if command == "snap" else []), code=3)
        assert "/dev/" not in text, text
    text = said("play", "test", "camera", code=1)
    assert "cipd:NAME" in text, text


def help_is_for_windows():
    """Examples that work here: with names of cipd: channels, and no quotes that consoles of Windows do not know."""
    assert "sluice play test cipd:camera" in said("--help") and "kill" not in said("--help")
    for command in ("ls", "info", "play", "snap", "bridge", "top", "doctor"):
        examples = said(command, "--help").partition("examples:")[2]
        assert examples.count("\n") > 1 and not re.search(r"'|(?<!:)camera|/dev/|\| jq|\.mp4", examples), examples


# ---- pictures ----


def snaps():
    """To a path with letters of several scripts, in a folder with a space."""
    name = channel("snaps")
    with tempfile.TemporaryDirectory(prefix="sluice ü") as folder, play(name):
        for path in (f"{folder}/Büro ζ 工.png", f"Z:{folder}\\wide.npy".replace("/", "\\")):
            said("snap", name, path, "--timeout", "20")
        with open(f"{folder}/Büro ζ 工.png", "rb") as file:
            assert file.read(8) == b"\x89PNG\r\n\x1a\n"
        with open(f"{folder}/wide.npy", "rb") as file:
            data = file.read()
        assert data.startswith(b"\x93NUMPY") and len(data) > FRAME and len(set(data[-FRAME:])) > 4
        missing = f"{folder}/ß/x.png"
        assert f"cannot write {missing}" in said("snap", name, missing, "--timeout", "20", code=1)
        assert not os.path.exists(missing)


def shows_letters():
    """Arguments are UTF-8 in messages."""
    assert "'Bürö工'" in said("Bürö工", code=2)
    assert "Bürö工.txt must end in .png" in said("snap", channel("none"), "Bürö工.txt", code=2)
    assert "'Bürö' is not a channel name" in said("snap", "Bürö", "x.png", code=1)
    text = said("doctor", "--quick", CUDALINK_D2H_STREAMS="ζ工")
    assert 'CUDALINK_D2H_STREAMS is "ζ工"' in text, text


def newest(names, folder):
    """The newest frame of each channel, at the same time."""
    paths = [f"{folder}/{at}.npy" for at in range(len(names))]
    snaps = [Running("snap", name, path, "--timeout", "20") for name, path in zip(names, paths)]
    for snap in snaps:
        snap.ended()
    return [open(path, "rb").read()[-FRAME:] for path in paths]


def bridges():
    """What arrives behind the bridge has the bytes that were played; a killed writer, and its successor."""
    near, far = channel("near"), channel("far")
    with tempfile.TemporaryDirectory() as folder, Running("bridge", near, far) as bridge:
        bridge.until("waiting for")
        with play(near, "--fps", "2"):
            bridge.until("is open:")
            shots = [set(), set()]
            end = time.monotonic() + WAIT
            while not shots[0] & shots[1]:  # the picture moves
                assert time.monotonic() < end, "no frame is the same on both sides"
                for seen, pixels in zip(shots, newest((near, far), folder)):
                    seen.add(pixels)
            assert all(len(set(pixels)) > 4 for pixels in shots[1])
            assert json.loads(said("info", far, "--json"))["order"] == "bgra"
        bridge.until("waiting for the next one")
        with play(near):
            bridge.until("is back")
        assert "sessions of the writer" in bridge.end()
    assert states().get(far) in (None, "shut"), states()


# ---- how it ends ----


def stops():
    """Ctrl-C ends what plays and what bridges, and no writer stays: a reader still has the section."""
    near, far = channel("near end"), channel("far end")
    with play(near) as playing, Running("bridge", near, far) as bridge:
        bridge.until("is open:")
        assert re.search(r"played \d+ frames", playing.end())
        bridge.until("has closed")
        assert states().get(near) in (None, "shut"), states()
        assert re.search(r"bridged \d+ frames", bridge.end())
    assert near not in states() and far not in states(), states()


def stops_while_it_waits():
    """Ctrl-C ends waits at once: for the time of the next frame, for the next table, and for a channel."""
    with play(channel("slow"), "--fps", "0.01") as playing:
        playing.end()
    with Running("ls", "--watch") as ls:
        ls.until("no channels")
        ls.end()
    with Running("bridge", channel("never"), channel("never, too")) as bridge:
        bridge.until("waiting for")
        bridge.end()


# ---- on a console ----


class Console(Running):
    """The command on a terminal, which Wine shows as a console."""

    def __init__(self, *arguments):
        self.shown = ""
        self.terminal, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("4H", 30, 200, 0, 0))
        self.start(arguments, {"TERM": "xterm-256color", "NO_COLOR": "1"}, stdin=other, stdout=other, stderr=other, start_new_session=True,
                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(other)

    def __exit__(self, *_):
        super().__exit__()
        os.close(self.terminal)

    def text(self):
        if select.select([self.terminal], [], [], 0)[0]:
            try:
                self.shown += os.read(self.terminal, 65536).decode(errors="replace")
            except OSError:  # the end
                pass
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.shown)

    def press(self, keys):
        self.shown = ""
        os.write(self.terminal, keys)


def live_table():
    """The table of `top` on a console, its keys, and Ctrl-C."""
    name = channel("table")
    with play(name):
        with Console("top") as top:
            top.until(name)
            top.press(b"?")
            top.until("refresh less often")
            top.press(b"q")  # leaves the help
            top.until(name)
            top.press(b"q")
            top.ended()
        with Console("top", name) as top:
            top.until(name)
            top.press(b"\x03")
            top.ended()


def letters_on_a_console():
    with Console("Bürö") as console:
        assert console.process.wait(WAIT) == 2
        console.until("unknown command 'Bürö'")


# ---- the doctor ----


def doctor():
    text = said("doctor", CUDALINK_DOORBELL="1", CUDALINK_DORBELL="1")
    for words in ("ok    GPU driver", "driver model TCC", "a second process opened a frame", "scheduling", "CUDALINK_DOORBELL is \"1\"",
                  "did you mean CUDALINK_DOORBELL?", "channels of cuda-link's protocol work on this machine"):
        assert words in text, (words, text)
    assert "/dev/" not in text and "/proc" not in text, text
    told = json.loads(said("doctor", "--json", CUDALINK_DOORBELL="1"))
    assert told["cipd_channels_work"] is True and told["windows"] and "hardware_scheduling" in told, told
    assert [(gpu["driver_model"], gpu["ipc_declared"], gpu["ipc_works"]) for gpu in told["gpus"]] == [("TCC", True, True)] * 2, told
    assert {v["name"]: v["value"] for v in told["cuda_link_variables"]}["CUDALINK_DOORBELL"] == "1"
    told = json.loads(said("doctor", "--json", "--quick", SLUICE_FAKE_WITHOUT="tcc"))
    assert (told["gpus"][0]["driver_model"], told["gpus"][0]["ipc_works"]) == ("WDDM", None), told


def scheduling():
    """What Windows' registry says of hardware-accelerated scheduling."""
    key = r"HKLM\SYSTEM\CurrentControlSet\Control\GraphicsDrivers"

    def registry(*arguments):
        subprocess.run(["wine", "reg", *arguments, "/v", "HwSchMode", "/f"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True,
                       timeout=WAIT)

    for mode, known, words in (("2", True, "scheduling is on"), ("1", False, "scheduling is off")):
        registry("add", key, "/t", "REG_DWORD", "/d", mode)
        assert json.loads(said("doctor", "--json", "--quick"))["hardware_scheduling"] is known
        assert words in said("doctor", "--quick")
    registry("delete", key)
    assert json.loads(said("doctor", "--json", "--quick"))["hardware_scheduling"] is None


def doctor_without_a_driver():
    """No driver at all; and one that shares no memory."""
    text = said("doctor", code=1, SLUICE_CUDA_DRIVER="none.dll")
    assert "do NOT work" in text and "BAD" in text, text
    told = json.loads(said("doctor", "--json", code=1, SLUICE_CUDA_DRIVER="none.dll"))
    assert told["cipd_channels_work"] is False and told["gpus"] == [], told
    told = json.loads(said("doctor", "--json", code=1, SLUICE_FAKE_WITHOUT="events"))
    assert told["gpus"][0]["ipc_declared"] is False and told["cipd_channels_work"] is False, told


TESTS = [looks, nothing_there, help_is_for_windows, snaps, shows_letters, bridges, stops, stops_while_it_waits, live_table, letters_on_a_console, doctor,
         scheduling, doctor_without_a_driver]


def main():
    only = sys.argv[2:]
    tests = [test for test in TESTS if not only or test.__name__ in only]
    os.environ["LC_ALL"] = "C.UTF-8"  # so that Wine takes arguments as UTF-8
    print(f"1..{len(tests)}", flush=True)
    for number, test in enumerate(tests, 1):
        try:
            test()
            print(f"ok {number} - the command: {test.__name__.replace('_', ' ')}", flush=True)
        except Exception:
            print(f"not ok {number} - the command: {test.__name__.replace('_', ' ')}\n# " + traceback.format_exc().replace("\n", "\n# "), flush=True)


main()
