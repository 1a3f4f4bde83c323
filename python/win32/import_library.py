#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes an import library of python3.dll, which has the limited API, for the names of it that objects use.

usage: import_library.py NM DLLTOOL LIBRARY OBJECT...
"""
import pathlib
import re
import subprocess
import sys

nm, dlltool, library, *objects = sys.argv[1:]
text = subprocess.run([nm, "--undefined-only", "--format=just-symbols", *objects], check=True, capture_output=True, text=True).stdout
used = set(re.findall(r"^(?:__imp_)?(_?Py\w+)$", text, re.MULTILINE))
data = {name for name in used if f"__imp_{name}\n" in text}
lines = ["LIBRARY python3.dll", "EXPORTS", *sorted(f"{name}{' DATA' if name in data else ''}" for name in used)]
definition = pathlib.Path(library).with_suffix(".def")
definition.write_text("\n".join(lines) + "\n")
subprocess.run([dlltool, "-d", definition, "-l", library], check=True)
