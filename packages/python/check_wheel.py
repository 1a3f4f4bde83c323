# SPDX-License-Identifier: MIT
"""Is a wheel what its name says? usage: check_wheel.py GLIBC WHEEL

auditwheel finds the oldest system that it runs on; no symbol may be newer than that GLIBC; the extension exports nothing but its
entry; and what C programs need is there.
"""
import io
import pathlib
import re
import subprocess
import sys
import zipfile

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread)\.so\.\d+|ld-linux-.*")
MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
NODELETE = 8
CONTENT = ["bin/sluice", "include/sluice/sluice.h", "include/sluice/sluice.hpp", "include/sluice/version.h", "lib/libsluice.so",
           "lib/libsluice.so.0", "lib/pkgconfig/sluice.pc", "py.typed"]


def number(version):
    return tuple(map(int, version.split(".")))


def elf_problems(name, elf, cpu, glibc):
    if elf["e_machine"] != MACHINES[cpu]:
        yield f"{name} is for {elf['e_machine']}"
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for library, versions in section.iter_versions():
                for version in versions:
                    given = re.fullmatch(r"GLIBC_([\d.]+)", version.name)
                    if not given or number(given[1]) > number(glibc):
                        yield f"{name} needs {version.name} of {library.name}"
    dynamic = elf.get_section_by_name(".dynamic")
    for tag in dynamic.iter_tags() if dynamic else ():
        if tag.entry.d_tag == "DT_NEEDED" and not SYSTEM.fullmatch(tag.needed):
            yield f"{name} needs {tag.needed}"
        if tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH"):
            yield f"{name} has a path of libraries"
    if ".so" in name and not any(tag.entry.d_tag == "DT_FLAGS_1" and tag.entry.d_val & NODELETE for tag in dynamic.iter_tags()):
        yield f"{name} may be unloaded while its thread runs"
    if "/_sluice" in name:
        symbols = elf.get_section_by_name(".dynsym").iter_symbols()
        exported = [each.name for each in symbols if each["st_shndx"] != "SHN_UNDEF" and each["st_info"]["bind"] != "STB_LOCAL"]
        if exported != ["PyInit__sluice"]:
            yield f"{name} exports {exported}"


def problems_of(wheel, glibc):
    cpu = next(each for each in MACHINES if wheel.stem.endswith(each))
    if not wheel.stem.endswith(f"-manylinux_{glibc.replace('.', '_')}_{cpu}"):
        yield "it is not named for that glibc"
    if re.search(r"-cp3\d+-abi3-", wheel.name) and "-cp311-abi3-" not in wheel.name:
        yield "3.11 cannot take it"
    with zipfile.ZipFile(wheel) as file:
        yield from (f"it lacks sluice/{each}" for each in CONTENT if f"sluice/{each}" not in file.namelist())
        for name in file.namelist():
            content = file.read(name)
            if content.startswith(b"\x7fELF"):
                yield from elf_problems(name, ELFFile(io.BytesIO(content)), cpu, glibc)
    shown = " ".join(subprocess.run([sys.executable, "-m", "auditwheel", "show", wheel], check=True, text=True,
                                    capture_output=True).stdout.split())
    tag = re.search(rf'platform tag: "manylinux_(\d+)_(\d+)_{cpu}"', shown)
    if not tag or (int(tag[1]), int(tag[2])) > number(glibc):
        yield f"auditwheel says: {shown}"


def main():
    glibc, wheel = sys.argv[1], pathlib.Path(sys.argv[2])
    problems = list(problems_of(wheel, glibc))
    if problems:
        sys.exit("\n".join(f"{wheel.name}: {each}" for each in problems))
    print(f"{wheel.name}: {wheel.stat().st_size >> 10} KiB, glibc {glibc} or newer")


main()
