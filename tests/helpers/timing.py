"""Times that hold on a busy machine too."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def processor_seconds(work: Callable[[], Any], tries: int = 3) -> float:
    """The least processor time that some tries of `work` took, in all threads of this process.

    What else runs on the machine does not count, as it does in the time that passes.
    """
    least = float("inf")
    for _ in range(tries):
        begun = time.process_time()
        work()
        least = min(least, time.process_time() - begun)
    return least
