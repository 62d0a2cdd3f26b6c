"""Whether this process may read the GPU's counters, why not, and what an administrator has to do.

Sources: NVIDIA's page on ERR_NVGPUCTRPERM (who may read counters, and the driver's option), ``cupti_result.h`` and
``cupti_profiler_target.h`` of CUDA 13.0 (CUPTI's answers), and the manual page of ``dcgmi profile``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kernelscope.probes.cupti.library import CuptiError, problem_of

_SYS_ADMIN, _PERFMON = 21, 38
#: The first driver that lets processes with CAP_PERFMON read counters.
_PERFMON_DRIVER = 565

HARDWARE_BUSY, NOT_SUPPORTED, INSUFFICIENT_PRIVILEGES = 26, 27, 35
_ONLY_ADMINISTRATORS = "the driver lets only administrators read the GPU's counters"
_BUSY = "another tool holds the GPU's counters"
_ELSEWHERE = "measure on another machine, or another kind of instance"
# What CUPTI answers where it has no counters: its name for it, what that means, and what can be done.
_UNSUPPORTED = {
    NOT_SUPPORTED: ("NOT_SUPPORTED", "CUPTI reads no counters of this GPU, or not in this configuration",
                    "kernelscope doctor says what CUPTI does not support here"),
    33: ("VIRTUALIZED_DEVICE_NOT_SUPPORTED", "CUPTI reads no counters of this virtual GPU", _ELSEWHERE),
    40: ("VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES", "profiling is not enabled for this virtual GPU",
         "whoever runs the machine has to enable profiling for the virtual GPU"),
    41: ("CONFIDENTIAL_COMPUTING_NOT_SUPPORTED", "CUPTI reads no counters while confidential computing is on",
         "an administrator has to switch confidential computing off"),
    42: ("CMP_DEVICE_NOT_SUPPORTED", "CUPTI reads no counters of mining processors (CMP)", _ELSEWHERE),
    43: ("MIG_DEVICE_NOT_SUPPORTED", "CUPTI reads no counters of this MIG instance",
         "measure on a whole GPU, or on a compute instance that has its GPU instance alone"),
    44: ("SLI_DEVICE_NOT_SUPPORTED", "CUPTI reads no counters while SLI is on",
         "an administrator has to switch SLI off"),
    45: ("WSL_DEVICE_NOT_SUPPORTED", "CUPTI reads no counters of this GPU in WSL", "measure on Linux itself"),
    46: ("INVALID_CHIP_NAME", "CUPTI does not know this GPU: it is newer than the library",
         "pip install --upgrade 'kernelscope[cupti]'"),
}
#: The fields of CUPTI's answer on a device, with what is the matter where one is not supported.
_FIELDS = {
    "architecture": "its architecture is older than Volta's (compute capability 7.0)", "sli": "SLI is on",
    "vgpu": "profiling of this virtual GPU is not supported, or not enabled",
    "confidential": "confidential computing is on", "cmp": "it is a mining processor (CMP)",
    "wsl": "CUPTI does not support it in WSL",
}
SUPPORT = tuple(_FIELDS)
_UNSUPPORTED_HERE, _DISABLED = 1, 2
_OPTION = "options nvidia NVreg_RestrictProfilingToAdminUsers=0"
#: Processes that may hold counters by their names, and what to do about them.
_HOLDERS = {
    "nv-hostengine": "run dcgmi profile --pause before the measurement, and dcgmi profile --resume after it",
    "dcgm-exporter": "stop dcgm-exporter meanwhile, or run dcgmi profile --pause where it uses an nv-hostengine",
    "ncu": "wait until ncu has ended", "nsys": "wait until nsys has ended",
}


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What decides whether counters may be read.

    Attributes
    ----------
    admin_only : bool or None
        Whether the driver lets only administrators read them; None where it does not tell.
    driver : int or None
        The driver's major version.
    capabilities, bounding : int
        The process's effective capabilities and those it could have, as bits.
    is_namespaced : bool
        Whether the process is in a user namespace of its own, in which capabilities are not those of the machine.
    is_container : bool
        Whether it runs in a container.
    holders : tuple of str
        The names of running processes that may hold the counters.
    """

    admin_only: bool | None = None
    driver: int | None = None
    capabilities: int = 0
    bounding: int = 0
    is_namespaced: bool = False
    is_container: bool = False
    holders: tuple[str, ...] = ()

    @property
    def is_privileged(self) -> bool:
        """Whether the driver takes this process for an administrator's."""
        return not self.is_namespaced and any(self.capabilities >> bit & 1 for bit in self._bits())

    @property
    def is_lowered(self) -> bool:
        """Whether it could be an administrator's, as another user."""
        return not self.is_namespaced and any(self.bounding >> bit & 1 for bit in self._bits())

    @property
    def wanted(self) -> str:
        """The capabilities that it needs one of."""
        return "CAP_SYS_ADMIN or CAP_PERFMON" if len(self._bits()) == 2 else "CAP_SYS_ADMIN"

    def _bits(self) -> tuple[int, ...]:
        return (_SYS_ADMIN, _PERFMON) if (self.driver or 0) >= _PERFMON_DRIVER else (_SYS_ADMIN,)


class Verdict(NamedTuple):
    """Whether counters may be read.

    Attributes
    ----------
    may_read : bool
        Whether they may.
    why : str
        What that was concluded from.
    fix : str
        What has to be done, and by whom; empty where nothing has to.
    note : str
        What may get in the way all the same.
    """

    may_read: bool
    why: str
    fix: str = ""
    note: str = ""

    @property
    def text(self) -> str:
        """The verdict in one line."""
        return "; ".join(filter(None, (
            f"counters may {'' if self.may_read else 'not '}be read: {self.why}", self.fix, self.note)))


def verdict(machine: Machine, result: int | None = None) -> Verdict:
    """Return whether counters may be read.

    Parameters
    ----------
    machine : Machine
        What was read.
    result : int, optional
        CUPTI's answer when it was asked to measure, 0 for yes; the verdict without is what the machine lets expect.
    """
    if result in _UNSUPPORTED:
        name, what, fix = _UNSUPPORTED[result]
        return Verdict(False, f"{what} (CUPTI_ERROR_{name})", fix)
    if result == INSUFFICIENT_PRIVILEGES:
        return Verdict(False, f"{_ONLY_ADMINISTRATORS} (CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)", _allow(machine))
    if result == HARDWARE_BUSY:
        held = f", perhaps {' or '.join(machine.holders)}" if machine.holders else ""
        return Verdict(False, f"{_BUSY} (CUPTI_ERROR_HARDWARE_BUSY){held}", _free(machine))
    if result:
        return Verdict(False, f"CUPTI answers with its error {result}", "please report this message")
    if result is None and machine.admin_only and not machine.is_privileged:
        return Verdict(False, f"{_ONLY_ADMINISTRATORS} (RmProfilingAdminOnly is 1), and this process "
                       + ("is in a user namespace, where nobody is one" if machine.is_namespaced
                          else f"does not have {machine.wanted}"), _allow(machine))
    return Verdict(
        True, _allowed(machine) + ("" if result is None else "; CUPTI was asked, and measures"),
        note=f"where {' or '.join(machine.holders)} holds them: {_free(machine)}" if machine.holders else "")


def _allowed(machine: Machine) -> str:
    if machine.admin_only is None:
        return "the driver does not tell who may (/proc/driver/nvidia/params has no RmProfilingAdminOnly)"
    if not machine.admin_only:
        return "the driver lets everybody (RmProfilingAdminOnly is 0)"
    return f"the driver lets only administrators (RmProfilingAdminOnly is 1), and this process has {machine.wanted}"


def _allow(machine: Machine) -> str:
    """What an administrator has to do so that this process may read counters."""
    ways = [f"an administrator{' of the host' * machine.is_container} has to write \"{_OPTION}\" to a file in "
            "/etc/modprobe.d, run update-initramfs -u or dracut -f, and restart"]
    if machine.is_container and not machine.is_lowered:
        ways.insert(0, "start the container with --cap-add=SYS_ADMIN, and run this as its root" if not
                    machine.is_namespaced else "start a container that is not rootless with --cap-add=SYS_ADMIN")
    elif not machine.is_namespaced:
        ways.insert(0, f"run this as root{' of the container' * machine.is_container}, or with {machine.wanted}")
    return "; or ".join(ways)


def _free(machine: Machine) -> str:
    """What has to be done so that nobody else holds the counters."""
    if machine.holders:
        return "; ".join(_HOLDERS[name] for name in machine.holders)
    hidden = "; processes of the host are not seen in this container" if machine.is_container else ""
    return ("end other profilers (ncu, nsys, another notebook that measures); where DCGM runs, run dcgmi profile "
            f"--pause before and dcgmi profile --resume after{hidden}")


def unsupported(name: str, support: Mapping[str, int]) -> Verdict | None:
    """Return why CUPTI cannot read counters of a device, None where it can.

    Parameters
    ----------
    name : str
        The device's, with which it is said.
    support : mapping of str to int
        The fields of `SUPPORT`, as ``cuptiProfilerDeviceSupported`` fills them.
    """
    wrong = [what for field, what in _FIELDS.items() if support[field] in (_UNSUPPORTED_HERE, _DISABLED)]
    return Verdict(False, f"CUPTI reads no counters of {name}: {', '.join(wrong)}", _ELSEWHERE) if wrong else None


def refusal(library: Any, call: str, result: int) -> CuptiError:
    """Return what a call for counters that returned an error is to raise: with what an administrator has to do."""
    if result not in (HARDWARE_BUSY, INSUFFICIENT_PRIVILEGES, *_UNSUPPORTED):
        found = problem_of(library, call, result)
        return found if found.is_held else CuptiError(str(found), "please report this message")
    found = verdict(read(), result)
    return CuptiError(found.why, found.fix)


def read(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> Machine:
    """Return what there is to read of this machine and this process.

    Parameters
    ----------
    root : Path
        Where ``proc`` is; for tests.
    environment : mapping
        The process's.
    """
    def text(path: str) -> str:
        try:
            return (root / path).read_text(errors="replace")
        except OSError:
            return ""

    status = text("proc/self/status")
    return Machine(
        admin_only=admin_only(text("proc/driver/nvidia/params")), driver=driver(text("proc/driver/nvidia/version")),
        capabilities=capabilities(status, "CapEff"), bounding=capabilities(status, "CapBnd"),
        is_namespaced=is_namespaced(text("proc/self/uid_map")),
        is_container=is_container(lambda path: (root / path).exists(), text("proc/1/cgroup"),
                                  text("proc/self/mountinfo"), environment),
        holders=holders(text(f"proc/{each.name}/comm") for each in (root / "proc").glob("[0-9]*")))


def admin_only(params: str) -> bool | None:
    """Return whether counters are for administrators only, from the text of ``/proc/driver/nvidia/params``."""
    found = re.search(r"^RmProfilingAdminOnly: *(\d+)", params, re.MULTILINE)
    return None if found is None else found[1] != "0"


def driver(version: str) -> int | None:
    """Return the driver's major version, from the text of ``/proc/driver/nvidia/version``."""
    found = re.search(r"^NVRM version:.*?\s(\d+)\.\d+", version, re.MULTILINE)
    return None if found is None else int(found[1])


def capabilities(status: str, which: str) -> int:
    """Return a set of capabilities as bits, from the text of ``/proc/self/status``."""
    found = re.search(rf"^{which}:\s*([0-9a-f]+)", status, re.MULTILINE)
    return 0 if found is None else int(found[1], 16)


def is_namespaced(uid_map: str) -> bool:
    """Return whether users are not the machine's own, from the text of ``/proc/self/uid_map``."""
    return bool(uid_map) and uid_map.split() != ["0", "0", "4294967295"]


def is_container(exists: Callable[[str], bool], cgroup: str, mounts: str, environment: Mapping[str, str]) -> bool:
    """Return whether a process runs in a container.

    Parameters
    ----------
    exists : callable
        Whether there is a file, by its path without the first slash.
    cgroup, mounts : str
        The texts of ``/proc/1/cgroup`` and ``/proc/self/mountinfo``.
    environment : mapping
        The process's.
    """
    return (exists(".dockerenv") or exists("run/.containerenv") or "KUBERNETES_SERVICE_HOST" in environment
            or re.search(r"docker|kubepods|containerd|libpod|/lxc", cgroup) is not None
            or re.search(r"^\S+ \S+ \S+ \S+ / .* - overlay ", mounts, re.MULTILINE) is not None)


def holders(names: Iterable[str]) -> tuple[str, ...]:
    """Return which of the processes of these names may hold counters."""
    running = {name.strip() for name in names}
    return tuple(name for name in _HOLDERS if name in running)
