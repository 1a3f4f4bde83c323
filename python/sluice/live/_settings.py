# SPDX-License-Identifier: MIT
"""The settings of a live loop. This table is the one source of their types, ranges, defaults, units and help; files, the environment,
options, OSC and the page of the documentation follow it."""
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# When a change takes effect.
LIVE = "live"  # before the next shot
RELINK = "relink"  # the link is opened again, before the next shot
REBUILD = "rebuild"  # before the next shot, which has `rebuild` set: the tensors are new ones
RESTART = "restart"  # when the program starts again


@dataclass(frozen=True)
class Setting:
    path: str  # "controls.*.scale": a star stands for the name of a control image
    type: str  # one of _values.py: bool, int, float, str, size (width, height), seconds, range (low, high), colour, address (host, port)
    #            map, channel, device, program
    default: Any
    help: str
    applies: str = LIVE
    choices: tuple[str, ...] = ()  # words that it may be, beside a value of its type for size
    low: float | None = None
    high: float | None = None
    unit: str = ""


def _input(of: str, range_: tuple[float, float], fit: str, stale: float, on_stale: tuple[str, ...]) -> tuple[Setting, ...]:
    """The settings that the input and each control image have in common."""
    return (
        Setting(f"{of}.channel", "channel", None, "the channel to read: a native one, or cipd:NAME", RELINK),
        Setting(f"{of}.enabled", "bool", True, "whether it is read"),
        Setting(f"{of}.order", "str", "auto", "order of the colours where the channel does not say", RELINK,
                ("auto", "rgba", "bgra")),
        Setting(f"{of}.range", "range", range_, "values of the tensor for black and white", REBUILD),
        Setting(f"{of}.fit", "str", fit, "how a picture of another shape is fitted", LIVE, ("stretch", "cover", "contain")),
        Setting(f"{of}.fill", "colour", (0.0, 0.0, 0.0), "colour of the border that `contain` leaves, 0 to 1"),
        Setting(f"{of}.filter", "str", "auto", "how it is resized; auto is smooth", LIVE, ("auto", "smooth", "linear", "nearest")),
        Setting(f"{of}.flip", "str", "auto", "auto turns pictures the right way up where the channel says how their rows run", LIVE,
                ("auto", "none", "vertical")),
        Setting(f"{of}.stale", "seconds", stale, "age from which the newest frame counts as stale", LIVE, low=0.0),
        Setting(f"{of}.on_stale", "str", on_stale[0], "what is done then", LIVE, on_stale),
    )


SETTINGS: tuple[Setting, ...] = (
    Setting("version", "int", 1, "version of this schema", RESTART, low=1, high=1),
    Setting("device", "device", "host", "where the tensors are: host or cuda:N", RESTART),
    Setting("size", "size", (512, 512), "width and height of the model's pictures", REBUILD, low=8, high=16384, unit="pixels"),
    Setting("dtype", "str", "float32", "type of the tensors' elements", REBUILD, ("float16", "bfloat16", "float32")),
    Setting("engine.program", "program", None, "the engine, as FILE.py:NAME or MODULE:NAME", RESTART),
    Setting("engine.args", "map", {}, "arguments of the engine", REBUILD),
    Setting("engine.delay", "int", 0, "how many shots later the engine returns an input's picture", REBUILD, low=0, high=64),
    Setting("engine.warm", "int", None, "results that are not sent after a (re)build; unset: as many as `delay`", REBUILD, low=0,
            high=1000),
    Setting("engine.multiple", "int", 8, "width and height must be multiples of this", RESTART, low=1, high=1024, unit="pixels"),
    Setting("ahead", "int", 1, "how many shots may be unfinished on the GPU while the next one is taken", LIVE, low=1, high=16),
    Setting("max_fps", "float", None, "shots a second at most; unset: as many as the engine can", LIVE, low=0.1, high=1000.0, unit="Hz"),
    *_input("input", (-1.0, 1.0), "cover", 0.5, ("hold", "black", "pause")),
    Setting("input.take", "str", "newest", "which frame is taken: the newest, the next, or a block of consecutive ones", RELINK,
            ("newest", "next", "block")),
    Setting("input.spin", "seconds", 0.0, "how long a frame is polled for before the loop sleeps: it comes sooner, and takes a CPU", RELINK,
            low=0.0, high=1.0),
    Setting("input.frames", "int", 1, "frames of a block", REBUILD, low=1, high=256),
    Setting("input.rate", "float", None, "frames a second that a block is taken at; unset: as they come", LIVE, low=0.1, high=1000.0,
            unit="Hz"),
    *_input("controls.*", (0.0, 1.0), "cover", 0.25, ("off", "hold")),
    Setting("controls.*.scale", "float", 1.0, "how strongly the control acts", LIVE, low=0.0, high=2.0),
    Setting("controls.*.pair", "str", "none", "what its frame must have in common with the input's: number `n` of the metadata, or time",
            LIVE, ("none", "number", "time")),
    Setting("controls.*.wait", "seconds", 0.004, "how long the partner is waited for", LIVE, low=0.0, high=1.0),
    Setting("output.channel", "channel", None, "the channel to write: a native one, or cipd:NAME", RELINK),
    Setting("output.enabled", "bool", True, "whether results are sent"),
    Setting("output.format", "str", "auto", "order of the colours; auto: rgba, and bgra on cipd", RELINK, ("auto", "rgba", "bgra")),
    Setting("output.size", "size", "model", "size of the pictures that are sent: the model's, the input's, or [width, height]", RELINK,
            ("model", "input"), low=1, high=16384, unit="pixels"),
    Setting("output.range", "range", None, "values of the engine's picture for black and white; unset: those of input.range"),
    Setting("output.slots", "int", 3, "slots of the channel", RELINK, low=2, high=10),
    Setting("preview.channel", "channel", None, "the channel to write: a native one, or cipd:NAME", RELINK),
    Setting("preview.enabled", "bool", False, "whether a control image is sent as the network sees it"),
    Setting("preview.of", "str", None, "which control image; unset: the first", LIVE),
    Setting("preview.every", "int", 1, "one of how many shots is sent", LIVE, low=1, high=1000),
    Setting("params", "map", {}, "whatever the engine takes: handed over as it is"),
    Setting("osc.listen", "address", None, "address that OSC messages are taken at, as HOST:PORT", RESTART),
    Setting("osc.send", "address", None, "address that OSC messages are sent to, as HOST:PORT", RESTART),
    Setting("osc.dialect", "str", "both", "addresses that are understood", RESTART, ("sluice", "streamdiffusion", "both")),
    Setting("report.line", "seconds", 1.0, "time between status lines; 0: none", RESTART, low=0.0),
    Setting("report.json", "str", None, "a file that the status is written to each second, as JSON; - is the standard output", RESTART),
    Setting("report.prometheus", "address", None, "address that Prometheus reads the counters from, as HOST:PORT", RESTART),
    Setting("report.debug", "bool", False, "whether the log has each step", RESTART),
    Setting("on_error", "str", "continue", "what an exception of the engine does: continue, at most 10 in a row, or stop", LIVE,
            ("continue", "stop")),
)
MAPS = tuple(setting.path for setting in SETTINGS if setting.type == "map")  # whose members have paths of their own
BY_PATH: dict[str, Setting] = {setting.path: setting for setting in SETTINGS}


def setting_of(path: str) -> Setting | None:
    """The setting of a path such as controls.canny.scale, params.seed or engine.args.steps."""
    whole = next((each for each in MAPS if path.startswith(f"{each}.")), path)
    return BY_PATH.get(re.sub(r"^controls\.[^.]+", "controls.*", whole))


class Section(dict[str, Any]):
    """Settings by name, as attributes, too: in the instance, where that hides no method, for a loop reads many of them in each shot."""

    def put(self, name: str, value: Any) -> Any:
        """Of a section that is being made. -> the value that it has now"""
        value = self.setdefault(name, value)
        if not hasattr(dict, name):
            vars(self)[name] = value
        return value

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no setting {name}") from None


class Settings(Section):
    """All settings: settings.input.channel, settings.controls["canny"].scale, settings.params (a dict). They are never changed:
    replace() makes others."""

    def __init__(self, flat: dict[str, Any], origins: Mapping[str, str], passed: Mapping[str, Any], source: tuple[Any, ...]) -> None:
        """`flat`: every setting by its path, of the types of the table; `origins`: where each is from, if it is no default; `passed`:
        keys of the file that are the engine's; `source`: what load() made them of."""
        super().__init__()
        self.flat, self.origins, self.passed, self.source = flat, origins, passed, source
        for path, value in flat.items():
            *sections, name = path.split(".")
            inside: Section = self
            for section in sections:
                inside = inside.put(section, Section())
            inside.put(name, value)
        self.put("controls", Section())

    def origin(self, path: str) -> str:
        """Where a setting is from: FILE:LINE:COLUMN, an environment variable, --set, or "default"."""
        return self.origins.get(path, "default")

    def replace(self, changes: Mapping[str, Any], origin: str) -> "Settings":
        """These settings with some of other values, which are of the types of the table. A path params.NAME sets one parameter."""
        flat = dict(self.flat)
        for path, value in changes.items():
            for whole in MAPS:
                if path.startswith(f"{whole}."):
                    path, value = whole, {**flat[whole], path.removeprefix(f"{whole}."): value}
            flat[path] = value
        return Settings(flat, {**self.origins, **dict.fromkeys(changes, origin)}, self.passed, self.source)


def defaults(controls: tuple[str, ...] = ()) -> dict[str, Any]:
    """The defaults by path, with those of the controls of these names."""
    flat = {}
    for setting in SETTINGS:
        names = controls if "*" in setting.path else ("",)
        flat.update({setting.path.replace("*", name): setting.default for name in names})
    return flat


def differences(old: Settings, new: Settings) -> dict[str, str]:
    """The paths whose values differ, each with when its change takes effect."""
    changed = {}
    for path in {**old.flat, **new.flat}:
        setting = setting_of(path)
        missing = path not in old.flat or path not in new.flat
        if setting and (missing or old.flat[path] != new.flat[path]):
            changed[path] = RELINK if missing else setting.applies
    return changed


def rebased(now: Settings, old: Settings, new: Settings) -> Settings:
    """The settings `now` with what differs between two states of their file: what was set since stays, unless the file changed it."""
    def merge(now: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
        kept = {name: value for name, value in now.items() if name in new or name not in old}
        return {**kept, **{name: value for name, value in new.items() if name not in old or old[name] != value}}

    flat = merge(now.flat, old.flat, new.flat)
    flat["params"] = merge(now.params, old.params, new.params)
    return Settings(flat, new.origins, new.passed, new.source)
