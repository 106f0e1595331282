"""Runs the walks of the packages that are named, all by default: `python3 walk.py [bindings] [core]`."""

import importlib
import os
import sys

from walking import run

PACKAGES = ("bindings", "core")


def main(packages):
    well = True
    for package in packages or PACKAGES:
        importlib.import_module(package)
        well &= run(package)
    return 0 if well else 1


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.exit(code)
