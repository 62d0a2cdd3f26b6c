"""Whether a stream is capturing a graph: waiting for the device would break the capture, and nothing else tells.

The driver knows it of a stream only, and streams of other libraries are not known here; so CUPTI calls back when a
capture begins and ends. These calls are rare, and no other call is slowed down.
"""

from __future__ import annotations

import itertools

from kernelscope.probes.driver_calls import AFTER, CallData

_WRONG_THREAD = 908
_BEGIN = ("cuStreamBeginCapture", "cudaStreamBeginCapture")
_END = ("cuStreamEndCapture", "cudaStreamEndCapture")


class Captures:
    """Counts captures under way."""

    def __init__(self) -> None:
        self._begun: set[tuple[str, int]] = set()
        self._ended: set[tuple[str, int]] = set()
        self._unnumbered = itertools.count(-1, -1)

    @property
    def under_way(self) -> int:
        """Captures that began and did not end since recording began."""
        return len(self._begun) - len(self._ended)

    @staticmethod
    def watched(functions: dict[int, str]) -> list[int]:
        """Return the numbers of the functions that `called` must be called for."""
        return [number for number, name in functions.items() if Captures.is_watched(name)]

    @staticmethod
    def is_watched(name: str) -> bool:
        """Whether `called` must be called for the function of this name."""
        return name.startswith((*_BEGIN, *_END))

    def called(self, data: int) -> None:
        """Count one call; `data` is the address of CUPTI's ``CUpti_CallbackData``."""
        call = CallData.from_address(data)
        if call.site != AFTER:
            return
        name, result = (call.name or b"").decode(), call.result[0] if call.result else 0
        # By its number: what an interruption came into is heard of twice.
        number = name, call.correlation_id or next(self._unnumbered)
        if name.startswith(_BEGIN) and not result:
            self._begun.add(number)
        # One that had become invalid ends with an error.
        elif name.startswith(_END) and result != _WRONG_THREAD and self.under_way > 0:
            self._ended.add(number)
