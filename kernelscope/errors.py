"""Every exception that a user of KernelScope can meet.

All of them derive from `KernelScopeError`, so that ``except kernelscope.KernelScopeError`` catches what this
package raises and nothing that the user's own code raises. Messages name the value, the place and the next step.
"""

from __future__ import annotations


def message_of(error: BaseException | None) -> str:
    """Return what an exception says, which may be of a class of the user's: of one that fails at it, that it does."""
    try:
        return str(error)
    except Exception as problem:
        return f"its message cannot be printed ({type(problem).__name__})"


class KernelScopeError(Exception):
    """Base class of every error that KernelScope raises."""


class CalibrationError(KernelScopeError):
    """The cost of recording cannot be measured here, or what was measured cannot be stored."""


class CountersError(KernelScopeError):
    """The GPU's counters cannot be read here; the message says why, and what has to be done."""


class CubinError(KernelScopeError):
    """Machine code cannot be read: it is torn, or no cubin."""


class DisassemblerError(KernelScopeError):
    """Machine code cannot be disassembled: there is no ``nvdisasm``, or it fails."""


class DryRunError(KernelScopeError):
    """The dry run cannot be switched on, or its settings are out of range."""


class GraphError(KernelScopeError):
    """A graph cannot be built, updated, launched or captured; the message says which node or call, and why."""


class JournalError(KernelScopeError):
    """A journal cannot be recovered or removed: it is of another version, is none, or is still being written."""


class ProbeUnavailableError(KernelScopeError):
    """A probe cannot install: its framework is missing, too old, or held by another tool."""


class RecorderStateError(KernelScopeError):
    """A recorder's state does not allow the call: stop before start, or a second start."""


class RecordingFileError(KernelScopeError):
    """A ``.kscope`` file, or another tool's trace, was refused: torn, of a newer schema, or not what it says it is."""


class StudyError(KernelScopeError):
    """A study cannot be made as asked: a target, a case or a setting is wrong, or nothing could be measured."""


class StudyArgumentError(StudyError):
    """An argument of a study is wrong: a target, a case or a number; the message says what it may be."""


class StudyFileError(StudyError):
    """A file is no study, is damaged, or is of a newer version than this KernelScope reads."""


class UnknownCellError(KernelScopeError):
    """No recording has a cell with the requested number or name."""


class UnknownGraphError(KernelScopeError):
    """A recording does not have the requested CUDA graph, or has several and none was named."""


class UnknownProcessError(KernelScopeError):
    """A recording does not have the requested process."""


class UnknownFrameworkError(KernelScopeError):
    """A recording does not have kernels of the requested framework or library."""


class UnknownKernelError(KernelScopeError):
    """A recording does not have the requested kernel, specialization or form of code."""
