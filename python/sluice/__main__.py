# SPDX-License-Identifier: MIT
"""`python -m sluice`: runs the command that the package contains."""
import os
import sys


def main():
    command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "sluice")
    if not os.access(command, os.X_OK):
        sys.exit("this package was built without the command sluice")
    os.execv(command, ["sluice", *sys.argv[1:]])


if __name__ == "__main__":
    main()
