"""The environment variables of the dry run.

================================== ================================================================= ========
variable                           meaning                                                           default
================================== ================================================================= ========
KERNELSCOPE_DRYRUN                 whether `enable_from_environment` enables it: 1, true, yes, on    off
KERNELSCOPE_DRYRUN_DEVICES         how many devices there are, 1 to 8                                1
KERNELSCOPE_DRYRUN_CC              their compute capability, as 90 or 9.0; a list gives one for      9.0
                                   each device, and the last one again for the rest
KERNELSCOPE_DRYRUN_DRIVER_VERSION  the CUDA version that the driver reports, as 13000 or 13.0        see below
================================== ================================================================= ========

The driver version is 13.0 by default, or where only CUDA 12 is installed, that of its header. The driver reads the
same variables when it is loaded; here they are checked first, so that an error can say what is wrong.
``CUDA_VISIBLE_DEVICES`` has no effect on the dry run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kernelscope.errors import DryRunError

if TYPE_CHECKING:
    from collections.abc import Mapping

CAPABILITIES = ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0))
"""The compute capabilities that the null driver has figures for (``csrc/profiles.c``)."""

MAX_DEVICES = 8
OLDEST_DRIVER, NEWEST_DRIVER = 12000, 13990

_ON = frozenset({"1", "true", "yes", "on"})
_OFF = frozenset({"", "0", "false", "no", "off"})


class Settings(NamedTuple):
    """The settings, checked; `driver_version` is None where the variable does not say it."""

    devices: int
    capabilities: tuple[tuple[int, int], ...]
    driver_version: int | None


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Read the devices' number and capabilities, and the driver version.

    Raises
    ------
    DryRunError
        If one of them is out of range; the message names the variable, its value and what it may be.
    """
    devices = _read_devices(environ)
    return Settings(devices, _read_capabilities(environ, devices), _read_driver_version(environ))


def read_switch(environ: Mapping[str, str]) -> bool:
    """Read whether ``KERNELSCOPE_DRYRUN`` asks for the dry run."""
    value = environ.get("KERNELSCOPE_DRYRUN", "").strip().lower()
    if value not in _ON | _OFF:
        raise DryRunError(
            f"KERNELSCOPE_DRYRUN={value!r}: set it to 1, true, yes or on, or to 0, false, no, off or nothing"
        )
    return value in _ON


def _read_devices(environ: Mapping[str, str]) -> int:
    text = environ.get("KERNELSCOPE_DRYRUN_DEVICES", "")
    if not text:
        return 1
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_DEVICES):
        raise DryRunError(f"KERNELSCOPE_DRYRUN_DEVICES={text!r}: set it to a number from 1 to {MAX_DEVICES}")
    return int(text)


def _read_capabilities(environ: Mapping[str, str], devices: int) -> tuple[tuple[int, int], ...]:
    text = environ.get("KERNELSCOPE_DRYRUN_CC", "")
    listed = [_read_capability(part, text) for part in text.split(",")] if text else [(9, 0)]
    if len(listed) > MAX_DEVICES:
        raise DryRunError(
            f"KERNELSCOPE_DRYRUN_CC={text!r}: lists {len(listed)} capabilities, more than {MAX_DEVICES} devices"
        )
    return tuple(listed[min(i, len(listed) - 1)] for i in range(devices))


def _read_capability(part: str, text: str) -> tuple[int, int]:
    for major, minor in CAPABILITIES:
        if part in (f"{major}.{minor}", f"{major}{minor}"):
            return major, minor
    known = ", ".join(f"{major}.{minor}" for major, minor in CAPABILITIES)
    raise DryRunError(f"KERNELSCOPE_DRYRUN_CC={text!r}: {part!r} is none of {known}")


def _read_driver_version(environ: Mapping[str, str]) -> int | None:
    text = environ.get("KERNELSCOPE_DRYRUN_DRIVER_VERSION", "")
    if not text:
        return None
    major, dot, minor = text.partition(".")
    version = 0
    if (
        text.isascii()
        and major.isdigit()
        and len(major) <= 5
        and (not dot or (minor.isdigit() and len(minor) == 1))
    ):
        version = int(major) * 1000 + int(minor) * 10 if dot else int(major)
    if not OLDEST_DRIVER <= version <= NEWEST_DRIVER:
        raise DryRunError(
            f"KERNELSCOPE_DRYRUN_DRIVER_VERSION={text!r}: set it to a CUDA version from 12.0 to 13.9, "
            "as 13.0 or 13000"
        )
    return version
