# SPDX-License-Identifier: MIT
"""Settings as a file that load() reads, each with where it is from."""
from collections.abc import Iterator
from typing import Any

from ._settings import MAPS, Section, Settings, setting_of
from ._values import text_of


def print_settings(settings: Settings) -> None:
    lines = list(_lines(settings, settings))
    width = min(60, max(len(text) for text, _ in lines))
    for text, origin in lines:
        print(f"{text:{width}}  # {origin}" if origin else text)
    if settings.passed:
        print(f"# passed on to the engine: {', '.join(settings.passed)}")


def _lines(settings: Settings, section: Any, above: str = "", indent: str = "") -> Iterator[tuple[str, str]]:
    """Text and origin of each line. Members of params and of engine.args have lines of their own."""
    for name, value in section.items():
        path = above + str(name)
        if isinstance(value, Section) or value and path in MAPS:
            yield f"{indent}{_yaml(name)}:", ""
            yield from _lines(settings, value, f"{path}.", f"{indent}  ")
        else:
            setting = setting_of(path)
            shown = value if setting is None or setting.type == "map" else text_of(setting, value)
            yield f"{indent}{_yaml(name)}: {_yaml(shown)}", settings.origin(path)


def _yaml(value: Any) -> str:
    import yaml  # type: ignore[import-untyped,unused-ignore]
    text: str = yaml.safe_dump(value, default_flow_style=True, width=1 << 30, allow_unicode=True, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")
