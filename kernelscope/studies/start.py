"""How a benchmark process is started in a target's interpreter.

The process gets this package's folder ``bench`` as a package of its own, ``_kernelscope_bench``, loaded from its
files: ``sys.path`` holds what the target's environment has and nothing of KernelScope's, so that no module of a
target is hidden by one of ours, and a target's packages are what is measured. The current folder is not on
``sys.path`` either.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Protocol

import kernelscope

BENCH = Path(__file__).parent / "bench"


class Startable(Protocol):
    """What a command needs of a target that is prepared."""

    @property
    def python(self) -> Path:
        """The interpreter."""
        ...


#: Arguments: the folder of the package, and the file descriptors of requests and of answers.
_BOOTSTRAP = """\
import sys
if sys.path and sys.path[0] == '':
    del sys.path[0]
from importlib.util import module_from_spec, spec_from_file_location
folder, requests, answers = sys.argv[1:]
del sys.argv[1:]
spec = spec_from_file_location('_kernelscope_bench', folder + '/__init__.py', submodule_search_locations=[folder])
sys.modules[spec.name] = module_from_spec(spec)
spec.loader.exec_module(sys.modules[spec.name])
from _kernelscope_bench.main import main
main(int(requests), int(answers))
"""


def command(prepared: Startable) -> list[str]:
    """Return the command that starts a benchmark process of a target.

    Two arguments follow it: the file descriptors that requests come from and that answers go to, which the process must
    inherit (``pass_fds``). What it prints is not buffered, so that a process that is killed has said all it had to.

    Parameters
    ----------
    prepared
        The target's environment: its interpreter is what is started, with `Prepared.environ` as the whole environment
        and in the folder `Prepared.cwd`.
    """
    return [str(prepared.python), "-u", "-c", _BOOTSTRAP, str(BENCH)]


def dry_run_fields() -> dict[str, str]:
    """Return what a hello says to have a dry run: the folder of this KernelScope, and the null driver's file.

    The driver is built here if it is not yet, so that targets need neither a compiler nor ``cuda.h``.

    Raises
    ------
    DryRunError
        If it cannot be built.
    """
    from kernelscope.dryrun import build, is_enabled, status

    library = status().library if is_enabled() else str(build.build(lambda line: print(line, file=sys.stderr)))
    return {"dryrun": package_folder(), "library": library or ""}


def package_folder() -> str:
    """Return the folder that holds the package kernelscope, for ``hello``'s ``dryrun`` and ``kernelscope``."""
    return str(Path(kernelscope.__file__).resolve().parent.parent)
