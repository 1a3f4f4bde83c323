# SPDX-License-Identifier: MIT
"""Our own OSC addresses, /live/...: every setting that a running loop can change, and reading back."""
import json
from typing import Any

from ._config import check
from ._osc import Asked, from_json, several
from ._settings import setting_of


def understand(address: str, values: list[Any], asked: Asked) -> bool:
    """Takes a message; False if its address is another dialect's. ValueError says what is wrong with its values."""
    if not address.startswith("/live/"):
        return False
    parts = address.split("/")[2:]
    if parts == ["get"]:
        _get(values, asked)
    elif parts == ["status"]:
        asked.replies.append(("/live/status", asked.status()))
    elif parts in (["reload"], ["stop"]):
        asked.commands.append((parts[0],))
    else:
        _set(_path_of(parts, asked), values, asked)
    return True


def _set(path: str, values: list[Any], asked: Asked) -> None:
    value = several(values)
    if path.startswith(("params.", "engine.args.")):
        value = _as_before(asked.value(path), value)
    asked.changes[path] = check(asked.settings, path, value)


def _get(values: list[Any], asked: Asked) -> None:
    """One message for each setting, with the value in force: of all, of one, or of those of a section."""
    wanted = str(values[0]) if values else ""
    found = {path: value for path, value in asked.in_force().items() if not wanted or f"{path}.".startswith(f"{wanted}.")}
    if not found:
        raise ValueError(f"there is no setting {wanted!r:.80}")
    asked.replies.extend(("/live/value", path, *_as_arguments(value)) for path, value in sorted(found.items()))


def _path_of(parts: list[str], asked: Asked) -> str:
    """/live/control/canny/scale: controls.canny.scale, /live/param/seed: params.seed, /live/canny/enabled: controls.canny.enabled,
    others as they are."""
    heads = {"control": "controls", "param": "params"}
    if len(parts) == 2 and parts[0] in asked.settings.controls:
        parts = ["controls", *parts]
    path = ".".join([heads.get(parts[0], parts[0]), *parts[1:]])
    if setting_of(path) is None or path in ("params", "engine.args") or "" in parts or parts[0] == "param" and len(parts) > 2:
        raise ValueError("unknown address")
    return path


def _as_before(before: Any, value: Any) -> Any:
    """The value as the type that the parameter has: senders of floats have no others. JSON for lists and mappings."""
    if isinstance(before, (list, tuple, dict)) and isinstance(value, str):
        return from_json(value)
    if isinstance(value, (int, float)) and isinstance(before, bool):
        return bool(value)
    if isinstance(value, float) and isinstance(before, int) and value.is_integer():
        return int(value)
    return float(value) if isinstance(value, int) and isinstance(before, float) else value


def _as_arguments(value: Any) -> list[Any]:
    """A setting's value as arguments: numbers and texts, several for a list; nothing for what is unset; JSON for the rest."""
    if value is None:
        return []
    if isinstance(value, (list, tuple)) and value and all(isinstance(each, (int, float, str)) for each in value):
        return [each for part in value for each in _as_arguments(part)]
    if isinstance(value, (int, float, str)):
        return [int(value) if isinstance(value, bool) else value]
    return [json.dumps(value, default=str)]
