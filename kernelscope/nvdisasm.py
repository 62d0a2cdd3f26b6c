"""NVIDIA's disassembler ``nvdisasm``: where it is, and machine code as SASS with source lines."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from kernelscope.errors import DisassemblerError

#: What to do where there is none.
GET = ("pip install 'kernelscope[sass]' brings NVIDIA's nvdisasm; one of a CUDA toolkit on the PATH, or in CUDA_HOME, "
       "does as well")

# Code sections only, with the source lines of inlined functions too.
_OPTIONS = ("-c", "-gi")
_TIMEOUT_S = 60.0
#: A section of code begins in it; 200 bytes stand before the first one.
_HEAD_BYTES = 1_000_000


def find() -> Path | None:
    """Return the newest ``nvdisasm`` of a wheel, or else that of the PATH, CUDA_HOME, CUDA_PATH or /usr/local/cuda."""
    name = "nvdisasm.exe" if os.name == "nt" else "nvdisasm"
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        spec = None
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    # nvidia/cu13/bin, nvidia/cuda_nvcc/bin: the folder with the greatest version first, those without one last.
    wheels = [path for place in places for path in Path(place).glob(f"*/bin/{name}") if _runs(path)]
    if wheels:
        return max(wheels, key=lambda path: (path.parts[-3].startswith("cu1"), path.parts[-3]))
    on_path = shutil.which("nvdisasm")
    if on_path:
        return Path(on_path)
    homes = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda")
    found = (Path(home) / "bin" / name for home in homes if home)
    return next((path for path in found if _runs(path)), None)


def disassemble(cubin: bytes, timeout_s: float = _TIMEOUT_S) -> str:
    """Return the SASS of a cubin, with ``//## File`` lines where it has line information.

    Parameters
    ----------
    cubin : bytes
        The machine code.
    timeout_s : float
        Seconds after which to give up.

    Raises
    ------
    DisassemblerError
        There is no ``nvdisasm``, it fails, or it takes too long; the message says what to do.
    """
    program = find()
    if program is None:
        raise DisassemblerError(f"there is no nvdisasm to show machine code with; {GET}")
    # It reads files only.
    with tempfile.TemporaryDirectory(prefix="kernelscope-") as folder:
        path = Path(folder) / "kernel.cubin"
        try:
            path.write_bytes(cubin)
            done = subprocess.run([program, *_OPTIONS, path], stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired:
            raise DisassemblerError(f"{program} took more than {timeout_s:g} s for {len(cubin)} bytes") from None
        except OSError as error:
            raise DisassemblerError(f"{program} cannot be run: {error.strerror or error}; {GET}") from None
    if done.returncode:
        said = " ".join(done.stderr.decode("utf-8", "replace").replace(str(path), "the cubin").split())
        raise DisassemblerError(f"{program} failed with exit code {done.returncode}: {said[:500] or 'it said nothing'}")
    # A script of the same name on the PATH may print anything, and as much as it likes.
    if b".text." not in done.stdout[:_HEAD_BYTES]:
        raise DisassemblerError(f"{program} printed no SASS, but {len(done.stdout)} bytes of something else")
    return done.stdout.decode("utf-8", "replace")


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
