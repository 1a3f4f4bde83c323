# SPDX-License-Identifier: MIT
"""Settings of a live loop: files that are broken, where values are from, StreamDiffusion's td_config.yaml, the command."""
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading

import pytest

pytest.importorskip("yaml", reason="PyYAML is not installed")
pytest.importorskip("pythonosc", reason="python-osc is not installed")

from sluice.live import __main__ as command, _changes, _yaml
from sluice.live._changes import Changes, Watch
from sluice.live._config import ConfigError, check, load
from sluice.live._settings import SETTINGS, differences

LIVE = """\
version: 1
device: host
size: [512, 384]
engine: {program: "style.py:Engine", args: {style: {19: 1.0}}}
input:
  channel: camera
  stale: 700ms
  fill: [0, 0.5, 1]
controls:
  canny: {channel: edges, scale: 0.577, on_stale: off, wait: 2ms}
  depth: far
output: painted
preview: {channel: seen, of: depth, enabled: on}
params: {prompt: "a cat: grey", seed: 2, style: {19: 1.0}}
osc: {listen: 127.0.0.1:8588, send: 8576}
report: {line: 2s}
"""


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("SLUICE_LIVE__", "SDTD_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def write(tmp_path):
    def write(text, name="live.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def problems(write):
    """What is wrong with a file, without the folder."""

    def problems(text, sets=(), environ=None, name="live.yaml"):
        path = write(text, name)
        with pytest.raises(ConfigError) as raised:
            load(path, sets, environ or {})
        return [line.replace(f"{path.parent}/", "") for line in raised.value.problems]

    return problems


BOMB = "params: {a: &a [1, 2, 3], " + ", ".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in zip("abcdefg", "bcdefgh")) + "}"

BROKEN = {
    "a number that is too large": ("controls: {canny: {channel: e, scale: 2.7}}", 1, 39, "controls.canny.scale: 2.7 is above 2.0"),
    "a number that is too small": ("ahead: 0", 1, 8, "ahead: 0 is below 1"),
    "a number with a fraction": ("output: {channel: p, slots: 2.5}", 1, 29, "output.slots: must be a whole number, not '2.5'"),
    "a number that is a word": ("ahead: many", 1, 8, "ahead: must be a whole number, not 'many'"),
    "a number that is none": ("input: {channel: c, rate: .nan}", 1, 27, "input.rate: must be a number"),
    "a number that is a list": ("ahead: [1]", 1, 8, "ahead: must be a whole number, not ['1']"),
    "a number that is a section": ("ahead:\n  b: 1", 2, 3, "ahead: must be a whole number, not keys and values"),
    "no value": ("ahead:\nsize: [8, 8]", 1, 7, "ahead: must have a value"),
    "neither true nor false": ("input: {channel: c, enabled: maybe}", 1, 30, "input.enabled: must be true or false"),
    "a size of one length": ("size: [512]", 1, 7, "size: must be a width and a height"),
    "a size that is no multiple": ("size: [510, 512]", 1, 7, "size: 510 is no multiple of 8"),
    "a size that is too large": ("size: 512x65536", 1, 7, "size: 65536 is above 16384"),
    "a size that is a word": ("output: {channel: p, size: modle}", 1, 28, "output.size: must be model or input, or a width"),
    "a time without a unit that exists": ("input: {channel: c, stale: 5 days}", 1, 28, "input.stale: must be a time"),
    "a time before now": ("input: {channel: c, stale: -1s}", 1, 28, "input.stale: -1.0 is below 0.0"),
    "a range upside down": ("input: {channel: c, range: 1..-1}", 1, 28, "input.range: must be a lower and a higher value"),
    "a colour too bright": ("input: {channel: c, fill: [0, 0, 255]}", 1, 27, "input.fill: must be red, green and blue from 0 to 1"),
    "an address without a port": ("osc: {listen: localhost}", 1, 15, "osc.listen: must be HOST:PORT"),
    "a port that there is not": ("osc: {listen: '127.0.0.1:99999'}", 1, 15, "osc.listen: must be HOST:PORT"),
    "a word that is no choice": ("dtype: float15", 1, 8,
                                 "dtype: must be one of float16, bfloat16, float32, not 'float15'; did you mean"),
    "a device that is none": ("device: gpu", 1, 9, "device: must be host or cuda:N"),
    "a channel's name": ("input: {channel: 'a b'}", 1, 18, "input.channel: must be 1 to 64 letters"),
    "a program without a name": ("engine: {program: style.py}", 1, 19, "engine.program: must be FILE.py:NAME or MODULE:NAME"),
    "a version to come": ("version: 2", 1, 10, "version: 2 is above 1"),
    "an unknown key": ("version: 1\nouput: painted", 2, 1, "ouput: unknown; did you mean output?"),
    "an unknown key of a section": ("input:\n  channel: c\n  stael: 1s", 3, 3, "input.stael: unknown; did you mean input.stale?"),
    "an unknown key of a control": (
        "controls: {a: {channel: c, scael: 1}}", 1, 28, "controls.a.scael: unknown; did you mean controls.a.scale?"),
    "an unknown key like no other": ("zzzzz: 1", 1, 1, "zzzzz: unknown"),
    "a key twice": ("input: {channel: a}\nahead: 1\ninput: {channel: b}", 3, 1, "input: is in line 1 already"),
    "a key of a parameter twice": ("params: {style: {a: 1, a: 2}}", 1, 24, "params.style.a: is in line 1 already"),
    "a key that is a list": ("params: {[a]: 1}", 1, 10, "params: a key must be a text"),
    "a section that is a number": ("osc: 5", 1, 6, "osc: must be keys and values"),
    "parameters that are a list": ("params: [1]", 1, 9, "params: must be keys and values"),
    "controls that are a list": ("controls: [edges]", 1, 11, "controls: must be keys and values"),
    "a control's name": ("controls: {'a b': edges}", 1, 12, "controls.a b: a control's name is of"),
    "a control without a channel": ("controls:\n  a: {scale: 1}", 2, 3, "controls.a.channel: is missing"),
    "an output without a channel": ("output: {slots: 4}", 1, 17, "output.channel: is missing: name the channel, or set enabled to false"),
    "a preview of no control": (
        "controls: {canny: e}\npreview: {of: cany}", 2, 15, "preview.of: there is no control cany; did you mean canny?"),
    "a preview without controls": ("preview: {channel: p, enabled: true}", 1, 32, "preview.enabled: there is no control to show"),
    "two writers of a channel": ("controls: {c: e}\noutput: p\npreview: {channel: p, enabled: true}", 3, 20,
                                 "preview.channel: p is the output's channel already"),
    "messages that come back": ("osc: {listen: 9000, send: 9000}", 1, 27, "osc.send: is the address of osc.listen"),
    "a tab": ("size:\n\t- 8", 2, 1, "a tab: YAML is indented by spaces"),
    "a bracket that stays open": ("size: [1, 2\nahead: 1", 2, 6, "no YAML"),
    "an alias of nothing": ("size: *far", 1, 7, "no YAML: found undefined alias"),
    "an alias within itself": ("params: &a {x: *a}", 1, 13, "params.x: more than 10,000 values behind aliases"),
    "aliases of aliases": (BOMB, 1, 0, "values behind aliases"),
    "too many values": ("params: {a: [" + "1," * 10_000 + "]}", 1, 0, "more than 10,000 values"),
    "too deep": ("params: {a: " + "[" * 60 + "]" * 60 + "}", 1, 61, "nested too deeply"),
    "a tag that makes objects": (
        "params: {a: !!python/object/apply:os.getcwd []}", 1, 13, "params.a: the tag !!python/object/apply:os.getcwd has no"),
    "a tag that does not fit": ("params: {a: !!int abc}", 1, 13, "params.a: 'abc' is no !!int"),
    "a tag on nothing": ("params: {a: !!int }", 1, 13, "params.a: '' is no !!int"),
    "a merge of nothing": ("controls: {a: {<<: 5, channel: c}}", 1, 20, "controls.a: << must have keys and values"),
    "a second document": ("ahead: 1\n---\nahead: 2", 2, 1, "a second document"),
    "a list": ("- input", 1, 1, "must be keys and values"),
    "a text": ("input", 1, 1, "must be keys and values"),
    "a file of 2 MiB": ("# " + "x" * (2 << 20), 1, 1, "the file is larger than 1 MiB"),
    "bytes that are no text": (b"params:\n  a: \xff", 2, 6, "the file is not UTF-8"),
    "a control character": ("params:\n  a: \x07", 2, 6, r"the character '\x07' cannot be in YAML"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_file(name, write, monkeypatch, capsys):
    text, line, column, sentence = BROKEN[name]
    path = write(text)
    monkeypatch.setattr(sys, "argv", ["sluice-live", "--check", str(path)])
    assert command.main() == 2
    out, err = capsys.readouterr()
    assert out == "" and sentence in err
    place = re.match(re.escape(str(path)) + r":(\d+):(\d+): ", err)
    assert place and int(place[1]) == line and column in (0, int(place[2])), err


def test_all_errors_at_once(problems):
    found = problems("device: gpu\nsize: [510, 512]\ninput: {chanel: camera}\ncontrols: {a: {scale: 9, scale: 3}}\nouput: p\n", ["ahead=0"],
                     {"SLUICE_LIVE__DTYPE": "int8", "SLUICE_LIVE__OUPUT": "p"})
    assert [each.partition(": ")[0] for each in found] == [
        "live.yaml:1:9", "live.yaml:2:7", "live.yaml:3:9", "live.yaml:4:12", "live.yaml:4:26", "live.yaml:4:33", "live.yaml:5:1",
        "SLUICE_LIVE__DTYPE", "SLUICE_LIVE__OUPUT", "--set"]
    assert found[-2].endswith("ouput: unknown; did you mean output?")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"no\.yaml: cannot be read: No such file"):
        load(tmp_path / "no.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path)


def test_values(write):
    settings = load(write(LIVE), environ={})
    assert settings.size == (512, 384) and settings.device == "host"
    assert settings.input.channel == "camera" and settings.input.stale == 0.7 and settings.input.fill == (0.0, 0.5, 1.0)
    assert list(settings.controls) == ["canny", "depth"]
    assert settings.controls["canny"].on_stale == "off" and settings.controls["canny"].wait == pytest.approx(0.002)
    assert settings.controls["depth"].channel == "far" and settings.controls["depth"].scale == 1.0
    assert settings.output.channel == "painted" and settings.preview.enabled is True
    assert settings.params == {"prompt": "a cat: grey", "seed": 2, "style": {19: 1.0}}
    assert settings.engine.args == {"style": {19: 1.0}}
    assert settings.osc.listen == ("127.0.0.1", 8588) and settings.osc.send == ("127.0.0.1", 8576)
    assert settings.report.line == 2.0 and settings.ahead == 1


@pytest.mark.parametrize("text, seconds", [("500ms", 0.5), ("0.5", 0.5), ("1s", 1.0), ("250 us", 0.00025), ("2min", 120.0), (".5s", 0.5)])
def test_times(text, seconds):
    assert load({"input": {"channel": "c", "stale": text}}, environ={}).input.stale == pytest.approx(seconds)


def test_a_program_s_dictionary():
    anything = object()
    settings = load({"input": "camera", "controls": {"canny": "edges"}, "output": {"channel": "painted", "size": "input"},
                     "size": (256, 128), "params": {"embedding": anything}}, environ={})
    assert settings.params["embedding"] is anything and settings.size == (256, 128)
    assert settings.controls["canny"].channel == "edges" and settings.output.size == "input"
    assert settings.origin("input.channel") == "program" and settings.origin("ahead") == "default"
    with pytest.raises(ConfigError) as raised:
        load({"inputs": "camera", "output": {"slots": 1, "enabled": True}}, environ={})
    assert raised.value.problems == ("inputs: unknown; did you mean input?", "output.slots: 1 is below 2",
                                     "output.channel: is missing: name the channel, or set enabled to false")


def test_the_nearest_source_wins(write):
    path = write(LIVE)
    environ = {"SLUICE_LIVE__CONTROLS__CANNY__SCALE": "0.25", "SLUICE_LIVE__INPUT__STALE": "1s", "SLUICE_LIVE__PARAMS__SEED": "7",
               "SLUICE_LIVE__OUTPUT": "elsewhere", "SLUICE_LIVE__OSC__SEND": ""}
    settings = load(path, ["controls.canny.scale=0.125", "params.prompt=a dog: brown, #1", "params.style={3: 0.5}"], environ)
    assert settings.controls["canny"].scale == 0.125 and settings.origin("controls.canny.scale") == "--set"
    assert settings.input.stale == 1.0 and settings.origin("input.stale") == "SLUICE_LIVE__INPUT__STALE"
    assert settings.input.channel == "camera" and settings.origin("input.channel") == f"{path}:6:12"
    assert settings.input.fit == "cover" and settings.origin("input.fit") == "default"
    assert settings.output.channel == "elsewhere" and settings.origin("output.channel") == "SLUICE_LIVE__OUTPUT"
    assert settings.osc.send is None
    assert settings.params == {"prompt": "a dog: brown, #1", "seed": 7, "style": {3: 0.5}}
    assert [settings.origin(f"params.{name}") for name in ("prompt", "seed", "style")] == ["--set", "SLUICE_LIVE__PARAMS__SEED", "--set"]
    assert load(settings, ["ahead=2"]).ahead == 2


@pytest.mark.parametrize("set, sentence", [
    ("control.canny.scale=1", "--set: control.canny.scale: unknown; did you mean controls.canny.scale?"),
    ("controls.cann.scale=1",
     "--set: controls.cann.channel: is missing: name the channel, or set enabled to false; did you mean controls.canny?"),
    ("ahead", "--set: ahead: write it as PATH=VALUE"),
    ("params.a=[1", "--set: params.a: no YAML"),
    ("input.channel=", "--set: input.channel: is missing"),
])
def test_options_that_are_wrong(set, sentence, problems):
    assert problems(LIVE, [set])[0].startswith(sentence)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.path)
def test_every_setting_has_a_variable(setting):
    """With a value that is not its default, where it may have another one."""
    number = "1" if setting.path == "version" else str(int(setting.low or 0) + 3)
    values = {"bool": str(not setting.default), "int": number, "float": "1.5", "seconds": "0.75", "str": "word",
              "channel": "other", "range": "-2..2", "colour": "0,1,0", "address": "[::1]:9", "size": "64x32", "device": "cuda:1",
              "program": "a.b:C", "map": "{a: [1]}"}
    others = [choice for choice in setting.choices if choice != setting.default]
    text = others[0] if others and setting.type == "str" else values[setting.type]
    path = setting.path.replace("*", "canny")
    base = {"input": "i", "output": "o", "controls": {"canny": "c", "word": "w"}, "preview": "p"}
    settings = load(base, environ={f"SLUICE_LIVE__{path.upper().replace('.', '__')}": text})
    found = settings.flat[path]
    assert found != setting.default or setting.low == setting.high is not None
    origin = settings.origin(f"{path}.a" if setting.type == "map" else path)
    assert origin == f"SLUICE_LIVE__{path.upper().replace('.', '__')}"


def test_printed_settings_are_a_file(write, capsys):
    settings = load(write(LIVE), environ={"SLUICE_LIVE__AHEAD": "2"})
    command.print_settings(settings)
    printed = capsys.readouterr().out
    again = load(write(printed, "again.yaml"), environ={})
    assert differences(settings, again) == {}
    assert re.search(r"^ahead: 2 +# SLUICE_LIVE__AHEAD$", printed, re.M)
    assert re.search(r"^    scale: 0\.577 +# .*live\.yaml:10:34$", printed, re.M)
    assert re.search(r"^  seed: 2 +# .*live\.yaml:14:39$", printed, re.M)


def test_check_of_one_change(write):
    settings = load(write(LIVE), environ={})
    for path, value, wanted in [("controls.canny.scale", 1, 1.0), ("controls.canny.scale", True, 1.0), ("output.slots", 4.0, 4),
                                ("input.enabled", 0.0, False), ("input.enabled", 1, True), ("size", [256.0, 128], (256, 128)),
                                ("output.slots", "5", 5), ("params.seed", [1, "a"], [1, "a"]), ("engine.args.new", 5, 5),
                                ("input.channel", "cipd:x", "cipd:x"), ("osc.listen", None, ValueError), ("device", "host", ValueError),
                                ("output.slots", 2.5, ValueError), ("input.enabled", 0.5, ValueError), ("input.enabled", "x", ValueError),
                                ("controls.canny.scale", float("nan"), ValueError), ("controls.canny.scale", 3, ValueError),
                                ("controls.cany.scale", 1, ValueError), ("preview.of", "cany", ValueError),
                                ("size", (250, 250), ValueError),
                                ("input.channel", None, ValueError), ("input.channel", 5, ValueError), ("nothing", 1, ValueError),
                                ("input", "camera", ValueError), ("params", 3, ValueError), ("preview.channel", "painted", ValueError)]:
        if wanted is ValueError:
            with pytest.raises(ValueError):
                check(settings, path, value)
        else:
            found = check(settings, path, value)
            assert found == wanted and type(found) is type(wanted), path


# ---- StreamDiffusion's file ----

TD = """\
use_cuda_ipc_input: true
use_cuda_ipc_output: true
cuda_ipc_shm_name: td_output_ipc
cuda_ipc_num_slots: 3
use_cuda_ipc_controlnet: true
send_controlnet_preview: true
cuda_ipc_cn_processed_shm_name: td_processed
use_controlnet: true
height: 512
dtype: float16
device: cuda
output_type: np
acceleration: tensorrt
prompt: a cat
seed: 4
t_index_list: [16, 32]
use_denoising_batch: true
controlnets:
  - {model_id: canny, conditioning_scale: 0.577, preprocessor: canny, preprocessor_params: {low: 1}}
td_settings:
  input_mem_name: td
  output_mem_name: td_out
  cuda_ipc_input_shm_name: td_input_ipc
  cuda_ipc_control_shm_name: td_control_ipc
  osc_transmit_port: 9001
  osc_receive_port: 9002
  debug_mode: false
  more: 1
"""




KEYS = [  # the line of the file, what it becomes, and what the settings are then
    ("use_cuda_ipc_input: true", "use_cuda_ipc_input: false", {"input.enabled": True, "input.channel": "td"}),
    ("use_cuda_ipc_output: true", "use_cuda_ipc_output: false", {"output.enabled": True, "output.channel": "td_out"}),
    ("cuda_ipc_shm_name: td_output_ipc", "cuda_ipc_shm_name: TD>>Python", {"output.channel": "cipd:TD>>Python"}),
    ("cuda_ipc_num_slots: 3", "cuda_ipc_num_slots: 7", {"output.slots": 7}),
    ("cuda_ipc_num_slots: 3", "cuda_ipc_num_slots: 1", {"output.slots": 2}),
    ("use_cuda_ipc_controlnet: true", "use_cuda_ipc_controlnet: false", {"controls.cn.enabled": False}),
    ("send_controlnet_preview: true", "send_controlnet_preview: false", {"preview.enabled": False}),
    ("cuda_ipc_cn_processed_shm_name: td_processed", "cuda_ipc_cn_processed_shm_name: b", {"preview.channel": "cipd:b"}),
    ("acceleration: tensorrt", "width: 1024", {"size": (1024, 512)}),
    ("height: 512", "height: 256", {"size": (512, 256)}),
    ("dtype: float16", "dtype: float32", {"dtype": "float32"}),
    ("device: cuda", "device: cuda:1", {"device": "cuda:1"}),
    ("prompt: a cat", "prompt: 'a dog'", {"params.prompt": "a dog"}),
    ("seed: 4", "seed: 5", {"params.seed": 5}),
    ("acceleration: tensorrt", "negative_prompt: x", {"params.negative_prompt": "x"}),
    ("acceleration: tensorrt", "guidance_scale: 1.5", {"params.guidance_scale": 1.5}),
    ("acceleration: tensorrt", "delta: 0.5", {"params.delta": 0.5}),
    ("acceleration: tensorrt", "num_inference_steps: 20", {"params.num_inference_steps": 20}),
    ("acceleration: tensorrt", "cfg_type: none", {"params.cfg_type": "none"}),
    ("acceleration: tensorrt", "frame_buffer_size: 2", {"params.frame_buffer_size": 2}),
    ("t_index_list: [16, 32]", "t_index_list: [0, 16, 32]", {"engine.delay": 2, "params.t_index_list": [0, 16, 32]}),
    ("use_denoising_batch: true", "use_denoising_batch: false", {"params.use_denoising_batch": False}),
    ("0.577", "0.5", {"controls.cn.scale": 0.5}),
    ("  cuda_ipc_input_shm_name: td_input_ipc", "  cuda_ipc_input_shm_name: x", {"input.channel": "cipd:x"}),
    ("  cuda_ipc_control_shm_name: td_control_ipc", "  cuda_ipc_control_shm_name: x", {"controls.cn.channel": "cipd:x"}),
    ("  osc_transmit_port: 9001", "  osc_transmit_port: 1234", {"osc.listen": ("127.0.0.1", 1234)}),
    ("  osc_receive_port: 9002", "  osc_receive_port: 1234", {"osc.send": ("127.0.0.1", 1234)}),
    ("  debug_mode: false", "  debug_mode: true", {"report.debug": True}),
]
WHOLE = {"input.enabled": True, "input.channel": "cipd:td_input_ipc", "output.enabled": True, "output.channel": "cipd:td_output_ipc",
         "output.slots": 3, "controls.cn.enabled": True, "controls.cn.channel": "cipd:td_control_ipc", "controls.cn.scale": 0.577,
         "preview.enabled": True, "preview.channel": "cipd:td_processed", "size": (512, 512), "dtype": "float16", "device": "cuda:0",
         "engine.delay": 1, "osc.listen": ("127.0.0.1", 9001), "osc.send": ("127.0.0.1", 9002), "report.debug": False}


def with_params(settings):
    return {**settings.flat, **{f"params.{name}": value for name, value in settings.params.items()}}


def test_upstreams_file(write):
    settings = load(write(TD, "td_config.yaml"), environ={})
    assert {path: settings.flat[path] for path in WHOLE} == WHOLE
    assert list(settings.passed) == ["use_controlnet", "output_type", "acceleration", "td_settings"]
    assert settings.passed["td_settings"] == {"more": 1}
    assert settings.params["controlnets"][0]["preprocessor_params"] == {"low": 1}
    assert settings.params["guidance_scale"] == 1.2 and settings.params["num_inference_steps"] == 50


@pytest.mark.parametrize("before, after, wanted", KEYS, ids=[after.strip() for _, after, _ in KEYS])
def test_each_key_of_upstreams_file(before, after, wanted, write, capsys):
    path = write(TD.replace(before, after), "td_config.yaml")
    old, new = load(write(TD, "before.yaml"), environ={}), load(path, environ={})
    assert TD.count(before) == 1
    found = with_params(new)
    assert {path: found[path] for path in wanted} == wanted
    changed = {path for path in found if with_params(old).get(path) != found[path]} - {"params", "params.controlnets"}
    assert changed <= {*wanted, "engine.delay"}, "nothing else changes"
    line = 1 + TD[: TD.index(before)].count("\n")
    assert any(new.origin(each).startswith(f"{path}:{line}:") for each in wanted), "with its place"
    command.print_settings(new)
    assert f"{path}:{line}:" in capsys.readouterr().out


def test_upstreams_defaults(write):
    settings = load(write("td_settings: {}\n"), environ={})
    assert not settings.input.enabled and not settings.output.enabled and not settings.preview.enabled and not settings.controls
    assert settings.output.slots == 2 and settings.size == (512, 512) and settings.dtype == "float16" and settings.device == "cuda:0"
    assert settings.osc.listen == ("127.0.0.1", 8247) and settings.osc.send == ("127.0.0.1", 8248)
    assert settings.engine.delay == 3 and settings.params["t_index_list"] == [0, 16, 32, 45]
    named = load(write("use_cuda_ipc_input: true\nuse_cuda_ipc_controlnet: true\ncontrolnets: [{}]\ntd_settings: {input_mem_name: a b}\n"),
                 environ={})
    assert named.input.channel == "cipd:a b_input_ipc" and named.controls["cn"].channel == "cipd:a b_control_ipc"


def test_upstreams_variable(write):
    path = write("cuda_ipc_shm_name: x\ntd_settings: {}\n")
    settings = load(path, environ={"SDTD_CUDA_IPC_OUTPUT": "1"})
    assert settings.output.channel == "cipd:x" and settings.origin("output.enabled") == "SDTD_CUDA_IPC_OUTPUT"
    assert not load(path, environ={"SDTD_CUDA_IPC_OUTPUT": "0"}).output.enabled
    path.write_text("use_cuda_ipc_output: false\ncuda_ipc_shm_name: x\n")
    assert not load(path, environ={"SDTD_CUDA_IPC_OUTPUT": "1"}).output.enabled


@pytest.mark.parametrize("text, wanted", [
    ("use_cuda_ipc_contolnet: true\n", "td.yaml:1:1: use_cuda_ipc_contolnet: unknown; did you mean use_cuda_ipc_controlnet?"),
    ("td_settings:\n  osc_transmitt_port: 5\n", "td.yaml:2:3: osc_transmitt_port: unknown; did you mean osc_transmit_port?"),
    ("td_settings: {}\nosc_transmit_port: 5\n", "td.yaml:2:1: osc_transmit_port: belongs into td_settings"),
    ("td_settings:\n  use_cuda_ipc_input: true\n", "td.yaml:2:3: use_cuda_ipc_input: belongs to the top level"),
    ("use_cuda_ipc_output: true\n", "td.yaml:1:22: output.channel: is missing: name the channel, or set enabled to false"),
    ("use_cuda_ipc_output: maybe\n", "td.yaml:1:22: use_cuda_ipc_output: must be true or false, not 'maybe'"),
    ("td_settings: {}\ncuda_ipc_num_slots: 11\n", "td.yaml:2:21: cuda_ipc_num_slots: 11 is above 10"),
    ("td_settings: {}\nt_index_list: 5\n", "td.yaml:2:15: t_index_list: must be a list"),
    ("td_settings: 5\n", "td.yaml:1:14: td_settings: must be keys and values"),
    ("td_settings: {}\nwidth: 511\n", "td.yaml:2:8: size: 511 is no multiple of 8, which the engine needs (engine.multiple)"),
])
def test_what_is_wrong_in_upstreams_file(text, wanted, problems):
    assert wanted in problems(text, name="td.yaml")


def test_what_is_said_of_upstreams_file_is_said_once(write, caplog):
    caplog.set_level("INFO", "sluice.live")
    path = write("td_settings: {}\nunheard_of: 1\n")
    for _ in range(3):
        load(path, environ={})
    assert [each for each in caplog.messages if "unheard_of" in each] == ["passed on to the engine: unheard_of"]


PIECES = ["{", "}", "[", "]", ": ", "- ", "\n", "  ", "*a", "&a ", "!!int ", "!!x ", "!!binary ", "!!set ", "<<: ", "null", "~", "1e999",
          "-1", "'", '"', "#", "|", "> ", "?", "%", "@", "\t", "\0", "é", "2026-01-01", ".inf", "1:30", "..", ",", "9" * 20]


@pytest.mark.parametrize("seed", range(4))
def test_a_spoilt_file_loads_or_is_refused(seed, write, capsys):
    """What loads is the same again when it is printed; what does not has its place."""
    rng = random.Random(seed)
    for _ in range(100):
        pieces = re.findall(r"\w+|\W", rng.choice([LIVE, TD]))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(pieces))
            pieces[at:at + rng.randint(0, 1)] = [rng.choice([*PIECES, *pieces, ""])]
        path = write("".join(pieces))
        try:
            settings = load(path, environ={})
        except ConfigError as error:
            assert all(re.match(rf"{path}:\d+:\d+: ", line) for line in error.problems), "".join(pieces)
            continue
        command.print_settings(settings)
        printed = capsys.readouterr().out
        assert load(write(printed, "again.yaml"), environ={}).flat == settings.flat, "".join(pieces)


# ---- a file that changes, and the command ----

def test_a_changed_file_asks_for_a_reload(write, monkeypatch):
    monkeypatch.setattr(_changes, "EVERY", 0.01)
    path, changes = write(LIVE), Changes()
    watch = Watch(path, changes)
    try:
        for text in (LIVE.replace("0.577", "0.5"), "no: yaml: [", LIVE):
            written = path.with_suffix(".new")
            written.write_text(text)
            written.replace(path)
            assert changes.wait(60) and changes.take()[1] == [("reload",)]
        path.unlink()
        watch.ask()
        assert changes.wait(60) and changes.take()[1] == [("reload",)]
    finally:
        watch.close()
    watch.close()
    assert "sluice reload" not in [thread.name for thread in threading.enumerate()]


def run(*arguments, **more):
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=300, **more)


def test_the_command_checks_and_prints(write):
    path = write(LIVE)
    done = run("sluice.live", str(path), "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = run("sluice.live", str(path), "--print-config", "--set", "ahead=3", "--no-osc")
    assert done.returncode == 0 and re.search(r"^ahead: 3 +# --set$", done.stdout, re.M)
    assert re.search(r"^  listen: null +# --set$", done.stdout, re.M)
    done = run("sluice.live", str(path), "--set", "ahead=0")
    assert (done.returncode, done.stderr) == (2, "--set: ahead: 0 is below 1\n")
    done = run("sluice.live", str(write(TD, "td_config.yaml")))
    assert done.returncode == 2 and done.stderr == (
        "passed on to the engine: use_controlnet, output_type, acceleration, td_settings\n"
        "engine.program: is missing: name the engine as FILE.py:NAME or MODULE:NAME\n")


def test_sluice_live(write):
    """The command `sluice` runs sluice-live, which is beside it but need not be in PATH."""
    path = write(LIVE.replace("0.577", "2.7"))
    done = run("sluice", "live", "--check", str(path), env={**os.environ, "PATH": "/no/such/folder"})
    assert done.returncode == 2 and done.stderr == f"{path}:10:34: controls.canny.scale: 2.7 is above 2.0\n"
    done = run("sluice", "help", "live")
    assert done.returncode == 0 and "--print-config" in done.stdout


@pytest.mark.parametrize("program, sentence", [
    ("no.py:Engine", "there is no file"), ("an_engine.py:Engin", "an_engine.py has no Engin that can be called"),
    ("needs.py:Engine", "needs.py needs the module no_such_module, which is not installed"),
    ("no_such_module:Engine", "no_such_module needs the module no_such_module"),
])
def test_an_engine_that_is_not_there(program, sentence, write, monkeypatch, capsys):
    write("class Engine: pass\n", "an_engine.py")  # no name that another test imports
    write("import no_such_module\n", "needs.py")
    monkeypatch.setattr(sys, "argv", ["sluice-live", str(write("{}")), "--set", f"engine.program={program}"])
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert command.main() == 2
    assert sentence in capsys.readouterr().err


def test_the_file_is_read_once(write, monkeypatch):
    read, files = _yaml.read, []
    monkeypatch.setattr(_yaml, "read", lambda path: files.append(path) or read(path))
    monkeypatch.setattr(sys, "path", [*sys.path])
    write("def still(live):\n    return lambda shot: None\n", "stands_still.py")
    path = write("engine: {program: 'stands_still.py:still'}\nreport: {line: 0}\n")
    monkeypatch.setattr(sys, "argv", ["sluice-live", str(path), "--duration", "0"])
    before = signal.getsignal(signal.SIGHUP)
    try:
        assert command.main() == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    assert files == [str(path)]


def test_a_link_by_its_channel_alone_is_enabled():
    settings = load({"controls": {"canny": "edges"}, "preview": "seen"}, environ={})
    assert settings.preview.enabled and settings.preview.channel == "seen" and settings.origin("preview.enabled") == "program"


def test_status_asks_by_osc(monkeypatch, capsys):
    from pythonosc.dispatcher import Dispatcher
    from pythonosc.osc_server import BlockingOSCUDPServer
    dispatcher = Dispatcher()
    dispatcher.map("/get_status", lambda *_: ("/status", json.dumps({"state": "streaming"})))
    server = BlockingOSCUDPServer(("127.0.0.1", 0), dispatcher)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        monkeypatch.setattr(sys, "argv", ["sluice-live", "status", str(server.server_address[1])])
        assert command.main() == 0
        assert json.loads(capsys.readouterr().out) == {"state": "streaming"}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert command.main() == 1
    assert "nothing listens at 127.0.0.1:" in capsys.readouterr().err
