# SPDX-License-Identifier: MIT
"""`python -m sluice`: runs the command that the package contains."""
import importlib
import os
import shutil
import sys


def use_ffmpeg_of_wheel():
    """The wheel imageio-ffmpeg has one, which is not in PATH."""
    if "SLUICE_FFMPEG" in os.environ or shutil.which("ffmpeg"):
        return
    try:
        os.environ["SLUICE_FFMPEG"] = importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
    except (ImportError, RuntimeError):
        pass  # the command says what is missing


def main():
    command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "sluice")
    if not os.access(command, os.X_OK):
        command = shutil.which("sluice")  # Debian's package has it in another one
    if not command:
        sys.exit("the command sluice is not installed: this package was built without it (Debian: apt install sluice)")
    use_ffmpeg_of_wheel()
    os.execv(command, ["sluice", *sys.argv[1:]])


if __name__ == "__main__":
    main()
