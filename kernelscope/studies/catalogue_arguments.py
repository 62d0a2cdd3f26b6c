"""Cases that tell arguments apart: how many there are, of which kind, and what their signature was known from."""

from __future__ import annotations

import string

from kernelscope.studies.case import Case

#: What the kinds of arguments are compared with: as many device arrays.
ARRAYS = 4


def empty(count: int) -> Case:
    """Return the case of an empty kernel with `count` device arrays of one float32, launched 1x1."""
    names = [f"a{number}" for number in range(count)]
    return Case(args_name(count), f"held({', '.join(names)})", _kernel(names) + _arrays(names), count, "empty")


def args_name(count: int) -> str:
    """Return what the case of an empty kernel with `count` arguments is called."""
    return f"{count} arg" if count == 1 else f"{count} args"


def argument_cases() -> list[Case]:
    """Return the cases of the groups ``arguments``, ``many`` and ``signature``."""
    four = [f"a{number}" for number in range(ARRAYS)]
    reference = args_name(ARRAYS)

    def kind(name: str, values: str, needs: tuple[str, ...] = ()) -> Case:
        return Case(name, f"held({', '.join(four)})", _kernel(four) + values, ARRAYS, "arguments", reference,
                    needs=needs)

    return [
        kind("4 ints", "a0, a1, a2, a3 = 1, 2, 3, 4\n"),
        kind("4 floats", "a0, a1, a2, a3 = 1.5, 2.5, 3.5, 4.5\n"),
        kind("4 tuples", "a0, a1, a2, a3 = (1, 2), (3, 4), (5, 6), (7, 8)\n"),
        kind("4 host arrays", "".join(f"{name} = np.zeros(1, np.float32)\n" for name in four)),
        kind("4 torch tensors", _TORCH, ("torch",)),
        kind("4 cupy arrays", _CUPY, ("cupy",)),
        kind("mixed", _arrays(four[:2]) + "a2, a3 = 3, 4.5\n"),
        _many(),
        Case("eager signature", f"held({', '.join(four)})",
             _kernel(four, '"void(float32[::1], float32[::1], float32[::1], float32[::1])"') + _arrays(four), ARRAYS,
             "signature", reference),
    ]


def _many() -> Case:
    letters = list(string.ascii_lowercase)
    return Case("26 args", f"held({', '.join(letters)})", _kernel(letters) + _arrays(letters), 26, "many",
                args_name(ARRAYS))


def _kernel(names: list[str], signature: str = "") -> str:
    decorator = f"@cuda.jit({signature})" if signature else "@cuda.jit"
    return f"{decorator}\ndef kernel({', '.join(names)}):\n    pass\n\nheld = kernel[1, 1]\n"


def _arrays(names: list[str]) -> str:
    return "".join(f"{name} = cuda.device_array(1, np.float32)\n" for name in names)


# Both libraries can be installed where they cannot be used: without CUDA in the build, or on a dry run.
_TORCH = """\
import torch

if not torch.cuda.is_available():
    raise Unavailable("torch is there, and sees no GPU")
a0, a1, a2, a3 = (torch.zeros(1, dtype=torch.float32, device="cuda") for _ in range(4))
"""

_CUPY = """\
import cupy

try:
    a0, a1, a2, a3 = (cupy.zeros(1, np.float32) for _ in range(4))
except Exception as error:
    raise Unavailable(f"cupy is there, and cannot make an array: {type(error).__name__}: {error}") from None
"""
