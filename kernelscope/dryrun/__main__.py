"""Run a Python program in the dry run: ``python -m kernelscope.dryrun [-m module | script] [argument ...]``."""

from __future__ import annotations

import runpy
import sys

from kernelscope.dryrun.switch import enable
from kernelscope.errors import DryRunError

_USAGE = "usage: python -m kernelscope.dryrun [-m module | script] [argument ...]"


def main() -> None:
    """Enable the dry run, and run the program that the command line names."""
    arguments = sys.argv[1:]
    if arguments[:1] in ([], ["-h"], ["--help"]) or arguments == ["-m"]:
        sys.exit(_USAGE)
    try:
        enable()
    except DryRunError as error:
        sys.exit(f"kernelscope.dryrun: {error}")
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = ""
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
