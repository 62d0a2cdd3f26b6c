from __future__ import annotations

import pytest

from kernelscope.dryrun.switch import read_settings, read_switch
from kernelscope.errors import DryRunError

PREFIX = "KERNELSCOPE_DRYRUN_"


def test_defaults() -> None:
    assert read_settings({}) == (1, ((9, 0),), None)
    assert read_settings(dict.fromkeys((PREFIX + "DEVICES", PREFIX + "CC", PREFIX + "DRIVER_VERSION"), "")) == (
        1, ((9, 0),), None)


@pytest.mark.parametrize(("devices", "text", "expected"), [
    ("1", "9.0", ((9, 0),)),
    ("1", "90", ((9, 0),)),
    ("2", "80", ((8, 0), (8, 0))),
    ("2", "90,8.0", ((9, 0), (8, 0))),
    ("3", "10.0,120", ((10, 0), (12, 0), (12, 0))),
    ("1", "100,75", ((10, 0),)),
])
def test_capabilities(devices: str, text: str, expected: tuple[tuple[int, int], ...]) -> None:
    settings = read_settings({PREFIX + "DEVICES": devices, PREFIX + "CC": text})
    assert settings.devices == int(devices)
    assert settings.capabilities == expected


@pytest.mark.parametrize(("text", "version"), [("13000", 13000), ("13.0", 13000), ("12.9", 12090), ("12080", 12080)])
def test_driver_version(text: str, version: int) -> None:
    assert read_settings({PREFIX + "DRIVER_VERSION": text}).driver_version == version


@pytest.mark.parametrize(("name", "value", "allowed"), [
    ("DEVICES", "0", "from 1 to 8"),
    ("DEVICES", "9", "from 1 to 8"),
    ("DEVICES", "two", "from 1 to 8"),
    ("DEVICES", "²", "from 1 to 8"),
    ("CC", "5.0", "7.5, 8.0, 8.6"),
    ("CC", "9", "9.0"),
    ("CC", "90,", "none of"),
    ("CC", "90 ", "none of"),
    ("CC", ",".join(["90"] * 9), "more than 8 devices"),
    ("DRIVER_VERSION", "11.8", "from 12.0 to 13.9"),
    ("DRIVER_VERSION", "14000", "from 12.0 to 13.9"),
    ("DRIVER_VERSION", "13", "from 12.0 to 13.9"),
    ("DRIVER_VERSION", "13.", "from 12.0 to 13.9"),
    ("DRIVER_VERSION", "new", "from 12.0 to 13.9"),
])
def test_a_wrong_value_is_named_with_what_is_allowed(name: str, value: str, allowed: str) -> None:
    with pytest.raises(DryRunError) as caught:
        read_settings({PREFIX + name: value})
    message = str(caught.value)
    assert PREFIX + name in message
    assert repr(value) in message
    assert allowed in message


@pytest.mark.parametrize("value", ["1", "true", "YES", "On", " 1 "])
def test_switched_on(value: str) -> None:
    assert read_switch({"KERNELSCOPE_DRYRUN": value})


@pytest.mark.parametrize("value", ["", "0", "false", "No", "off"])
def test_switched_off(value: str) -> None:
    assert not read_switch({"KERNELSCOPE_DRYRUN": value})
    assert not read_switch({})


def test_a_wrong_switch_is_an_error() -> None:
    with pytest.raises(DryRunError, match="KERNELSCOPE_DRYRUN='maybe'"):
        read_switch({"KERNELSCOPE_DRYRUN": "maybe"})
