# SPDX-License-Identifier: MIT
"""Checks what Reader(cipd=...) and Writer(cipd=...) are given: a mapping with the names of C's structs (sluice/cipd.h), whose switches
are True or False and whose enums are words. None is the default of each. The extension reads a tuple in C's order."""
ORDERS = ("unknown", "rgba", "bgra")
PAIRS = ("as_flagged", "mono_alpha", "red_green")
U32, I64 = (1 << 32) - 1, (1 << 63) - 1


class _Wrong(Exception):
    """(the exception, what the value must be)"""


def _bool(off):
    def check(value):
        if not isinstance(value, bool):
            raise _Wrong(TypeError, "True or False")
        return 1 if value else off
    return check, 0


def _word(words):
    def check(value):
        if not isinstance(value, str) or value not in words:
            raise _Wrong(ValueError if isinstance(value, str) else TypeError, " or ".join(f'"{each}"' for each in words))
        return words.index(value)
    return check, 0


def _number(least, most, must):
    def check(value):
        if not isinstance(value, int) or isinstance(value, bool):
            raise _Wrong(TypeError, must)
        if not least <= value <= most:
            raise _Wrong(ValueError, must)
        return value
    return check, 0


def _text(value):
    if not isinstance(value, str):
        raise _Wrong(TypeError, "a str")
    if "\0" in value:
        raise _Wrong(ValueError, "a str without null characters")
    return value


FLAG, SWITCH = _bool(0), _bool(2)  # enum sluice_cipd_switch: 1 on, 2 off
ORDER, PAIR = _word(ORDERS), _word(PAIRS)
NUMBER = _number(0, U32, "an int from 0 to 4294967295")
NS, NS_OR_NEVER = _number(0, I64, "nanoseconds as an int, 0 or more"), _number(-1, I64, "nanoseconds as an int, 0 or more, or -1")
TEXT = _text, None

READER = {"undeclared": ORDER, "pair": PAIR, "copy": FLAG, "reconnect": SWITCH, "ahead": SWITCH, "wait_spin_ns": NS_OR_NEVER,
          "wait_ns": NS, "stall_ns": NS_OR_NEVER}
WRITER = {"block": FLAG, "graph": SWITCH, "order": ORDER, "mono_alpha": FLAG, "flags": NUMBER, "barrier": SWITCH,
          "holds_barrier": FLAG, "settle_frames": NUMBER, "strict_device": FLAG, "priority": SWITCH, "doorbell": SWITCH,
          "barrier_stale_ns": NS, "barrier_name": TEXT, "close_grace_ns": NS_OR_NEVER}


def values(owner, kinds, given):
    """The values in C's order; None if none were given. `owner`: "Reader" or "Writer"."""
    if given is None:
        return None
    if isinstance(given, str) or not hasattr(given, "items") or not hasattr(given, "__getitem__"):
        raise TypeError(f"{owner}(cipd={given!r}): it must be a mapping of parameters' names to values, or None")
    found = {name: default for name, (_, default) in kinds.items()}
    for item in given.items():
        if not isinstance(item, tuple) or len(item) != 2:
            raise TypeError(f"{owner}(cipd={given!r}): its items() must give pairs")
        name, value = item
        if not isinstance(name, str) or name not in kinds:
            raise TypeError(f"{owner}(cipd={{{name!r}: ...}}): there is no such parameter; there are {', '.join(kinds)}")
        if value is None:
            continue
        try:
            found[name] = kinds[name][0](value)
        except _Wrong as wrong:
            kind, must = wrong.args
            raise kind(f'{owner}(cipd={{"{name}": {value!r}}}): it must be {must}, or None') from None
    return tuple(found.values())
