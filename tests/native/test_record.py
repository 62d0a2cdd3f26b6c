"""The launch record: what is written down of its declaration is what the declaration says."""

from __future__ import annotations

from pathlib import Path

from kernelscope.native import core, record
from kernelscope.schema import RECORD_TIMES, RECORD_VERSION

ROOT = Path(__file__).resolve().parents[2]


def test_the_header_is_that_of_the_declaration() -> None:
    header = ROOT / "kernelscope" / "native" / "csrc" / "record.h"
    assert header.read_text() == record.c_header(), f"run  {record._COMMAND}  and compile the extension anew"


def test_the_extension_has_it() -> None:
    assert (core.SLOT_BYTES, core.LAYOUT_VERSION) == (record.BYTES, RECORD_VERSION), "compile the extension anew"
    assert set(core.Ring().columns(0)) == {*RECORD_TIMES, "site", "target", "configuration"}
