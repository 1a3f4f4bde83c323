# SPDX-License-Identifier: MIT
"""Installs Sluice's Python package, of which the wheel is beside this file, for TouchDesigner or for programs beside it.

Every target is 64-bit CPython 3.11 or newer, as TouchDesigner has it.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
PROBE = "import struct, sys; print(*sys.version_info[:2], struct.calcsize('P'))"
TRY = "import sluice, sluice.cuda_link; print(sluice.__version__, 'in', sluice.__path__[0])"


def stop(text):
    sys.exit(f"install.py: {text}")


def arguments():
    parser = argparse.ArgumentParser(prog="install.py", description=__doc__.split("\n\n")[0])
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--target", metavar="FOLDER", help="a folder of its own, which SLUICE_LIB_PATH or TouchDesigner's Preferences name")
    where.add_argument("--venv", metavar="FOLDER", help="a virtual environment")
    where.add_argument("--conda", metavar="NAME", help="an environment of conda")
    where.add_argument("--python", metavar="EXE", help="a Python that is installed on the system")
    where.add_argument("--td-python", metavar="EXE", help="TouchDesigner's own, in its bin folder; an update of TouchDesigner removes it, "
                                                          "and writing there takes an administrator")
    parser.add_argument("--set-path", action="store_true", help="with --target: also set SLUICE_LIB_PATH for this user")
    parser.add_argument("--dry-run", action="store_true", help="only print what would be done")
    given = parser.parse_args()
    if given.set_path and not given.target:
        parser.error("--set-path goes with --target")
    return given


def wheel():
    found = sorted(HERE.glob("sluice_frames-*-win_amd64.whl"))
    return found[-1] if found else stop(f"there is no wheel in {HERE}: copy the whole folder")


def run(command, dry, **more):
    print("> " + subprocess.list2cmdline(map(str, command)), flush=True)
    if dry:
        return None
    try:
        return subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, check=True, **more)
    except OSError as error:
        return stop(f"{command[0]} cannot be started: {error}")
    except subprocess.CalledProcessError as error:
        return stop(f"that ended with code {error.returncode}; nothing more was done")


def check(python, dry):
    """Stops unless this Python can load the package. A query, so it is made in a dry run, too, if the program is there."""
    if dry and not pathlib.Path(python[0]).is_file():
        return
    major, minor, pointer = map(int, run([*python, "-c", PROBE], False, capture_output=True, text=True).stdout.split())
    if (major, minor) < (3, 11) or pointer != 8:
        stop(f"{python[0]} is Python {major}.{minor}, {8 * pointer} bits: a 64-bit Python 3.11 or newer is needed")


def with_pip(python, dry):
    check(python, dry)
    run([*python, "-m", "pip", "install", "--no-index", "--no-deps", "--force-reinstall", wheel()], dry)
    run([*python, "-c", TRY], dry)


def into_folder(folder, dry):
    """No pip: a wheel is an archive of what is installed. An older package there goes first."""
    print(f"> unpack {wheel().name} into {folder}", flush=True)
    if dry:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for old in [folder / "sluice", *folder.glob("sluice_frames-*.dist-info")]:
        if old.exists():
            shutil.rmtree(old)
    with zipfile.ZipFile(wheel()) as archive:
        archive.extractall(folder)
    if sys.platform == "win32" and sys.version_info >= (3, 11):
        run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {TRY}"], dry)


def main():
    given = arguments()
    if given.target:
        folder = pathlib.Path(given.target).resolve()
        into_folder(folder, given.dry_run)
        if given.set_path:
            run(["setx", "SLUICE_LIB_PATH", folder], given.dry_run)
            print("Programs that are started from now on have it: start TouchDesigner again.")
        print(f"For TouchDesigner: set SLUICE_LIB_PATH to {folder}, and load sluice_path.py into a Text DAT;\n"
              "or add this folder to the Python 64-bit Module Path in its Preferences.")
        return
    if given.venv:
        python = [str(pathlib.Path(given.venv) / "Scripts" / "python.exe")]
    elif given.conda:
        python = [shutil.which("conda") or "conda", "run", "-n", given.conda, "python"]
    else:
        python = [given.python or given.td_python]
    if not given.conda and not given.dry_run and not pathlib.Path(python[0]).is_file():
        stop(f"there is no {python[0]}")
    with_pip(python, given.dry_run)
    if not given.td_python:
        print("For TouchDesigner: add the site-packages folder above to the Python 64-bit Module Path in its Preferences.")


main()
