# SPDX-License-Identifier: MIT
"""Settings from a file or a program, from the environment and from options: `--set` before SLUICE_LIVE__... before the file before
the default. Everything that is wrong is said at once."""
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import _upstream, _yaml
from ._settings import MAPS, RESTART, SETTINGS, Settings, defaults, setting_of
from ._values import closest, did_you_mean, parse

LOG = logging.getLogger("sluice.live")
PREFIX = "SLUICE_LIVE__"
LINKS = ("input", "output", "preview")
_CONTROL = re.compile(r"[A-Za-z0-9_-]{1,64}")
_said: set[str] = set()

# What may follow each section: {"input": {"channel", ...}, "": {"version", ...}, "controls.*": ...}
_LEVELS: dict[str, dict[str, None]] = {}
for _setting in SETTINGS:
    _parts = _setting.path.split(".")
    for _depth, _name in enumerate(_parts):
        _LEVELS.setdefault(".".join(_parts[:_depth]), {})[_name] = None


class ConfigError(ValueError):
    """What is wrong with the settings: `problems` has a line for each fault, with its place, the setting and the reason."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def load(source: "str | os.PathLike[str] | Mapping[str, Any] | Settings | None", sets: Sequence[str] = (),
         environ: Mapping[str, str] | None = None, program: Mapping[str, Any] | None = None) -> Settings:
    """The settings of a file, of a dictionary in its shape, or of nothing but defaults. `sets`: PATH=VALUE; `environ`: os.environ if
    None; `program`: a dictionary that comes before all others. With finished settings what they were made of is read again, unless there
    is nothing to add. Raises ConfigError."""
    if isinstance(source, Settings):
        if not sets and not program:
            return source
        source, before, environ, under = source.source
        sets, program = (*before, *sets), {**under, **(program or {})}
    draft = _Draft()
    passed: dict[str, Any] = {}
    variables = os.environ if environ is None else environ
    try:
        if isinstance(source, (str, os.PathLike)):
            entries, faults = _yaml.read(os.fspath(source))
            draft.problems += [(at, f"{at}: {why}") for at, why in faults]
        else:
            entries = _yaml.entries_of(source or {}, "")
    except _yaml.Broken as broken:
        raise ConfigError([str(broken)]) from None
    if _upstream.is_upstream(entries):
        passed = _upstream.translate(entries, draft, variables)
    else:
        for entry in entries:
            draft.take(entry.key, entry)
    for name in sorted(variables):
        if name.startswith(PREFIX):
            draft.take_text(draft.path_of(name), variables[name], name)
    for each in sets:
        path, equals, text = each.partition("=")
        if equals:
            draft.take_text(path.strip(), text.strip(), "--set")
        else:
            draft.problem("--set", path, "write it as PATH=VALUE")
    for entry in _yaml.entries_of(program or {}, ""):
        draft.take(entry.key, entry)
    settings = draft.finish(passed, (source, tuple(sets), environ, dict(program or {})))
    for note in draft.notes:
        if note not in _said:  # a file is loaded again and again
            _said.add(note)
            LOG.info("%s", note)
    return settings


def check(settings: Settings, path: str, value: Any) -> Any:
    """A value for one setting of a running loop, as the table's type: 3.0 for 3, 1 for true. ValueError says why it cannot be."""
    setting = setting_of(path)
    if setting is None or path not in settings.flat and not path.startswith(tuple(f"{each}." for each in MAPS)):
        raise ValueError(f"there is no setting {path}{_near(path, settings.controls)}")
    if setting.applies == RESTART:
        raise ValueError("can be set at the start alone")
    if setting.type == "map" and path not in MAPS:
        return value
    value = parse(setting, value)
    before = set(_conflicts(settings.flat, lambda path: True))
    for where, sentence in _conflicts(settings.replace({path: value}, "").flat, lambda path: True):
        if (where, sentence) not in before:
            raise ValueError(sentence if where == path else f"{where} {sentence}")
    return value


class _Draft:
    """Settings that are being put together. Later values replace earlier ones."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}  # by path; params and engine.args by the paths of their members
        self.origins: dict[str, str] = {}
        self.controls: dict[str, str] = {}  # where each is named first
        self.problems: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.failed: set[str] = set()

    def problem(self, at: str, path: str, sentence: str) -> None:
        self.failed.add(path)
        self.problems.append((at, ": ".join(filter(None, (at, path, sentence)))))

    def put(self, path: str, value: Any, at: str) -> None:
        """One setting, of any type that fits."""
        setting = setting_of(path)
        assert setting is not None
        try:
            self.values[path] = value if setting.type == "map" else parse(setting, value)
            self.origins[path] = at or "program"
        except ValueError as error:
            self.problem(at, path, str(error))
        if path.startswith("controls."):
            self.controls.setdefault(path.split(".")[1], at)

    def take(self, path: str, entry: _yaml.Entry) -> None:
        """A key of a file, with everything that is in it."""
        setting = setting_of(path)
        control = re.fullmatch(r"controls\.([^.]+)", path)
        if path in MAPS:
            self._take_all(path, entry)
        elif setting and setting.type == "map":
            self.put(path, entry.plain, entry.at)
        elif setting:
            self.put(path, entry.value, entry.at)
        elif control and not _CONTROL.fullmatch(control[1]):
            self.problem(entry.key_at, path, "a control's name is of 1 to 64 letters, digits, dashes and underscores")
        elif control or path in _LEVELS:
            if control:
                self.controls.setdefault(control[1], entry.key_at)
            if isinstance(entry.value, str) and (control or path in LINKS):  # a link by its channel alone
                self.put(f"{path}.channel", entry.value, entry.at)
                self.put(f"{path}.enabled", True, entry.at)
            else:
                self._take_all(path, entry)
        else:
            self.problem(entry.key_at, path, f"unknown{_near(path, self.controls)}")

    def _take_all(self, path: str, entry: _yaml.Entry) -> None:
        if entry.children is None and entry.value is not None:
            self.problem(entry.at, path, "must be keys and values")
        for child in entry.children or ():
            self.take(f"{path}.{child.key}", child)

    def take_text(self, path: str, text: str, at: str) -> None:
        """The value of an option or of a variable."""
        setting = setting_of(path)
        if setting and setting.type != "map":
            self.put(path, None if text in ("", "null", "~") else text, at)
            return
        try:
            self.take(path, _yaml.entry_of(text, at))
        except _yaml.Broken as broken:
            self.problem(at, path, broken.why)

    def path_of(self, variable: str) -> str:
        """The path that a variable stands for. Names that are known already may be of capitals and dashes."""
        parts = variable.removeprefix(PREFIX).lower().split("__")
        path = ".".join(parts)
        known = [".".join(each.split(".")[: len(parts)]) for each in (*self.values, *(f"controls.{name}" for name in self.controls))]
        given = {each.lower().replace("-", "_"): each for each in known}
        control = given.get(".".join(parts[:2]), "") if parts[0] == "controls" else ""
        return given.get(path) or ".".join([control or ".".join(parts[:2]), *parts[2:]])

    def finish(self, passed: Mapping[str, Any], source: tuple[Any, ...]) -> Settings:
        flat = {**defaults(tuple(self.controls)), **{path: {} for path in MAPS}}
        for path, value in self.values.items():
            whole = next((each for each in MAPS if path.startswith(f"{each}.")), None)
            if whole:
                flat[whole][path.removeprefix(f"{whole}.")] = value
            else:
                flat[path] = value
        for path, sentence in _conflicts(flat, self._is_given):
            if path not in self.failed:
                self.problem(self._place(path), path, sentence)
        if self.problems:
            raise ConfigError(dict.fromkeys(line for _, line in sorted(self.problems, key=_line)))
        return Settings(flat, self.origins, passed, source)

    def _is_given(self, section: str) -> bool:
        return section.startswith("controls.") or any(path.startswith(f"{section}.") for path in self.values)

    def _place(self, path: str) -> str:
        """Of a setting, or of its section."""
        section = path.rpartition(".")[0]
        beside = (self.origins[each] for each in self.origins if each.startswith(f"{section}."))
        control = self.controls.get(section.partition(".")[2], "")
        place = self.origins.get(path) or control or next(beside, "")
        return "" if place == "program" else place


def _line(problem: tuple[str, str]) -> tuple[int, ...]:
    """Files first, in their order."""
    place = re.search(r":(\d+):(\d+)$", problem[0])
    return tuple(map(int, place.groups())) if place else (1 << 31,)


def _conflicts(flat: Mapping[str, Any], is_given: Any) -> Iterator[tuple[str, str]]:
    """Settings that do not go together: the path to correct, and why."""
    controls = [path.split(".")[1] for path in flat if re.fullmatch(r"controls\.[^.]+\.channel", path)]
    for link in (*LINKS, *(f"controls.{name}" for name in controls)):
        if flat[f"{link}.enabled"] and flat[f"{link}.channel"] is None and is_given(link):
            others = [name for name in controls if link != f"controls.{name}"] if link not in LINKS else []
            near = did_you_mean(closest(link.rpartition(".")[2], others), "controls.")
            yield f"{link}.channel", f"is missing: name the channel, or set enabled to false{near}"
    multiple = flat["engine.multiple"]
    for length in flat["size"]:
        if length % multiple:
            yield "size", f"{length} is no multiple of {multiple}, which the engine needs (engine.multiple)"
    if flat["preview.of"] is not None and flat["preview.of"] not in controls:
        yield "preview.of", f"there is no control {flat['preview.of']}{did_you_mean(closest(flat['preview.of'], controls))}"
    elif flat["preview.enabled"] and not controls:
        yield "preview.enabled", "there is no control to show"
    if flat["preview.enabled"] and flat["output.enabled"] and flat["preview.channel"] == flat["output.channel"] is not None:
        yield "preview.channel", f"{flat['preview.channel']} is the output's channel already"
    if flat["osc.listen"] is not None and flat["osc.listen"] == flat["osc.send"] and flat["osc.listen"][1]:
        yield "osc.send", "is the address of osc.listen: messages would come back"


def _near(path: str, controls: Iterable[str]) -> str:
    """"; did you mean PATH?", where a word of the path or two are misspelt."""
    known: list[str] = []
    for part in path.split("."):
        above = ".".join(known)
        names = list(controls) if above == "controls" else list(_LEVELS.get(re.sub(r"^controls\.[^.]+", "controls.*", above), ()))
        near = part if part in names else closest(part, names)
        if not near:
            return ""
        known.append(near)
    return did_you_mean(".".join(known))
