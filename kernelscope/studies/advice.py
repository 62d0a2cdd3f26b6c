"""What to say besides a verdict: what would help where it is too noisy, what is ruled out where none is seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from kernelscope.analysis.units import percent

#: Of fewer processes, intervals are wide whatever is measured.
FEW = 8

# A wait for the device, as a share of the launches before it, from which the device is what was waited for: its queue
# holds about a thousand launches, and a batch has some thousands.
_DEVICE_BOUND = 0.1
# More processes than these are no advice.
_MOST_PROCESSES = 100
# The share of the time that may go to others.
_QUIET = 0.02
# The share of batches that may be the quiet ones.
_OFTEN = 0.5


@dataclass(frozen=True)
class Situation:
    """What is known about a difference besides its interval.

    Attributes
    ----------
    pairs : int
        How many pairs of processes there are.
    low_percent, high_percent : float
        The interval.
    limit_percent : float
        Above which half of its width is too wide.
    device_share : float
        The wait for the device, as a share of the launches before it.
    is_live : bool
        Whether it was measured in the running process.
    """

    pairs: int
    low_percent: float
    high_percent: float
    limit_percent: float
    device_share: float = 0.0
    is_live: bool = False


def ruled_out(situation: Situation) -> str:
    """Say what difference there cannot be."""
    most = max(-situation.low_percent, situation.high_percent)
    # Rounded up: what is written is outside of the interval.
    steps = 1000 if most < 9.9 else 100
    return f"more than {percent(math.ceil(most * steps / 100) / steps)} is ruled out"


def device_bound(situation: Situation) -> str:
    """Say that the host waited for the device, if it did; else nothing."""
    if situation.device_share < _DEVICE_BOUND:
        return ""
    return (f"the wait for the device after a batch was {percent(situation.device_share)} of the batch: "
            f"the device may set this pace, not the host")


def what_would_help(situation: Situation, host: dict[str, Any]) -> str:
    """Say what would make the interval narrower.

    Parameters
    ----------
    situation : Situation
        Of the difference.
    host : dict
        `Measured.host`.
    """
    one, many = ("block of batches", "blocks of batches") if situation.is_live else ("process", "processes")
    if situation.pairs < 2:
        return (f"one {one} of each cannot tell a difference of versions from that between {many}: "
                f"measure at least {FEW}")
    half = (situation.high_percent - situation.low_percent) / 2
    needed = math.ceil(situation.pairs * (half / situation.limit_percent) ** 2)
    hints = [f"the interval is {percent(half / 100)} to each side"]
    if situation.pairs < FEW:
        hints.append(f"{situation.pairs} {many} are few: measure at least {FEW}")
    elif needed <= _MOST_PROCESSES:
        hints.append(f"about {needed} {many} instead of {situation.pairs} would bring it below "
                     f"{percent(situation.limit_percent / 100)}")
    else:
        hints.append(f"more {many} alone would not do")
    return "; ".join([*hints, *noise(host)])


def noise(host: dict[str, Any]) -> list[str]:
    """Say what makes a host noisy.

    Parameters
    ----------
    host : dict
        `Measured.host`; what it does not say is not guessed.
    """
    hints: list[str] = []
    lost = host.get("noise")
    if isinstance(lost, int | float) and lost > _QUIET:
        hints.append(f"{percent(lost)} of the processor's time went to others: close what else runs")
    quiet = host.get("quiet")
    if isinstance(quiet, int | float) and quiet < _OFTEN:
        hints.append(f"only {percent(quiet)} of the batches ran at quiet moments")
    if "pinned_to" in host and host["pinned_to"] is None:
        hints.append("the processes were not pinned to a processor")
    governor = host.get("governor")
    if isinstance(governor, str) and governor not in ("", "performance"):
        hints.append(f"the frequency governor is {governor}, not performance")
    return hints
