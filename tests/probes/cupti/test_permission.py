"""Who may read the GPU's counters, from texts as Linux and NVIDIA's driver have them."""

from __future__ import annotations

import pytest

from kernelscope.counters.permission import (
    SUPPORT,
    Machine,
    admin_only,
    capabilities,
    driver,
    holders,
    is_container,
    is_namespaced,
    read,
    unsupported,
    verdict,
)

PARAMS = "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: {}\nPreserveVideoMemoryAllocations: 0\n"
ADMIN_ONLY = PARAMS.format(1)
VERSION = ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder@U22)\n"
           "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n")
STATUS = "Name:\tpython\nCapInh:\t0000000000000000\nCapEff:\t{:016x}\nCapBnd:\t{:016x}\nSeccomp:\t2\n"
SYS_ADMIN, PERFMON, OTHER = 1 << 21, 1 << 38, 1 << 20 | 1 << 22 | 1 << 37
OPTION = "options nvidia NVreg_RestrictProfilingToAdminUsers=0"
CGROUP_OF_MACHINE = "0::/init.scope\n"
MOUNTS_OF_MACHINE = "28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n"
MOUNTS_OF_CONTAINER = "620 510 0:64 / / rw,relatime - overlay overlay rw,lowerdir=/a:/b\n"


def test_texts_are_read():
    assert [admin_only(PARAMS.format(each)) for each in (0, 1)] == [False, True]
    assert admin_only("") is admin_only("RmProfiling: 1\n") is None
    assert (driver(VERSION), driver("")) == (580, None)
    assert driver("NVRM version: NVIDIA UNIX x86_64 Kernel Module  418.43  Fri Feb 8\n") == 418
    status = STATUS.format(SYS_ADMIN, PERFMON)
    assert (capabilities(status, "CapEff"), capabilities(status, "CapBnd")) == (SYS_ADMIN, PERFMON)
    assert capabilities("", "CapEff") == 0
    assert [is_namespaced(each) for each in (
        "         0          0 4294967295\n", "         0       1000          1\n", "")] == [False, True, False]
    assert holders(["systemd\n", "dcgm-exporter\n", "nv-hostengine\n"]) == ("nv-hostengine", "dcgm-exporter")
    assert holders(["python3\n", "ncurses\n"]) == ()


@pytest.mark.parametrize(("files", "cgroup", "mounts", "environment", "expected"), [
    ((), CGROUP_OF_MACHINE, MOUNTS_OF_MACHINE, {}, False),
    ((), "", "", {}, False),
    ((".dockerenv",), CGROUP_OF_MACHINE, MOUNTS_OF_MACHINE, {}, True),
    (("run/.containerenv",), "0::/\n", "", {}, True),
    ((), "12:pids:/kubepods/besteffort/pod3f/9a\n", MOUNTS_OF_MACHINE, {}, True),
    ((), "0::/\n", MOUNTS_OF_CONTAINER, {}, True),
    ((), "0::/\n", MOUNTS_OF_CONTAINER.replace(" / / ", " / /var/lib/docker/overlay2/x/merged "), {}, False),
    ((), "", "", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, True),
])
def test_containers_are_known(files, cgroup, mounts, environment, expected):
    assert is_container(files.__contains__, cgroup, mounts, environment) is expected


@pytest.fixture
def machine(tmp_path):
    """Makes the files of a machine, and returns what is read of them."""
    def make(params=ADMIN_ONLY, version=VERSION, effective=0, bounding=0, uid_map="0 0 4294967295\n",
             docker=False, processes=()):
        texts = {"driver/nvidia/params": params, "driver/nvidia/version": version, "self/uid_map": uid_map,
                 "self/status": STATUS.format(effective, bounding), "1/cgroup": CGROUP_OF_MACHINE,
                 "self/mountinfo": MOUNTS_OF_MACHINE,
                 **{f"{pid}/comm": f"{name}\n" for pid, name in enumerate(processes, 100)}}
        for path, text in texts.items():
            if text is not None:
                (tmp_path / "proc" / path).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / "proc" / path).write_text(text)
        if docker:
            (tmp_path / ".dockerenv").touch()
        return read(tmp_path, {})

    return make


def test_a_machine_is_read_from_its_files(machine):
    assert machine(effective=SYS_ADMIN, bounding=PERFMON, uid_map="0 1000 1\n", docker=True,
                   processes=("bash", "nv-hostengine")) == Machine(
        admin_only=True, driver=580, capabilities=SYS_ADMIN, bounding=PERFMON, is_namespaced=True, is_container=True,
        holders=("nv-hostengine",))


def test_a_machine_without_a_driver_is_read(tmp_path):
    assert read(tmp_path, {}) == Machine()


@pytest.mark.parametrize(("options", "why"), [
    ({"params": PARAMS.format(0)}, "everybody (RmProfilingAdminOnly is 0)"),
    ({"params": PARAMS.format(0), "docker": True, "uid_map": "0 1000 1\n"}, "everybody"),
    ({"params": None}, "does not tell who may"),
    ({"effective": SYS_ADMIN | OTHER}, "this process has CAP_SYS_ADMIN or CAP_PERFMON"),
    ({"effective": PERFMON}, "this process has CAP_SYS_ADMIN or CAP_PERFMON"),
    ({"effective": SYS_ADMIN, "version": VERSION.replace("580.65", "550.54")}, "this process has CAP_SYS_ADMIN"),
    ({"effective": SYS_ADMIN, "docker": True}, "this process has CAP_SYS_ADMIN or CAP_PERFMON"),
])
def test_counters_may_be_read(machine, options, why):
    for result in (None, 0):
        found = verdict(machine(**options), result)
        assert found.may_read and why in found.why and (found.fix, found.note) == ("", "")
        assert found.text.startswith("counters may be read: the driver ")
        assert ("CUPTI was asked" in found.why) is (result == 0)


AS_ROOT, START = "run this as root", "--cap-add=SYS_ADMIN"


@pytest.mark.parametrize(("options", "why", "fixes", "not_fixes"), [
    ({"effective": OTHER}, "does not have CAP_SYS_ADMIN or CAP_PERFMON", [AS_ROOT, OPTION], [START, "of the host"]),
    ({"effective": PERFMON, "version": VERSION.replace("580.65", "560.28")}, "does not have CAP_SYS_ADMIN",
     [AS_ROOT, OPTION], ["PERFMON"]),
    ({"docker": True}, "does not have CAP_SYS_ADMIN or CAP_PERFMON",
     ["start the container with " + START, "an administrator of the host", OPTION], [AS_ROOT]),
    ({"docker": True, "bounding": SYS_ADMIN}, "does not have", ["run this as root of the container", OPTION], [START]),
    ({"docker": True, "effective": SYS_ADMIN, "bounding": SYS_ADMIN, "uid_map": "0 1000 1\n"},
     "is in a user namespace", ["a container that is not rootless", OPTION], [AS_ROOT]),
    ({"effective": SYS_ADMIN, "uid_map": "0 1000 1\n"}, "is in a user namespace", [OPTION], [AS_ROOT, START]),
])
def test_counters_may_not_be_read_and_what_has_to_be_done(machine, options, why, fixes, not_fixes):
    found = verdict(machine(**options))
    assert not found.may_read and why in found.why and "RmProfilingAdminOnly is 1" in found.why
    for each in fixes:
        assert each in found.fix
    for each in not_fixes:
        assert each not in found.fix
    # CUPTI's answer counts for more than what was read.
    asked = verdict(machine(**options), 35)
    assert not asked.may_read and "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" in asked.why and asked.fix == found.fix
    assert verdict(machine(**options), 0).may_read


@pytest.mark.parametrize(("options", "held", "fix"), [
    ({"processes": ["nv-hostengine"]}, "perhaps nv-hostengine", "dcgmi profile --pause"),
    ({"processes": ["ncu", "nv-hostengine"]}, "perhaps nv-hostengine or ncu", "wait until ncu has ended"),
    ({"processes": ["dcgm-exporter"]}, "perhaps dcgm-exporter", "stop dcgm-exporter"),
    ({}, "(CUPTI_ERROR_HARDWARE_BUSY)", "where DCGM runs, run dcgmi profile --pause"),
    ({"docker": True}, "(CUPTI_ERROR_HARDWARE_BUSY)", "processes of the host are not seen in this container"),
])
def test_who_holds_the_counters_is_named(machine, options, held, fix):
    machine = machine(params=PARAMS.format(0), **options)
    found = verdict(machine, 26)
    assert not found.may_read and found.why.startswith("another tool holds the GPU's counters")
    assert found.why.endswith(held) and fix in found.fix
    assert ("of the host" in found.fix) is bool(options.get("docker"))
    expected = verdict(machine)
    assert expected.may_read and (fix in expected.note) is bool(options.get("processes"))


@pytest.mark.parametrize(("result", "word"), [
    (27, "CUPTI_ERROR_NOT_SUPPORTED"), (33, "virtual GPU"), (40, "not enabled for this virtual GPU"),
    (41, "confidential computing"), (42, "mining"), (43, "MIG"), (44, "SLI"), (45, "WSL"), (46, "newer than the"),
    (999, "error 999"),
])
def test_what_cupti_does_not_support_is_said(result, word):
    found = verdict(Machine(admin_only=True), result)
    assert not found.may_read and word in found.why and found.fix and OPTION not in found.fix


def test_a_chip_that_is_not_supported_is_named():
    supported = dict.fromkeys(SUPPORT, 3)
    assert unsupported("GH100", supported) is None
    assert unsupported("GH100", dict.fromkeys(SUPPORT, 0)) is None, "CUPTI does not know"
    found = unsupported("GP104", {**supported, "architecture": 1, "vgpu": 2})
    assert found is not None and not found.may_read
    assert found.why.startswith("CUPTI reads no counters of GP104: its architecture is older than Volta's")
    assert found.why.endswith("profiling of this virtual GPU is not supported, or not enabled") and found.fix
