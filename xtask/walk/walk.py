"""Runs the walks of the packages that are named, all by default: `python3 walk.py [bindings] [core]`."""

import importlib
import os
import sys

from walking import run

PACKAGES = ("bindings", "core")


def no_driver():
    """Why there is no driver to walk on; nothing if there is one."""
    from cuda.bindings import driver

    try:
        status = driver.cuInit(0)[0]
    except Exception as why:  # the packages say so by exceptions of several kinds
        return str(why)
    return None if status == driver.CUresult.CUDA_SUCCESS else f"cuInit answered {status.name}"


def main(packages):
    why = no_driver()
    if why:
        print(f"there is no driver to walk on: {why}")
        return 2
    well = True
    for package in packages or PACKAGES:
        importlib.import_module(package)
        well &= run(package)
    return 0 if well else 1


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.exit(code)
