# SPDX-License-Identifier: MIT
"""Drives a live loop and measures it: plays pictures into it, receives what it paints, and sends it OSC on a time line.

    host.py --engine 'python style.py' --sheet sheet.png --at 4 '/live/param/style {"7": 1}' --at 8 '/live/control/canny/scale 0'

Time begins with the first picture that is received. `player.py` is a process of its own, so it can be killed, too: --kill engine@6
--kill player@9; both are started again."""
import argparse
import contextlib
import json
import os
import pathlib
import queue
import shlex
import signal
import subprocess
import sys
import threading
import time
import traceback

import sluice

import player
import report
import sheet

KILL_AFTER = 10  # s that a program has to end by itself
HELD = 0.0005  # s until a frame is asked for again


class Child:
    """A program that is started again when it ends. `command` gives its words, `take` gets each line that it prints."""

    def __init__(self, name, command, take):
        self.name, self.command, self.take = name, command, take
        self.process, self.failures, self.killed = None, 0, False

    def start(self):
        self.process = subprocess.Popen(self.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        threading.Thread(target=self.read, args=(self.process.stdout,), daemon=True).start()
        self.killed = False

    def read(self, lines):
        for line in lines:
            self.take(line.rstrip())

    def kill(self):
        self.killed = True
        os.killpg(self.process.pid, signal.SIGKILL)

    def watch(self):
        """Starts it again if it has ended."""
        if self.process.poll() is None:
            return
        if not self.killed:
            self.failures += 1
            if self.failures >= 3:
                raise SystemExit(f"host: the {self.name} failed {self.failures} times: {shlex.join(self.command())}")
            print(f"host: the {self.name} ended with status {self.process.returncode}; it is started again", flush=True)
        self.start()

    def stop(self):
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(KILL_AFTER)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()


class Receiver(threading.Thread):
    """Takes the pictures of a channel, and hands them on."""

    def __init__(self, channel, spin, take):
        super().__init__(daemon=True)
        self.channel, self.spin, self.take = channel, spin, take
        self.ending, self.error = False, None

    def run(self):
        try:
            self.receive()
        except Exception as error:
            traceback.print_exc()
            self.error = error

    def receive(self):
        while not self.ending:
            with contextlib.suppress(sluice.Closed), sluice.Reader(self.channel, wait=None, hold=1, spin=self.spin) as reader:
                while not self.ending:
                    try:
                        frame = reader.next(timeout=0.2)
                    except sluice.Closed:
                        raise
                    except (TimeoutError, sluice.LostError):
                        continue
                    except sluice.LimitError:
                        time.sleep(HELD)  # the GPU still copies the last one
                        continue
                    now = time.monotonic_ns()
                    with contextlib.suppress(sluice.LostError), frame:
                        self.take(frame, now)


class Osc:
    """Sends '/address value value': numbers, words, or one JSON value."""

    def __init__(self, address):
        from pythonosc.udp_client import SimpleUDPClient
        host, _, port = address.rpartition(":")
        self.client, self.sent = SimpleUDPClient(host, int(port)), {}

    def send_again(self):
        """What was sent last to each address: for an engine that was started again."""
        for message in list(self.sent.values()):
            self.send(message)

    def send(self, message):
        address, _, rest = message.partition(" ")
        self.sent[address] = message
        rest = rest.strip()
        self.client.send_message(address, [rest] if rest[:1] in ("{", "[") else [number(each) for each in shlex.split(rest)])


def number(word):
    for kind in int, float:
        with contextlib.suppress(ValueError):
            return kind(word)
    return word


class Host:
    def __init__(self, options):
        self.options = options
        self.figures = report.Figures(options.late / 1e3, options.flash_frames / (options.fps or 60))
        self.children = {"player": Child("player", self.player, self.played)}
        if options.engine:
            self.children["engine"] = Child("engine", lambda: shlex.split(options.engine), say)
        self.sheet = sheet.Sheet(options) if options.sheet or options.record else None
        self.pictures = queue.Queue(maxsize=4)  # for the sheet
        self.label = "as it begins"
        self.new_session = False  # the engine has begun, and has not sent a picture of an input yet
        self.must_repeat = False  # it has not been sent what was sent before
        self.osc = Osc(options.osc) if options.at else None

    def player(self):
        """Its numbers go on when it is started again."""
        given = [f"--{name}={getattr(self.options, name.replace('-', '_'))}" for name in player.OPTIONS]
        return [sys.executable, player.__file__, "--child", f"--first={self.figures.last + 1000}", *given]

    def played(self, line):
        if line.startswith("flash "):
            self.figures.flash(*map(int, line.split()[1:]))
        else:
            say(line)

    def received(self, frame, now):
        meta = frame.meta_json
        self.new_session |= frame.new_session
        if self.options.output.startswith("cipd:"):
            meta = {"n": -1, "t": now}  # cuda-link's protocol has none: a flash is all that tells
        elif not isinstance(meta, dict) or "n" not in meta:
            return  # a picture without an input: nothing was played yet
        new, self.new_session = self.new_session, False
        self.must_repeat |= new
        self.figures.received(frame, meta, now, new, self.options.flash > 0)
        if self.sheet and self.sheet.is_due(now):
            with contextlib.suppress(queue.Full):
                self.pictures.put_nowait((meta["n"], sheet.tile_of(frame)))

    def receivers(self):
        options = self.options
        found = [Receiver(options.output, options.spin, self.received)]
        if self.sheet:
            found += [Receiver(channel, None, self.sheet.keeper(column))
                      for column, channel in (("input", options.camera), ("edges", options.edges), ("control", options.preview))]
        return found

    def time_line(self):
        """What happens when: (seconds, function), in order."""
        options = self.options
        events = [(float(at), lambda message=message: self.send(message)) for at, message in options.at]
        events += [(float(at), lambda who=who: self.kill(who)) for who, _, at in (each.partition("@") for each in options.kill)]
        return sorted(events, key=lambda event: event[0]) + [(options.seconds, None)]

    def send(self, message):
        self.close_row()
        self.label = message
        self.osc.send(message)
        self.figures.segment(message)

    def kill(self, who):
        child = self.children[who]
        pid = child.process.pid
        self.figures.killed(who, pid)
        child.kill()
        child.process.wait()
        child.start()

    def close_row(self):
        if self.sheet:
            self.sheet.close_row(self.label)

    def run(self):
        self.threads = receivers = self.receivers()
        try:
            for thread in (*receivers, *self.children.values()):
                thread.start()
            for at, action in self.time_line():
                self.wait_until(at)
                if action:
                    action()
            end = time.monotonic() + self.options.start
            while self.figures.is_away() and time.monotonic() < end:
                self.step()
            self.close_row()
        finally:
            self.figures.end()
            for thread in receivers:
                thread.ending = True
            for child in reversed(list(self.children.values())):
                child.stop()
            for thread in receivers:
                thread.join()

    def wait_until(self, at):
        """Until so many seconds after the first picture; without one, an error after --start seconds."""
        started = time.monotonic()
        while (begin := self.figures.began) is None or time.monotonic() < begin + at:
            if begin is None and time.monotonic() > started + self.options.start:
                raise SystemExit(f"host: no picture came within {self.options.start:g} s on {self.options.output}: is the engine running?")
            self.step()

    def step(self):
        for child in self.children.values():
            child.watch()
        for thread in self.threads:
            if thread.error:
                raise SystemExit(f"host: receiving {thread.channel} failed: {thread.error}")
        if self.must_repeat and self.osc:
            self.must_repeat = False
            self.osc.send_again()
            self.figures.changed()
        with contextlib.suppress(queue.Empty):
            n, picture = self.pictures.get(timeout=0.02)
            self.sheet.add(n, picture, self.label)


def say(line):
    print(line, flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--engine", metavar="COMMAND", help="start this engine, too")
    for name, about in player.OPTIONS.items():
        options.add_argument(f"--{name}", **about)
    options.add_argument("--seconds", type=float, default=10,
                         help="how long, from the first picture that is received, and until a picture is back after each kill")
    options.add_argument("--start", type=float, default=120, help="how long that is waited for")
    options.add_argument("--at", nargs=2, action="append", default=[], metavar=("SECONDS", "MESSAGE"), help="send '/address value'")
    options.add_argument("--osc", default="127.0.0.1:8588", help="where to")
    options.add_argument("--kill", action="append", default=[], metavar="NAME@SECONDS", help="kill engine or player, and start it again")
    options.add_argument("--late", type=float, default=100, metavar="MS", help="a picture that took longer counts as late")
    options.add_argument("--spin", type=float, default=None, metavar="SECONDS", help="poll so long for a picture before going to sleep")
    options.add_argument("--record", metavar="FILE", help="record input, control and output side by side: a video")
    options.add_argument("--sheet", metavar="FILE", help="a picture with a row for each part of the time line")
    options.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the figures")
    options.add_argument("--output", default="painted", help="channel of the results (painted)")
    options.add_argument("--preview", default="painted-control", help="channel of the control as the engine sees it (painted-control)")
    options = options.parse_args()
    for each in options.kill:
        if not each.startswith(("player@", "engine@" if options.engine else "player@")):
            raise SystemExit(f"host: --kill {each}: it is player@SECONDS, or engine@SECONDS with --engine")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    host = Host(options)
    host.run()
    figures = host.figures.all()
    print(report.table(figures))
    if host.sheet:
        host.sheet.close()
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    if host.figures.is_away():
        sys.exit("host: no picture came back after a kill")


if __name__ == "__main__":
    main()
