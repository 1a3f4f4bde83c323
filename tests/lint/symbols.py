#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the libraries define. usage: symbols.py SHARED STATIC HEADER..."""
import os
import pathlib
import re
import subprocess
import sys

import api
from lint import Lint


DEBIAN = pathlib.Path(__file__).parents[2] / "packages" / "debian" / "libsluice0.symbols"


def defined(*arguments):
    """Names of global symbols that are defined."""
    text = subprocess.run(["nm", "--format=posix", "--defined-only", "--extern-only", *arguments],
                          check=True, capture_output=True, text=True).stdout
    return sorted({line.split()[0] for line in text.splitlines() if len(line.split()) > 1})


def dynamic(shared):
    """The library's dynamic section, as readelf writes it."""
    return subprocess.run(["readelf", "--dynamic", "--wide", shared], check=True, capture_output=True,
                          text=True, env=dict(os.environ, LC_ALL="C")).stdout


def main():
    shared, static, *headers = sys.argv[1:]
    declared = {name for h in headers for name, _ in api.functions(pathlib.Path(h).read_text())}
    exported = set(defined("--dynamic", shared))
    inside = defined(static)

    lint = Lint()
    lint.check("the shared library exports sluice_ names only",
               [s for s in sorted(exported) if not s.startswith("sluice_")])
    lint.check("every function in the headers is exported", sorted(declared - exported))
    lint.check("every exported function is in the headers",
               sorted(s for s in exported - declared if s.startswith("sluice_")))
    listed = {line.split("@")[0].strip() for line in DEBIAN.read_text().splitlines() if "@" in line}
    lint.check(f"{DEBIAN.name} lists every exported function, with the release that it came with", sorted(listed ^ exported))
    lint.check("global names in the static library start with sluice_ or sl_",
               [s for s in inside if not s.startswith(("sluice_", "sl_"))])
    lint.check("nothing is sluice_ in the static library but the API",
               [s for s in inside if s.startswith("sluice_") and s not in declared])
    section = dynamic(shared)
    lint.check("the shared library stays loaded, for its service thread runs its code",
               [] if re.search(r"\(FLAGS_1\).*NODELETE", section) else ["it is not linked with -z nodelete"])
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", section)
    lint.check("the shared library needs libc alone",
               [n for n in needed if not re.match(r"(libc|libpthread|libdl|ld-linux[-\w]*)\.", n)])
    lint.check("the headers declare something", [] if declared else ["no declarations found"])
    lint.finish()


main()
