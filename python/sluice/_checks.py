# SPDX-License-Identifier: MIT
"""Checks arguments when they are given: the exception names the argument, its value, and what it may be."""
import operator
import struct

U32 = (1 << 32) - 1


def near(word, words):
    """The one of `words` that was probably meant, or None."""
    import difflib  # takes long to import
    found = difflib.get_close_matches(word.lower(), words, 1)
    return found[0] if found else None


def choose(what, value, words):
    """The place of a word."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {value!r}")
    if value not in words:
        quoted = [f'"{each}"' for each in words]
        raise ValueError(f'{what} is "{value}": it must be {", ".join(quoted[:-1])} or {quoted[-1]}')
    return words.index(value)


def number(what, value, least, most, instead=""):
    """An int of a range. `instead`: what else may be given."""
    try:
        value = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be an int{instead}, not {value!r}") from None
    if not least <= value <= most:
        must = f"{least} or more" if most >= U32 else f"{least} to {most:,}"
        raise ValueError(f"{what} is {value}: it must be {must}{instead}")
    return value


def ids(what, values):
    """Users or groups, as C has them."""
    if values is None:
        return b""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise TypeError(f"{what} must be a sequence of ints, not {values!r}")
    made = [number(f"one of {what}", each, 0, U32) for each in values]
    if len(made) > 64:
        raise ValueError(f"{what} has {len(made)}: at most 64 are possible")
    return struct.pack(f"{len(made)}I", *made)
