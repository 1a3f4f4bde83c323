#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes what man pages of commands have from the command itself: NAME, SYNOPSIS, OPTIONS and EXAMPLES, and
COMMANDS in sluice.1.

usage: generate.py [--check] SLUICE     --check changes nothing and fails if a page is not up to date

All other sections are written by hand. A command without a page gets one to begin with, with the description of
--help.
"""
import datetime
import pathlib
import re
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent
OPTION = re.compile(r"^  (?:-(\w), |    )--([\w-]+)(?: (\S+))?\s+(\S.*)$")
SKELETON = """\
.\\" SPDX-License-Identifier: MIT
.\\" NAME, SYNOPSIS, OPTIONS and EXAMPLES are written by man/generate.py from the command's own tables.
.Dd {date}
.Dt {title} 1
.Os Sluice
.Sh NAME
.Sh SYNOPSIS
.Sh DESCRIPTION
{description}
.Sh OPTIONS
.Sh EXIT STATUS
See
.Xr sluice 1 .
.Sh EXAMPLES
.Sh SEE ALSO
.Xr sluice 1
"""


def run(sluice, *arguments):
    return subprocess.run([sluice, *arguments], check=True, text=True, stdout=subprocess.PIPE).stdout


def commands(sluice):
    """Names of all commands, as completion offers them."""
    words = [line.split("\t")[0] for line in run(sluice, "__complete", "help", "").splitlines()]
    return [word for word in words if not word.startswith(":")]


def text(line):
    """A line that roff takes for text."""
    line = line.replace("\\", r"\e")
    return rf"\&{line}" if line.startswith((".", "'")) else line


def sentences(paragraph):
    """Each on a line of its own, as mdoc wants them."""
    return "\n".join(map(text, re.sub(r"(?<=\.)\s+(?=[A-Z-])", "\n", paragraph).splitlines()))


def values(placeholder):
    """FILE|test as macros: what is in small letters stands for itself."""
    if placeholder.startswith("["):
        return "Op Ar " + placeholder.strip("[]").replace(" ", "").replace("...", " ...")
    parts = [("Cm " if part.islower() else "Ar ") + part for part in placeholder.split("|")]
    return " Ns | Ns ".join(parts)


def options(lines):
    result = [".Bl -tag -width Ds"]
    for line in lines:
        option = OPTION.match(line)
        if not option:
            sys.exit(f"generate.py: not an option: {line!r}")
        letter, name, value, words = option.groups()
        words = "options and examples" if name == "help" else words
        sentence = words[0].upper() + words[1:]
        flags = (f"Fl {letter} , " if letter else "") + f"Fl -{name}"
        result.append(f".It {flags}" + (f" {values(value)}" if value else ""))
        result.append(text(sentence if sentence.endswith(".") else sentence + "."))
    return [*result, ".El"]


def sections(sluice, command):
    """The sections that come from the command, and the description of --help."""
    usage, summary, *rest = run(sluice, command, "--help").split("\n\n")
    arguments = re.findall(r"\[[^]]*\]|\S+", usage.partition(f"sluice {command}")[2])
    parts = dict(part.split(":\n", 1) for part in rest if part.startswith(("options:\n", "examples:\n")))
    details = [part for part in rest if not part.startswith(("options:\n", "examples:\n"))]
    return {
        "NAME": [f".Nm sluice-{command}", f".Nd {summary}"],
        "SYNOPSIS": [f".Nm sluice {command}", ".Op Ar OPTIONS", *[f".{values(word)}" for word in arguments]],
        "OPTIONS": options(parts["options"].rstrip("\n").split("\n")),
        "EXAMPLES": [".Bd -literal -offset indent",
                     *[text(line[2:]) for line in parts["examples"].rstrip("\n").split("\n")], ".Ed"],
    }, "\n.Pp\n".join(map(sentences, details))


def fill(old, own):
    """A page with its own sections put in place."""
    result = []
    for section in re.split(r"^(?=\.Sh )", old, flags=re.M):
        name = section.splitlines()[0].removeprefix(".Sh ")
        result.append("\n".join([f".Sh {name}", *own[name]]) + "\n" if name in own else section)
    return "".join(result)


def pages(sluice):
    """(path, text) of each page as it should be."""
    index = [".Bl -tag -width Ds"]
    for command in commands(sluice):
        path = FOLDER / f"sluice-{command}.1"
        own, description = sections(sluice, command)
        old = path.read_text() if path.exists() else SKELETON.format(
            title=f"SLUICE-{command.upper()}", date=f"{datetime.date.today():%B %-d, %Y}", description=description)
        yield path, fill(old, own)
        index += [f".It Xr sluice-{command} 1", own["NAME"][1].removeprefix(".Nd ")]
    path = FOLDER / "sluice.1"
    yield path, fill(path.read_text(), {"COMMANDS": [*index, ".El"]})


def main():
    check = "--check" in sys.argv
    sluice = sys.argv[-1]
    stale = []
    for path, wanted in pages(sluice):
        if check and (not path.exists() or path.read_text() != wanted):
            stale.append(path.name)
        elif not check:
            path.write_text(wanted)
    if stale:
        sys.exit(f"generate.py: run man/generate.py: {', '.join(stale)} is not what the command says")


main()
