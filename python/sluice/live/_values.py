# SPDX-License-Identifier: MIT
"""Values of settings: from text, YAML, OSC and Python to the types of the table, and back to text."""
import difflib
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ._settings import Setting

_UNITS = {"us": 1e6, "ms": 1e3, "s": 1, "min": 1 / 60, "": 1}  # of each a second has; a number alone is of seconds


def closest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """The one that is most like this name; empty if none is."""
    return next(iter(difflib.get_close_matches(name, list(names), 1, cutoff)), "")


def did_you_mean(name: str, above: str = "") -> str:
    """The end of a sentence, if there is a name."""
    return name and f"; did you mean {above}{name}?"


def parse(setting: Setting, value: Any) -> Any:
    """The value of a setting, as the table's type. `value` is a text, or of any type that says the same: 1.0 for 1, 1 for true.
    ValueError says what is wrong."""
    if value is None:
        if setting.default is None:
            return None
        raise ValueError("must have a value")
    if isinstance(value, str) and value in setting.choices:
        return value
    if setting.choices and setting.type == "str":
        near = did_you_mean(closest(str(value), setting.choices))
        raise ValueError(f"must be one of {', '.join(setting.choices)}, not {_shown(value)}{near}")
    convert, what = _TYPES[setting.type]
    try:
        result = convert(value)
    except (ValueError, TypeError, OverflowError, KeyError):
        words = f"{' or '.join(setting.choices)}, or " if setting.choices else ""
        raise ValueError(f"must be {words}{what}, not {_shown(value)}") from None
    for each in result if setting.type == "size" else (result,):
        if setting.low is not None and each < setting.low:
            raise ValueError(f"{each} is below {type(each)(setting.low)}")
        if setting.high is not None and each > setting.high:
            raise ValueError(f"{each} is above {type(each)(setting.high)}")
    return result


def text_of(setting: Setting, value: Any) -> Any:
    """A value as files have it, so that parse() makes the same of it."""
    if value is None or value in setting.choices:
        return value
    if setting.type == "seconds":
        return f"{value * 1e3:.12g}ms" if 0 < value < 1 else f"{value:.12g}s"
    if setting.type == "range":
        return f"{value[0]:.12g}..{value[1]:.12g}"
    if setting.type == "address":
        return "[{}]:{}".format(*value) if ":" in value[0] else "{}:{}".format(*value)
    return list(value) if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "keys and values"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_BOOLS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def _bool(value: Any) -> bool:
    text = value.lower() if isinstance(value, str) else f"{_float(value):g}"
    return _BOOLS[text]


def _float(value: Any) -> float:
    if not isinstance(value, (str, numbers.Real)):
        raise TypeError
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number


def _int(value: Any) -> int:
    if isinstance(value, numbers.Integral) or isinstance(value, str) and re.fullmatch(r"[-+]?\d+", value):
        return int(value)
    number = _float(value)
    if number != int(number):
        raise ValueError
    return int(number)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _parts(value: Any, separator: str, count: int) -> list[Any]:
    parts = re.split(separator, value.strip().strip("[]")) if isinstance(value, str) else list(value)
    if len(parts) != count or isinstance(value, Mapping):
        raise ValueError
    return parts


def _size(value: Any) -> tuple[int, ...]:
    return tuple(map(_int, _parts(value, r"\s*[x,]\s*", 2)))


def _seconds(value: Any) -> float:
    if not isinstance(value, str):
        return _float(value)
    number = value.strip().rstrip("minsu ")
    return _float(number) / _UNITS[value.strip()[len(number):].strip()]


def _range(value: Any) -> tuple[float, ...]:
    low, high = map(_float, _parts(value, r"\s*(?:\.\.|,)\s*", 2))
    if low >= high:
        raise ValueError
    return low, high


def _colour(value: Any) -> tuple[float, ...]:
    colour = tuple(map(_float, _parts(value, r"\s*,\s*", 3)))
    if min(colour) < 0 or max(colour) > 1:
        raise ValueError
    return colour


def _address(value: Any) -> tuple[str, int]:
    if isinstance(value, str):
        host, _, port = value.rpartition(":")
    elif isinstance(value, (tuple, list)):
        host, port = value
    else:
        host, port = "", value
    host, number = host.removeprefix("[").removesuffix("]") or "127.0.0.1", _int(port)
    if not 0 <= number <= 65535 or not re.fullmatch(r"[\w.:-]+", host):
        raise ValueError
    return host, number


def _map(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise TypeError
    return dict(value)


def _matches(pattern: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not re.fullmatch(pattern, _text(value)):
            raise ValueError
        return str(value)
    return check


def _device(value: Any) -> str:
    return "cuda:0" if value == "cuda" else _matches(r"host|cuda:\d{1,3}")(value)


_TYPES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "bool": (_bool, "true or false"),
    "int": (_int, "a whole number"),
    "float": (_float, "a number"),
    "str": (_text, "a text"),
    "seconds": (_seconds, "a time such as 500ms, 1s or 0.5"),
    "size": (_size, "a width and a height such as 512x512 or [512, 512]"),
    "range": (_range, "a lower and a higher value such as -1..1 or 0..1"),
    "colour": (_colour, "red, green and blue from 0 to 1, such as [0, 0, 0]"),
    "address": (_address, "HOST:PORT, or a port of this machine"),
    "map": (_map, "keys and values"),
    "device": (_device, "host or cuda:N"),
    "program": (_matches(r".+:[A-Za-z_]\w*"), "FILE.py:NAME or MODULE:NAME"),
    "channel": (_matches(r"cipd:.+|(?!.*\.(?:lock|tmp)$)[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}"),
                "1 to 64 letters, digits, points, dashes and underscores, or cipd:NAME"),
}
