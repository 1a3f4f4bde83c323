# SPDX-License-Identifier: MIT
"""Lets scripts in TouchDesigner import sluice: load this file into a Text DAT named sluice_path, and begin the others with

    import sluice_path
    import sluice

It looks for the package in the folder that SLUICE_LIB_PATH names, in sluice/lib, sluice and lib beside the project, and in the folder
that CUDALINK_LIB_PATH names; in each of them also as in a virtual environment. A sluice that Python finds by itself is left alone.
"""
import importlib.util
import os
import sys

INSIDE = ("", "lib", "Lib/site-packages", "venv/Lib/site-packages", ".venv/Lib/site-packages")


def roots():
    """Where to look, and why there."""
    yield "SLUICE_LIB_PATH", os.environ.get("SLUICE_LIB_PATH", "")
    try:
        beside = project.folder  # TouchDesigner defines it
    except NameError:
        beside = ""
    for name in ("sluice/lib", "sluice", "lib") if beside else ():
        yield "the project's folder", os.path.join(beside, name)
    yield "CUDALINK_LIB_PATH", os.environ.get("CUDALINK_LIB_PATH", "")


def add():
    """Appends the folder with the package to sys.path, and returns it; None if it is not needed."""
    if importlib.util.find_spec("sluice"):
        return None
    if sys.version_info < (3, 11):
        raise ImportError(f"sluice needs Python 3.11 or newer; this is {sys.version.split()[0]}")
    looked = []
    for why, root in roots():
        for inside in INSIDE if root else ():
            folder = os.path.normpath(os.path.join(os.path.expandvars(root), inside))
            if os.path.isfile(os.path.join(folder, "sluice", "_sluice.pyd")):
                sys.path.append(folder)
                return folder
        looked.append(f"{why} ({root or 'not set'})")
    raise ImportError(f"there is no sluice in {', '.join(looked)}: set SLUICE_LIB_PATH to the folder that has sluice/__init__.py")


added = add()
