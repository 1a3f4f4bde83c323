#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes docs/live-settings.md from the table of settings in python/sluice/live/_settings.py and that of td_config.yaml's keys in
_upstream.py.

usage: generate-live-settings.py [--check]     --check changes nothing and fails if the page is not up to date
"""
import importlib
import pathlib
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent

HEAD = """\
<!-- Made by docs/generate-live-settings.py: change that, not this. -->
# Settings of a live loop

```yaml
version: 1
device: cuda:0                      # host: NumPy
size: [512, 512]
dtype: float16
engine: {program: "style.py:Engine", args: {style: 19}}
input: {channel: camera, stale: 500ms}
controls:
  canny: {channel: edges, scale: 0.577, pair: number}
output: {channel: painted}          # or `output: painted`
params: {prompt: a cat, seed: 2}
osc: {listen: 127.0.0.1:8588}
```

`sluice live live.yaml` runs it (also `sluice-live live.yaml`, `python -m sluice.live live.yaml`):

| option | meaning |
| --- | --- |
| `--set PATH=VALUE` | one setting, such as `--set controls.canny.scale=0.5`; may be repeated |
| `--check` | checks the settings, prints what is wrong, and ends: status 0, or 2 |
| `--print-config` | prints all settings as YAML, each with where it is from |
| `--duration SECONDS` | ends after this time |
| `--json` | prints the status each second as JSON, as `--set report.json=-` |
| `--no-osc` | neither listens to OSC nor sends any |

`sluice live status [[HOST:]PORT]` asks a running loop by OSC, at port 8588 if none is given, and prints its status.

A link may be the name of its channel alone, which enables it: `preview: painted-control`.

A value comes from `--set`, else from the environment, else from the file, else it is the default. The variable of a setting is
`SLUICE_LIVE__` and its path in capitals with `__` for each point: `SLUICE_LIVE__CONTROLS__CANNY__SCALE=0.5`. In a program,
`Live("live.yaml")` reads a file, and `Live(input="camera", output="painted", size=(512, 512))` takes the same settings as keywords.

All errors are said at once, each with its line and column:

```
live.yaml:9:42: controls.canny.scale: 2.7 is above 2.0
live.yaml:10:1: ouput: unknown; did you mean output?
```

A file has at most 1 MiB and 10,000 values. A key that occurs twice, a second document and tags such as `!!python/object` are errors.

## Changes while it runs

The file is looked at once a second; when it has changed, or at SIGHUP, it is read again and applied between two shots. A broken file
changes nothing and is logged. Each setting says when its change takes effect:

| word | a change takes effect |
| --- | --- |
| live | before the next shot |
| relink | before the next shot: the link is opened again |
| rebuild | before the next shot, which has `rebuild` set: the tensors are new ones |
| restart | when the program starts again |

[OSC](live-osc.md) changes all but the last.

## Values

| type | written as |
| --- | --- |
| bool | `true`, `false`; also `on`, `off`, `yes`, `no`, `1`, `0` |
| seconds | `500ms`, `1s`, `200us`, `2min`; a number alone is of seconds |
| size | `[512, 512]` or `512x512`: width and height |
| range | `-1..1` or `[-1, 1]`: for black and for white |
| colour | `[0, 0, 0]`: red, green and blue from 0 to 1 |
| address | `127.0.0.1:8588`, `[::1]:8588`; a port alone is of `127.0.0.1` |
| channel | a native channel's name, or `cipd:NAME` for one of [cuda-link's protocol](cuda-link.md) |
| map | keys and values of any kind |
| program | `FILE.py:NAME`, from the folder of the settings, or `MODULE:NAME`; `NAME(live, **args)` makes the engine |
"""

UPSTREAM = """
## `td_config.yaml` of StreamDiffusion

A file with `td_settings` or a key `use_cuda_ipc_...` is StreamDiffusion's, and is read as it is. The engine is not in it:
`--set engine.program=FILE.py:NAME` names it. Keys that are misspelt (`use_cuda_ipc_contolnet`) or at the wrong level are errors if they
are of the transport; all keys that are not listed here are passed on to the engine (`settings.passed`) and named once in the log.
`--print-config` shows what became of the file. Ports are named as TouchDesigner sees them: the loop listens at `osc_transmit_port`.

Without a switch for cuda-link the original uses shared memory that has no header, so its size cannot be known. That memory is not
opened: a native channel of the same name is used in its place, and the log says so.

`SDTD_CUDA_IPC_OUTPUT=1` in the environment stands for `use_cuda_ipc_output: true` in a file without that key.

| key | type | default | becomes |
| --- | --- | --- | --- |
"""


def modules():
    """The tables alone: the package itself needs its extension."""
    package = types.ModuleType("live")
    package.__path__ = [str(ROOT / "python/sluice/live")]
    sys.modules["live"] = package
    return importlib.import_module("live._settings"), importlib.import_module("live._upstream"), importlib.import_module("live._values")


def value(text):
    return "" if text is None else f"`{'true' if text is True else 'false' if text is False else text}`"


def kind(setting):
    words = ", ".join(f"`{word}`" for word in setting.choices)
    if setting.type == "str" and words:
        return words
    limits = ""
    if setting.low is not None:
        number = int if setting.type in ("int", "size") else float
        limits = f", from {number(setting.low)}" + (f" to {number(setting.high)}" if setting.high is not None else "")
    unit = f" ({setting.unit})" if setting.unit else ""
    return (f"{words} or " if words else "") + setting.type + limits + unit


def page():
    settings, upstream, values = modules()
    parts = [HEAD]
    section = None
    for setting in sorted(settings.SETTINGS, key=lambda each: "." in each.path):  # those of the loop itself first
        above = setting.path.rpartition(".")[0]
        if above != section:
            section = above
            title = f"`{above.replace('*', 'NAME')}`" if above else "The loop"
            parts.append(f"\n## {title}\n\n| setting | type | default | change | meaning | variable |\n"
                         "| --- | --- | --- | --- | --- | --- |\n")
        path = setting.path.replace("*", "NAME")
        default = setting.default if setting.default != {} else None
        parts.append(f"| `{path}` | {kind(setting)} | {value(values.text_of(setting, default))} | {setting.applies} | {setting.help} | "
                     f"`SLUICE_LIVE__{path.upper().replace('.', '__')}` |\n")
    parts.append(UPSTREAM)
    for key in (*upstream.TRANSPORT, *upstream.ENGINE):
        limits = "" if key.low is None else f", from {key.low}" + (f" to {key.high}" if key.high is not None else "")
        parts.append(f"| `{key.name}` | {key.type}{limits} | {value(key.default)} | {key.becomes} |\n")
    return "".join(parts)


def main():
    path = ROOT / "docs/live-settings.md"
    text = page()
    if sys.argv[1:] == ["--check"]:
        if not path.exists() or path.read_text() != text:
            sys.exit("docs/live-settings.md is not up to date: run docs/generate-live-settings.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        path.write_text(text)


main()
