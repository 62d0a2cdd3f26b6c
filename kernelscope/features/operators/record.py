"""The probe of PyTorch's operators, on request: in which of them each thread is when it launches."""

from __future__ import annotations

import ctypes
import platform
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from kernelscope.clock import now
from kernelscope.errors import ProbeUnavailableError
from kernelscope.features.operators.options import OperatorsOptions
from kernelscope.native import core
from kernelscope.probes.base import Probe, ProbeProtocol
from kernelscope.probes.sink import Sink

# PyTorch calls back at each operator, at each node of a backward pass and at each ``torch.profiler.record_function``,
# on every thread: ``at::addGlobalCallback``, which its own profilers use. Python has no way to it that is not a
# profiler (``emit_nvtx``, ``torch.profiler``: one of them a thread at a time, and so in the way of the user's) or a
# dispatch mode in Python (15 times the cost, measured, and not on the threads of backward passes). So the C recorder
# calls it, and as C++ has no ABI that C could be compiled against, what it takes is compared with PyTorch's own header
# before.

_LIBRARY = Path("lib", "libtorch_cpu.so")
_HEADER = Path("include", "ATen", "record_function.h")
_FUNCTIONS = ("_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE", "_ZN2at14removeCallbackEm",
              "_ZNK2at14RecordFunction4nameEv")
#: What the header declares, without comments and with single spaces: `csrc/operators.c` has the same.
_DECLARED = (
    "using StartCallback = std::unique_ptr<ObserverContext> (*)(const RecordFunction&);",
    "using EndCallback = void (*)(const RecordFunction&, ObserverContext*);",
    "private: StartCallback start_; EndCallback end_; double sampling_prob_ = 1.0; "
    "std::array<bool, static_cast<size_t>(RecordScope::NUM_SCOPES)> scopes_ = {}; bool needs_inputs_ = false; "
    "bool needs_outputs_ = false; bool needs_ids_ = false; };",
    "FUNCTION = 0, BACKWARD_FUNCTION, TORCHSCRIPT_FUNCTION, KERNEL_FUNCTION_DTYPE, CUSTOM_CLASS, BUILD_FEATURE, "
    "LITE_INTERPRETER, USER_SCOPE, STATIC_RUNTIME_OP, STATIC_RUNTIME_MODEL, NUM_SCOPES, };",
    "const char* name() const;",
    "typedef uint64_t CallbackHandle;",
    "CallbackHandle addGlobalCallback(RecordFunctionCallback cb);",
    "void removeCallback(CallbackHandle handle);",
)


def probes(options: OperatorsOptions) -> tuple[list[ProbeProtocol], list[dict[str, Any]]]:
    """Return the probe."""
    return [TorchOperatorsProbe()], []


class TorchOperatorsProbe(Probe):
    """Has PyTorch call back at each operator; a session has it where the option ``torch_ops`` is given."""

    name = "torch.operators"
    module = "torch"
    fix = "record without torch_ops, or with torch 2.11 on x86-64"

    def __init__(self) -> None:
        super().__init__()
        self._operators: core.Operators | None = None

    def hook(self, module: Any, sink: Sink) -> None:
        """Have PyTorch call back from now on. See `Probe.hook`."""
        folder = Path(module.__file__).parent
        problem = layout_problem(folder)
        if problem is None and sink.clock is not now:
            problem = "the recording has a clock of its own"
        if problem is not None:
            raise ProbeUnavailableError(f"PyTorch's operators are not recorded: {problem}")
        library = ctypes.CDLL(str(folder / _LIBRARY))  # it is loaded already
        addresses = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in _FUNCTIONS]
        self._operators = core.Operators(*addresses)  # before it begins: what a Ctrl-C interrupts is undone too
        self._operators.start()
        sink.snapshots["operators"] = self._rows

    def _rows(self) -> list[dict[str, Any]]:
        """Return the operators of each thread until now, as `kernelscope.features.operators.build` takes them."""
        assert self._operators is not None
        rows = self._operators.rows()
        are_all = not self._operators.dropped
        return [{"ident": ident, "nodes": nodes, "events": np.frombuffer(events, np.int64).reshape(-1, 2),
                 "are_all": are_all} for ident, nodes, events in rows]

    def unhook(self) -> None:
        """Have it call back no more. See `Probe.unhook`."""
        if self._operators is not None:
            self._operators.stop()
        super().unhook()

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Say where operators are missing. See `ProbeProtocol.describe`."""
        if self._operators is not None and self._operators.dropped:
            sink.stated[self.name] = {
                "probe": self.name, "status": "degraded", "dropped": self._operators.dropped,
                "message": "there were more calls of PyTorch's operators than are kept: the last launches have none",
                "fix": "record fewer steps with torch_ops"}


def layout_problem(folder: Path) -> str | None:
    """Return why C cannot call what that PyTorch has, or None.

    Parameters
    ----------
    folder : Path
        That of the package ``torch``.
    """
    if platform.machine() != "x86_64":
        return f"the processor is {platform.machine()}, and they are known on x86-64 only"
    try:
        library = ctypes.CDLL(str(folder / _LIBRARY))
        text = (folder / _HEADER).read_text(encoding="utf-8")
    except OSError as error:
        return str(error)
    missing = next((name for name in _FUNCTIONS if not hasattr(library, name)), None)
    if missing is not None:
        return f"{_LIBRARY.name} has no {missing}"
    declared = " ".join(re.sub(r"//[^\n]*|/\*.*?\*/|TORCH_API", "", text, flags=re.DOTALL).split())
    different = next((each for each in _DECLARED if each not in declared), None)
    return None if different is None else f"{_HEADER.name} does not declare {different!r}"
