"""Whether a stream is capturing a graph: waiting for the device would break the capture, and nothing else tells.

The driver knows it of a stream only, and streams of other libraries are not known here; so CUPTI calls back when a
capture begins and ends. These calls are rare, and no other call is slowed down.
"""

from __future__ import annotations

from kernelscope.probes.driver_calls import AFTER, CallData

_WRONG_THREAD = 908
_BEGIN = ("cuStreamBeginCapture", "cudaStreamBeginCapture")
_END = ("cuStreamEndCapture", "cudaStreamEndCapture")


class Captures:
    """Counts captures under way.

    Attributes
    ----------
    under_way : int
        Captures that began and did not end since recording began.
    """

    def __init__(self) -> None:
        self.under_way = 0

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
        if name.startswith(_BEGIN) and not result:
            self.under_way += 1
        elif name.startswith(_END) and result != _WRONG_THREAD:  # one that had become invalid ends with an error
            self.under_way = max(0, self.under_way - 1)
