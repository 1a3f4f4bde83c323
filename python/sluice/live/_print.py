# SPDX-License-Identifier: MIT
"""Settings as a file that load() reads, each with where it is from."""
from collections.abc import Iterator
from typing import Any

from ._settings import Settings, setting_of
from ._values import text_of


def print_settings(settings: Settings) -> None:
    lines = list(_lines(settings))
    width = min(60, max(len(text) for text, _ in lines))
    for text, origin in lines:
        print(f"{text:{width}}  # {origin}" if origin else text)
    if settings.passed:
        print(f"# passed on to the engine: {', '.join(settings.passed)}")


def _lines(settings: Settings) -> Iterator[tuple[str, str]]:
    """Text and origin of each line. A section goes before what is in it."""
    above: list[str] = []
    for path, value in _in_sections(settings):
        *sections, name = path
        for depth, section in enumerate(sections):
            if sections[: depth + 1] != above[: depth + 1]:
                yield f"{'  ' * depth}{_yaml(section)}:", ""
        above = sections
        dotted = ".".join(path)
        setting = setting_of(dotted)
        shown = value if setting is None or setting.type == "map" else text_of(setting, value)
        yield f"{'  ' * len(sections)}{_yaml(name)}: {_yaml(shown)}", settings.origin(dotted)


def _in_sections(settings: Settings) -> Iterator[tuple[list[str], Any]]:
    """Members of params and of engine.args by their own paths; controls one after another."""
    sections: dict[tuple[str, ...], dict[tuple[str, ...], Any]] = {}
    for path, value in settings.flat.items():
        parts = tuple(path.split("."))
        section = sections.setdefault(parts[:2] if parts[0] == "controls" else parts[:1], {})
        if path in ("params", "engine.args"):
            section.update({(*parts, name): each for name, each in value.items()})
        else:
            section[parts] = value
    for section in sections.values():
        yield from ((list(parts), value) for parts, value in sorted(section.items(), key=lambda each: len(each[0])))


def _yaml(value: Any) -> str:
    import yaml  # type: ignore[import-untyped,unused-ignore]
    text: str = yaml.safe_dump(value, default_flow_style=True, width=1 << 30, allow_unicode=True, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")
