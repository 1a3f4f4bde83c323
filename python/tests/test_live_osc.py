# SPDX-License-Identifier: MIT
"""sluice.live by OSC: python-osc on both sides, over sockets."""
import json
import logging
import math
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys
import threading

import pytest

pytest.importorskip("pythonosc", reason="python-osc is not installed")
pytest.importorskip("yaml", reason="PyYAML is not installed")

from eventually import SECONDS, STARTS, wait_until  # noqa: E402
from live_kit import Loop, Peer, log  # noqa: E402, F401
from sluice.live import Live, _osc, _osc_streamdiffusion  # noqa: E402
from sluice.live._osc_streamdiffusion import PARAMS  # noqa: E402

PROMPTS = [[f"a cat, number {i}, " + "very detailed, " * 20, i / 64] for i in range(64)]


@pytest.fixture
def talk():
    """talk(**osc): a loop that listens, and a peer that sends to it; with send=True the peer is sent to, too."""
    opened = []

    def start(send=False, wanted=None, **osc):
        peer = Peer()
        address = "127.0.0.1:{}".format(peer.address[1])
        loop = Loop(**(wanted or {}), osc={"listen": "127.0.0.1:0", **({"send": address} if send else {}), **osc})
        server = _osc.Osc(loop)
        peer.to = ("127.0.0.1", server.port)
        opened.append((server, peer))
        return loop, peer, server

    yield start
    for server, peer in opened:
        server.close()
        peer.close()


# What each form of a value becomes; None: it is refused.
WHOLE = [(7, 7), (9.0, 9), (True, 1), ("7", 7), (7.5, None), ("seven", None)]
REAL = [(7, 7.0), (0.25, 0.25), (True, 1.0), ("0.5", 0.5), ("much", None), (math.nan, None), (math.inf, None)]
SWITCH = [(1, True), (0.0, False), (True, True), ("0", False), ("on", True), (0.3, None), ("maybe", None)]
WORDS = [("a dog", "a dog"), ("", ""), ("Grüße, 猫", "Grüße, 猫"), (7, None), (0.5, None), (True, None)]
FORMS = {"int": WHOLE, "float": REAL, "bool": SWITCH, "str": WORDS}


@pytest.mark.parametrize("address", PARAMS)
def test_each_parameter_in_all_forms(talk, log, address):  # noqa: F811
    loop, peer, _ = talk()
    name, setting = PARAMS[address]
    forms = [("img2img", "img2img"), ("inpaint", None), (1, None)] if address == "/sdmode" else FORMS[setting.type]
    refused = 0
    for sent, wanted in forms:
        peer.send(address, sent)
        if wanted is None:
            refused += 1
            wait_until(lambda: loop.counters.ignored.get(address) == refused)
            assert not loop.step()
        else:
            found = loop.next_step()
            assert found == {f"params.{name}": wanted} and type(found[f"params.{name}"]) is type(wanted)
    peer.send(address)
    peer.send(address, 1, 2)
    wait_until(lambda: loop.counters.ignored[address] == refused + 2)
    assert len(log.of(logging.WARNING)) == 1 and address in log.of(logging.WARNING)[0]


def test_lists_are_parsed(talk):
    loop, peer, _ = talk()
    for address, sent, wanted in [
        ("/prompt_list", ['[["cat", 1], ["dog", 0.5]]'], {"params.prompt_list": [["cat", 1.0], ["dog", 0.5]]}),
        ("/seed_list", ['[[-1, 1], [7.0, 0.5]]'], {"params.seed_list": [[-1, 1.0], [7, 0.5]]}),
        ("/t_list", [0, 16.0, 32], {"params.t_index_list": [0, 16, 32]}),
        ("/t_list", ["[12, 30]"], {"params.t_index_list": [12, 30]}),
        ("/ipadapter_config", ['{"scale": 0.5}'], {"params.ipadapter_config": {"scale": 0.5}}),
        ("/fx/feedback/strength", [0.8], {"params.fx": {"feedback": {"strength": pytest.approx(0.8)}}}),
        ("/fx/zoom/by", [2], {"params.fx": {"feedback": {"strength": pytest.approx(0.8)}, "zoom": {"by": 2}}}),
        ("/max_fps", [30], {"max_fps": 30.0}),
        ("/max_fps", [0], {"max_fps": None}),
        ("/ipadapter_update", [], {"params.ipadapter_update": 1}),
        ("/ipadapter_update", [1], {"params.ipadapter_update": 2}),
    ]:
        peer.send(address, *sent)
        assert loop.next_step() == wanted
    assert not loop.counters.ignored


@pytest.mark.parametrize("address, value", [
    *((address, value) for address in ("/prompt_list", "/seed_list")
      for value in ("", "[]", "{}", "[[1]]", '[["a", "b"]]', "[[1, 1", "[" * 5000, '[["a", NaN]]', 7, "null", '[[1, 1, 1]]',
                    '"ab"')),
    ("/prompt_list", "[[1, 1]]"), ("/seed_list", '[["x", 1]]'), ("/seed_list", "[[0.5, 1]]"),
    ("/controlnets", "{}"), ("/controlnets", "[1]"), ("/controlnets", '[{"conditioning_scale": "much"}]'),
    ("/controlnets", '[{"model_id": "canny", "conditioning_scale": 7}]'), ("/controlnets", "[" * 900 + "]" * 900),
    ("/ipadapter_config", '{"a": ' + "[" * 50 + "]" * 50 + "}"),
    ("/ipadapter_config", "[]"), ("/t_list", "x"), ("/t_list", 0.5), ("/max_fps", 1e9), ("/use_controlnet", 3), ("/fx/a", 1),
    ("/fx//b", 1), ("/fx/a/b/c", 1), ("/fx/a/b", math.nan), ("/live/size", 100), ("/live/param/seed", math.inf),
    ("/live/get", "nothing.like.it"), ("/live/control/canny/scale", 9.0), ("/live/control/nobody/scale", 1.0),
    ("/live/canny/enabled", "x"),
    ("/live/osc/listen", "127.0.0.1:9"), ("/live", 1), ("/live/", 1), ("/live/param", 1), ("/live/param/a/b", 1), ("/nothing", 1),
    ("/", 1)])
def test_bad_values_change_nothing(talk, log, address, value):  # noqa: F811
    loop, peer, _ = talk()
    for _ in range(3):
        peer.send(address, value)
    wait_until(lambda: loop.counters.ignored == {address: 3})
    assert not loop.step() and not loop.commands
    warning, = log.of(logging.WARNING)
    assert warning.startswith(f"osc: {address}: ")
    peer.send("/seed", 8)
    assert loop.next_step() == {"params.seed": 8}


def test_a_prompt_list_of_20_kilobytes(talk):
    loop, peer, _ = talk()
    text = json.dumps(PROMPTS)
    assert 20_000 < len(text) < 65_000
    peer.send("/prompt_list", text)
    assert loop.next_step() == {"params.prompt_list": PROMPTS}


def test_the_later_of_prompt_and_list_is_in_force(talk):
    loop, peer, _ = talk()
    peer.send("/prompt_list", json.dumps(PROMPTS))
    loop.next_step()
    peer.send("/prompt", "a dog")
    assert loop.next_step() == {"params.prompt": "a dog", "params.prompt_list": [["a dog", 1.0]]}


def test_what_adds_up_need_not_wait_for_the_loop(talk):
    loop, peer, _ = talk()
    for address, *values in (("/fx/zoom/by", 2), ("/ipadapter_update",), ("/prompt_list", '[["cat", 1]]'), ("/fx/zoom/speed", 3),
                             ("/ipadapter_update",), ("/prompt", "dog"), ("/seed", 9)):
        peer.send(address, *values)
    wait_until(lambda: loop.changes.latest()["params.seed"] == 9)
    assert loop.step() == {"params.fx": {"zoom": {"by": 2, "speed": 3}}, "params.ipadapter_update": 2, "params.prompt": "dog",
                           "params.prompt_list": [["dog", 1.0]], "params.seed": 9}
    loop.changes.put({"params.seed": 10})
    loop.changes.take()  # and not published yet
    assert loop.changes.latest()["params.seed"] == 10 and loop.changes.values()["params.seed"] == 9


def test_commands(talk):
    loop, peer, _ = talk(send=True)
    for address, command, *answer in [
        ("/start_streaming", "play", "/streaming_status", "started"), ("/stop_streaming", "pause", "/streaming_status", "stopped"),
        ("/pause", "pause", "/streaming_status", "paused"), ("/play", "play", "/streaming_status", "resumed"),
        ("/process_frame", "process_frame"), ("/frame_ack", "frame_ack"), ("/stop", "stop", "/application_status", "stopping"),
        ("/live/reload", "reload"), ("/live/stop", "stop")]:
        peer.send(address, 1.0)
        loop.next_step()
        assert loop.commands.pop() == (command,) and not loop.commands
        if answer:
            assert peer.read(answer[0]) == tuple(answer)
    peer.send("/sdmode", "txt2img")
    assert peer.read("/mode_status") == ("/mode_status", "txt2img")


def test_a_bundle_is_one_change(talk, monkeypatch):
    loop, peer, _ = talk()
    puts, put = [], loop.changes.put
    monkeypatch.setattr(loop.changes, "put", lambda changes, commands=(): (puts.append((changes, commands)), put(changes, commands)))
    for i in range(200):
        peer.bundle(("/seed", i), ("/prompt", f"number {i}"), ("/nothing", 1), ("/pause",), ("/live/control/canny/scale", i / 200))
    seen = -1
    while seen < 199:
        changes = loop.next_step()
        seen = changes["params.seed"]  # the loop may take several at once, but none in parts
        assert changes["params.prompt"] == f"number {seen}" and changes["controls.canny.scale"] == pytest.approx(seen / 200)
        assert loop.commands == [("pause",)] * (seen + 1)
    assert loop.counters.ignored == {"/nothing": 200}
    assert [(changes["params.seed"], len(changes), commands) for changes, commands in puts] == [(i, 3, [("pause",)]) for i in range(200)]


def test_a_bundle_from_the_future_is_taken_now(talk):
    from pythonosc.osc_bundle_builder import OscBundleBuilder
    from pythonosc.osc_message_builder import build_msg
    loop, peer, _ = talk()
    builder, inner = OscBundleBuilder(2.00e9), OscBundleBuilder(2.05e9)
    inner.add_content(build_msg("/prompt", ["later"]))
    builder.add_content(build_msg("/seed", [7]))
    builder.add_content(inner.build())
    peer.raw(builder.build().dgram)
    assert loop.next_step() == {"params.seed": 7, "params.prompt": "later"}


def test_the_last_value_wins(talk):
    loop, peer, _ = talk()
    for i in range(1000):
        peer.send("/seed", i)
    seen = -1
    while seen < 999:
        changes = loop.next_step()
        assert changes["params.seed"] > seen
        seen = changes["params.seed"]


def test_switching_controls_restores_what_was_on(talk):
    loop, peer, _ = talk(wanted={"controls": {"canny": {"channel": "edges", "scale": 0.577},
                                              "depth": {"channel": "far", "enabled": False}}})
    for _ in range(3):
        for value, on in ((0, False), (0.0, False), (1, True)):
            peer.send("/use_controlnet", value)
            loop.next_step()
            assert loop.control("canny") == (on, 0.577) and loop.control("depth") == (False, 1.0)
    # before the loop has made the changes
    for value in (0, 1, 0, 1, 0):
        peer.send("/use_controlnet", value)
    peer.send("/live/control/canny/scale", 0.25)
    peer.send("/use_controlnet", 1)
    wait_until(lambda: loop.step() and loop.control("canny") == (True, 0.25))
    assert loop.control("depth") == (False, 1.0)


def test_controls_that_were_never_on(talk):
    loop, peer, _ = talk(wanted={"controls": {"canny": {"channel": "edges", "enabled": False}}})
    peer.send("/use_controlnet", 0)
    loop.next_step()
    peer.send("/use_controlnet", 1)
    loop.next_step()
    assert loop.control("canny") == (True, 1.0)


def test_an_engine_without_control_images_gets_the_switch(talk):
    loop, peer, _ = talk(wanted={"controls": {}})
    peer.send("/use_controlnet", 0)
    assert loop.next_step() == {"params.use_controlnet": False}


def test_controlnets_are_the_wanted_state(talk):
    loop, peer, _ = talk()
    canny = {"model_id": "thibaud/controlnet-sd21-canny-diffusers", "conditioning_scale": 0.5, "enabled": True}
    depth = {"model_id": "x", "preprocessor": "depth", "preprocessor_params": {"near": 1}}

    def send(*entries):
        peer.send("/controlnets", json.dumps(entries))
        return loop.next_step()

    assert send(canny, depth)["params.controlnets"] == [canny, {**depth, "conditioning_scale": 1.0, "enabled": True}]
    assert loop.control("canny") == (True, 0.5) and loop.control("depth") == (True, 1.0)
    send(canny)
    assert loop.control("canny") == (True, 0.5) and loop.control("depth") == (False, 1.0)
    peer.send("/use_controlnet", 0)
    loop.next_step()
    send({**depth, "conditioning_scale": 0.75}, {**canny, "enabled": False})
    assert not loop.control("canny")[0] and loop.control("depth") == (False, 0.75)
    peer.send("/use_controlnet", 1)
    loop.next_step()
    assert not loop.control("canny")[0] and loop.control("depth") == (True, 0.75)


def test_one_control_image_is_for_all_controlnets(talk):
    loop, peer, _ = talk(wanted={"controls": {"cn": "edges"}})
    peer.send("/controlnets", json.dumps([{"model_id": "a", "enabled": False}, {"model_id": "b", "conditioning_scale": 0.3}]))
    loop.next_step()
    assert loop.control("cn") == (True, 0.3)
    peer.send("/controlnets", "[]")
    loop.next_step()
    assert not loop.control("cn")[0]


def test_the_small_dialect_sets_what_the_table_has(talk):
    loop, peer, _ = talk()
    for address, sent, path, wanted in [
        ("/live/input/enabled", [0.0], "input.enabled", False), ("/live/canny/enabled", [False], "controls.canny.enabled", False),
        ("/live/control/canny/scale", [1], "controls.canny.scale", 1.0),
        ("/live/control/depth/pair", ["number"], "controls.depth.pair", "number"),
        ("/live/size", [256.0, 128], "size", (256, 128)), ("/live/input/stale", ["250ms"], "input.stale", 0.25),
        ("/live/output/channel", ["other"], "output.channel", "other"), ("/live/param/seed", [9.0], "params.seed", 9),
        ("/live/param/seed", [0.5], "params.seed", 0.5), ("/live/param/strength", [1], "params.strength", 1.0),
        ("/live/param/tiled", [1.0], "params.tiled", True), ("/live/param/style", ['{"3": 1}'], "params.style", {"3": 1}),
        ("/live/param/new", [1, 0.5, "x"], "params.new", [1, 0.5, "x"]), ("/live/param/new", ["[2]"], "params.new", [2])]:
        peer.send(address, *sent)
        found = loop.next_step()
        assert found == {path: wanted} and type(found[path]) is type(wanted)
    assert not loop.counters.ignored


def test_values_are_read_back(talk):
    loop, peer, _ = talk()
    peer.send("/live/get", "controls.canny.scale")
    assert peer.read("/live/value") == ("/live/value", "controls.canny.scale", 1.0)
    peer.send("/live/control/canny/scale", 0.5)
    loop.next_step()
    peer.send("/live/get", "controls.canny.scale")
    assert peer.read("/live/value") == ("/live/value", "controls.canny.scale", 0.5)
    for path, wanted in {"size": (512, 512), "input.enabled": (1,), "max_fps": (), "params.style": ('{"19": 1.0}',),
                         "params.prompt": ("a cat",)}.items():
        peer.send("/live/get", path)
        assert peer.read("/live/value") == ("/live/value", path, *wanted)
    peer.send("/live/get")
    assert [peer.read("/live/value")[1] for _ in loop.values] == sorted(loop.values)
    peer.send("/live/get", "controls.canny")
    assert all(peer.read("/live/value")[1].startswith("controls.canny.") for path in loop.values if path.startswith("controls.canny."))


def test_the_page_has_each_address():
    from sluice.live._osc_streamdiffusion import COMMANDS, StreamDiffusionDialect
    text = (pathlib.Path(__file__).parents[2] / "docs" / "live-osc.md").read_text()
    missing = [address for address in (*PARAMS, *COMMANDS, *StreamDiffusionDialect.HANDLERS) if f"`{address}`" not in text]
    assert not missing


def test_dialects_are_chosen(talk):
    for dialect, taken, refused in (("sluice", "/live/param/seed", "/seed"), ("streamdiffusion", "/seed", "/live/param/seed")):
        loop, peer, _ = talk(dialect=dialect)
        peer.send(refused, 7)
        peer.send(taken, 8)
        assert loop.next_step() == {"params.seed": 8} and loop.counters.ignored == {refused: 1}


def element(data, size=None):
    return struct.pack(">i", len(data) if size is None else size) + data


BUNDLE = b"#bundle\0" + bytes(8)


def deep(levels):
    data = b"/seed\0\0\0,i\0\0\0\0\0\7"
    for _ in range(levels):
        data = BUNDLE + element(data)
    return data


JUNK = [
    b"", b"\0", b"hello", b"#bundle\0", b"#bundl", BUNDLE[:12], b"/", b"/seed", b"/seed\0\0\0,i\0\0", b"/seed\0\0\0,i\0\0\0\0",
    b"/seed\0\0\0,s\0\0ab", b"/seed\0\0\0,b\0\0\x7f\xff\xff\xff", b"/\xff\xfe\0,i\0\0\0\0\0\1", b"/seed\0\0\0,s\0\0\xff\xff\xff\0",
    b"/seed\0\0\0,[i\0\0\0\0\1", b"/seed\0\0\0,]\0\0", b"/seed\0\0\0,Q\0\0", b"/seed\0\0\0,I\0\0", b"/seed\0\0\0xxxx", b"/a" + b"[" * 9000,
    BUNDLE + element(b"/seed\0\0\0,i\0\0\0\0\0\7", -4), BUNDLE + element(b"", 0), BUNDLE + element(b"", 1 << 30), BUNDLE + b"\0\0",
    BUNDLE + element(b"/seed\0\0\0,i\0\0\0\0\0\7") + element(b"junk"), BUNDLE + element(b"", -1 << 31), deep(9), deep(3000),
    b"/seed\0\0\0," + b"T" * 60000 + b"\0\0\0", b"/seed\0\0\0," + b"[" * 60000 + b"\0\0\0", os.urandom(60000), bytes(65507),
    b"/seed\0\0\0,t\0\0" + b"\xff" * 8, b"/seed\0\0\0,m\0\0abcd", b"/seed\0\0\0,N\0\0", b"/seed\0\0\0,b\0\0\0\0\0\4abcd",
]


def test_junk_is_counted_and_said_once(talk, log):  # noqa: F811
    loop, peer, _ = talk()
    peer.raw(deep(7))
    assert loop.next_step() == {"params.seed": 7}
    for count, data in enumerate(JUNK, 1):
        peer.raw(data)
        wait_until(lambda: sum(loop.counters.ignored.values()) == count, 20)
        assert not loop.step(), data[:40]
    assert set(loop.counters.ignored) == {"malformed datagrams", "/seed"}
    assert len(log.of(logging.WARNING)) == 2 and not log.of(logging.ERROR)
    peer.send("/get_status")
    assert json.loads(peer.read("/status")[1])["ignored"] == loop.counters.ignored
    peer.send("/live/status")
    assert json.loads(peer.read("/live/status")[1])["ignored"] == loop.counters.ignored


def test_random_junk(talk, log):  # noqa: F811
    """Random bytes, and messages with some bytes changed: the loop gets checked values or nothing."""
    from pythonosc.osc_message_builder import build_msg
    chance = random.Random(7)
    loop, peer, server = talk()
    asker = ("127.0.0.1", peer.address[1])
    good = [build_msg(address, [value]).dgram for address, value in
            (("/seed", 7), ("/prompt_list", json.dumps(PROMPTS[:2])), ("/controlnets", '[{"model_id": "canny"}]'), ("/fx/a/b", 0.5),
             ("/live/ahead", 2))]
    good.append(BUNDLE + b"".join(map(element, good)))
    for i in range(5_000):
        data = bytearray(chance.choice(good))
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        data = data[:chance.randrange(len(data) + 1)] if i % 3 == 0 else data
        server.receive(bytes(data), asker)
    changes = loop.step()
    assert isinstance(changes.get("params.seed", 1), int) and loop.counters.ignored["others"]
    assert len(loop.counters.ignored) <= _osc.REMEMBERED + 1 and len(log.of(logging.WARNING)) <= _osc.REMEMBERED + 1
    assert not log.of(logging.ERROR)
    peer.send("/seed", 8)
    assert loop.next_step() == {"params.seed": 8}


def test_a_port_in_use_is_named_with_the_fix():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=rf"osc\.listen: 127\.0\.0\.1:{port}: .*in use.*set osc\.listen to another port"):
            _osc.Osc(Loop(osc={"listen": f"127.0.0.1:{port}"}))
    with pytest.raises(OSError, match=r"osc\.listen: 192\.0\.2\.1:.*address of this machine"):
        _osc.Osc(Loop(osc={"listen": "192.0.2.1:0"}))


def test_without_python_osc_the_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pythonosc", None)
    with Live(report={"line": 0}):  # it is not needed
        pass
    with pytest.raises(ImportError, match="pip install python-osc"):
        _osc.Osc(Loop(osc={"listen": "127.0.0.1:0"}))


def test_closing_frees_the_port_and_ends_the_threads(talk):
    before = set(threading.enumerate())
    peer = Peer()
    for _ in range(5):
        loop = Loop(osc={"listen": "127.0.0.1:0", "send": f"127.0.0.1:{peer.address[1]}"})
        server = _osc.Osc(loop)
        assert peer.read("/stream-info/state")[1] == "local_starting_server"
        server.close()
        while peer.read("/stream-info/state")[1] != "local_offline":
            pass
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
            again.bind(("127.0.0.1", server.port))
    peer.close()
    assert set(threading.enumerate()) <= before


def test_telemetry(talk, monkeypatch):
    monkeypatch.setattr(_osc_streamdiffusion, "SECOND", 0.05)
    loop, peer, _ = talk(send=True)
    from sluice.live._counters import LinkCounters
    loop.counters.links["output"] = LinkCounters("cipd:painted")
    loop.counters.links["preview"] = LinkCounters("painted-control")
    assert peer.read("/stream-info/state")[1] == "local_starting_server"
    for state, wanted in (("starting", "local_loading_models"), ("ready", "local_ready"), ("streaming", "local_starting")):
        loop.counters.state = state
        assert peer.read("/stream-info/state")[1] == wanted
        loop.counters.wake()
    for count in range(1, 41):
        loop.counters.count_sent()
        assert peer.read("/framecount") == ("/framecount", count)  # of each picture that the peer waits for
        assert peer.read("/frame_ready") == ("/frame_ready", count)
        assert 0 < peer.read("/stream-info/fps")[1]
        if count == 30:
            assert peer.read("/stream-info/state")[1] == "local_streaming"
    with loop.counters.lock:
        loop.counters.errors, loop.counters.error, loop.counters.error_at = 1, "shot 12: it broke", 1764000000.5
    assert peer.read("/stream-info/error") == ("/stream-info/error", "shot 12: it broke")
    assert peer.read("/stream-info/error-time") == ("/stream-info/error-time", 1764000000500)
    for _ in range(2):
        assert peer.read("/server_active") == ("/server_active", 1)
    assert peer.read("/stream-info/output-name")[1] == "painted"
    assert peer.read("/stream-info/controlnet-processed-name")[1] == "painted-control"
    loop.counters.state = "stopped"
    while peer.read("/stream-info/state")[1] != "local_offline":
        pass


def test_status_goes_to_who_asked_and_to_the_host(talk):
    loop, host, server = talk(send=True)
    other = Peer(server.port)
    other.send("/get_status")
    assert other.read("/status") == host.read("/status")
    host.send("/get_status")
    host.read("/status")
    loop.counters.count_sent()
    assert host.read("/status", "/framecount")[0] == "/framecount"  # once
    other.close()


def test_a_loop_that_does_not_end_after_stop_is_ended(folder):
    script = f"""
import sys
sys.path[:0] = {sys.path!r}
import logging, threading
from live_kit import Loop, Peer
from sluice.live import _osc
logging.basicConfig()
_osc.STOP = 0.2
loop = Loop(osc={{"listen": "127.0.0.1:0"}})
server = _osc.Osc(loop)
peer = Peer(server.port)
peer.send("/stop")
assert loop.changes.wait({SECONDS})
if sys.argv[1] == "ends":
    loop.counters.state = "stopped"  # as a loop does, whose program has more to do
    threading.Event().wait(1)
    server.close()
    sys.exit(7)

def an_engine_that_hangs():
    threading.Event().wait()

an_engine_that_hangs()
"""
    ended = subprocess.run([sys.executable, "-c", script, "hangs"], capture_output=True, text=True, timeout=STARTS)
    assert ended.returncode == 1 and "0.2 s after /stop" in ended.stderr and "an_engine_that_hangs" in ended.stderr
    ended = subprocess.run([sys.executable, "-c", script, "ends"], capture_output=True, text=True, timeout=STARTS)
    assert ended.returncode == 7, ended.stderr


class Nvml:
    """NVIDIA's library, as far as it is asked for memory."""

    def __init__(self, total, used):
        self.memory, self.index, self.open = (total, total - used, used), None, 0

    def nvmlInit_v2(self):
        self.open += 1
        return 0

    def nvmlShutdown(self):
        self.open -= 1
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index, handle):
        self.index = index.value
        return 0

    def nvmlDeviceGetMemoryInfo(self, handle, memory):
        memory._obj.total, memory._obj.free, memory._obj.used = self.memory
        return 0


@pytest.mark.parametrize("device, visible, index", [("cuda:1", "", 1), ("cuda:1", "3,2", 2), ("cuda:1", "3", None),
                                                    ("cuda:0", "GPU-12ab", None), ("host", "", None)])
def test_memory_of_the_gpu(talk, monkeypatch, device, visible, index):
    monkeypatch.setattr(_osc_streamdiffusion, "SECOND", 0.01)
    nvml = Nvml(80 << 30, 12 << 30)
    monkeypatch.setattr("sluice.cuda_link.nvml_observer._nvml", nvml)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    _, peer, server = talk(send=True, wanted={"device": device})
    if index is None:  # it is not known which GPU that is
        assert [peer.read("/vram/total", "/server_active")[0] for _ in range(3)] == ["/server_active"] * 3
    else:
        assert peer.read("/vram/total", "/vram/used") == ("/vram/total", 80.0)
        assert peer.read("/vram/total", "/vram/used") == ("/vram/used", 12.0)
        assert nvml.open == 1
    server.close()
    assert nvml.index == index and nvml.open == 0
