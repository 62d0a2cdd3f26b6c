"""The option ``torch_ops``, on a line ``--torch-ops``."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelscope.recorder.core_options import CoreOptions
from kernelscope.recorder.option import AROUND, flag, option


@dataclass(frozen=True, kw_only=True)
class OperatorsOptions(CoreOptions):
    """Adds ``torch_ops`` to the options of a recording."""

    torch_ops: bool = field(default=False, metadata=option(
        "record which of PyTorch's operators, such as aten::addmm, launched each kernel; this adds to every operator",
        flag("--torch-ops", action="store_true"), inside=lambda _, around: (
            f"recorded {'the' if around.torch_ops else 'no'} operators of PyTorch, {AROUND}")))
