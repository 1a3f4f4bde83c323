#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""CMake projects find an installed Sluice, or build a checkout. usage: cmake.py ROOT BUILD"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lint"))
from lint import Lint

THEIRS = """\
cmake_minimum_required(VERSION 3.16)
project(theirs LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 17)
{find}
add_executable(shared main.cpp)
target_link_libraries(shared PRIVATE sluice::sluice)
add_executable(static main.cpp)
target_link_libraries(static PRIVATE sluice::static)
"""
MAIN = """\
#include <cstring>
#include <sluice/sluice.hpp>
int main()
{
    auto writer = sluice::writer::open("cmake", sluice::format::tensor<float>({ 2 }).value()).value();
    auto frame = writer.begin().value();
    return frame.commit() && std::strcmp(sluice_version(), SLUICE_VERSION) == 0 ? 0 : 1;
}
"""
FETCH = 'include(FetchContent)\nFetchContent_Declare(sluice SOURCE_DIR "{root}")\nFetchContent_MakeAvailable(sluice)'


def run(*arguments, **env):
    """The errors: none, or the output. What is built here is not optimised: how fast it is does not matter."""
    done = subprocess.run(arguments, env=os.environ | {"CFLAGS": "-O0"} | env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return [done.stdout] if done.returncode else []


def project(folder, find):
    """A CMake project, in a path with a space."""
    theirs = folder / "their project"
    shutil.rmtree(theirs, ignore_errors=True)
    theirs.mkdir()
    (theirs / "CMakeLists.txt").write_text(THEIRS.format(find=find))
    (theirs / "main.cpp").write_text(MAIN)
    return theirs


def check_programs(lint, title, folder, find, *options):
    theirs = project(folder, find)
    build = theirs / "build"
    problems = run("cmake", "-S", str(theirs), "-B", str(build), *options) or run("cmake", "--build", str(build))
    lint.check(f"{title}: builds", problems)
    for program in ["shared", "static"] if not problems else []:
        lint.check(f"{title}: {program} runs", run(str(build / program), SLUICE_DIR=str(folder)))


def main():
    root, build = sys.argv[1:]
    release = re.search(r"version: '([\d.]+)'", (pathlib.Path(root) / "meson.build").read_text())[1]
    lint = Lint()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        installed = folder / "an installation"
        lint.check("it is installed", run("meson", "install", "-C", build, "--no-rebuild", "--quiet", DESTDIR=str(installed)))
        (config,) = installed.rglob("sluiceConfig.cmake")
        found = f"-Dsluice_DIR={config.parent}"
        check_programs(lint, "find_package", folder, f"find_package(sluice {release} CONFIG REQUIRED)", found)
        wrong = project(folder, "find_package(sluice 99.0 CONFIG REQUIRED)")
        told = "".join(run("cmake", "-S", str(wrong), "-B", str(wrong / "build"), found))
        lint.check("another version is refused", [] if "99.0" in told and f"version: {release}" in told else [told or "it was found"])
        check_programs(lint, "FetchContent", folder, FETCH.format(root=root))
    lint.finish()


if not all(map(shutil.which, ["cmake", "meson", "c++"])):
    print("1..0 # SKIP cmake, meson and a C++ compiler are needed")
else:
    main()
