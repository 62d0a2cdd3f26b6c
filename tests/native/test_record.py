"""The launch record: what is written down of its declaration is what the declaration says."""

from __future__ import annotations

import numpy as np

from kernelscope.native import core, record
from kernelscope.recording.build import LAUNCH_COLUMNS
from kernelscope.schema import RECORD_TIMES, RECORD_VERSION, TABLES


def test_the_header_is_that_of_the_declaration() -> None:
    assert record.HEADER.read_text() == record.c_header(), f"run  {record._COMMAND}  and compile the extension anew"


def test_the_extension_has_it() -> None:
    assert (core.SLOT_BYTES, core.LAYOUT_VERSION) == (record.BYTES, RECORD_VERSION), "compile the extension anew"
    assert set(core.Ring().columns(0)) == set(LAUNCH_COLUMNS)


def test_what_is_read_has_no_gaps_and_whole_words() -> None:
    assert np.dtype(record.LAYOUT).itemsize == record.BYTES and record.BYTES % 8 == 0


def test_its_times_are_columns_in_order() -> None:
    names = TABLES["launches"].names
    first = names.index(RECORD_TIMES[0])
    assert names[first:first + len(RECORD_TIMES)] == RECORD_TIMES
