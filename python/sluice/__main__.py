# SPDX-License-Identifier: MIT
"""`python -m sluice`: runs the command that the package contains."""
import importlib
import os
import shutil
import sys
import sysconfig


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
