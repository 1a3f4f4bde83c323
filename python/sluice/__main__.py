# SPDX-License-Identifier: MIT
"""`python -m sluice`: runs the command that the package contains; with --cflags, --libs or --pkgconfigdir, tells compilers where the
package has headers and library."""
import importlib
import os
import shutil
import sys
import sysconfig


def flags(wanted):
    """For a C compiler. Programs find the library where it is now."""
    here = os.path.dirname(os.path.abspath(__file__))
    if not os.path.exists(os.path.join(here, "include", "sluice", "sluice.h")):
        sys.exit("this package has no headers: use `pkg-config --cflags --libs sluice` (Debian: apt install libsluice-dev pkg-config)")
    lib = os.path.join(here, "lib")
    known = {"--cflags": [f"-I{here}/include"], "--libs": [f"-L{lib}", f"-Wl,-rpath,{lib}", "-lsluice"],
             "--pkgconfigdir": [f"{lib}/pkgconfig"]}
    return " ".join(flag for option in wanted for flag in known[option])


def use_ffmpeg_of_wheel():
    """The wheel imageio-ffmpeg has one, which is not in PATH."""
    if "SLUICE_FFMPEG" in os.environ or shutil.which("ffmpeg"):
        return
    try:
        os.environ["SLUICE_FFMPEG"] = importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
    except (ImportError, RuntimeError):
        pass  # the command says what is missing


def use_programs_of_package():
    """`sluice live` runs sluice-live, which pip puts into a folder that PATH need not have."""
    if os.path.basename(sys.argv[0]) == "sluice":
        folders = [os.path.dirname(os.path.abspath(sys.argv[0]))]
    else:
        site = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        folders = [sysconfig.get_path("scripts"), os.path.join(site, "bin")]  # the second: pip install --target
    os.environ["PATH"] = os.pathsep.join(filter(None, (os.environ.get("PATH"), *folders)))


def main():
    options = sys.argv[1:]
    if options and {"--cflags", "--libs", "--pkgconfigdir"}.issuperset(options):
        return print(flags(options))
    command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "sluice")
    if not os.access(command, os.X_OK):
        command = shutil.which("sluice")  # Debian's package has it in another one
    if not command:
        sys.exit("the command sluice is not installed: this package was built without it (Debian: apt install sluice)")
    use_ffmpeg_of_wheel()
    use_programs_of_package()
    os.execv(command, ["sluice", *sys.argv[1:]])


if __name__ == "__main__":
    main()
