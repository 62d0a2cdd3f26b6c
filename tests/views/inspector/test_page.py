"""The inspector as a page of its own: it holds what a kernel of Python would have answered."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest

import kernelscope
from kernelscope.errors import UnknownKernelError
from kernelscope.views.inspector.model import FORMS
from kernelscope.views.inspector.page import page
from kernelscope.views.keys import specialization_keys

RECORDING = kernelscope.load(Path(__file__).resolve().parents[3] / "notebooks" / "recordings" / "inside.kscope")


def inflated(text: str) -> str:
    return zlib.decompress(base64.b64decode(text), -zlib.MAX_WBITS).decode()


def held(text: str) -> dict[str, Any]:
    return json.loads(inflated(re.search(r'id="kernelscope-payload">([^<]*)<', text)[1]))


def test_it_answers_for_every_specialization_and_form() -> None:
    content = held(page(RECORDING))
    keys = specialization_keys(RECORDING).values()
    assert {*content["answers"]} == {*keys, *(f"{key} {form}" for key in keys for form in FORMS)}
    assert [each["name"] for each in content["facts"]["kernels"]] == ["naive", "single", "coalesced", "tiled"]
    assert not content["facts"]["is_live"] and not content["facts"]["can_compile"]


@pytest.mark.parametrize("form", ["llvm", "ptx", "sass"])
def test_its_code_is_the_recording_s(form: str) -> None:
    answers, keys = held(page(RECORDING))["answers"], specialization_keys(RECORDING)
    rows = [row for row in RECORDING.rows("code") if row["kind"] == form]
    assert len(rows) == 4
    for row in rows:
        head, buffers = answers[f"{keys[row['specialization_id']]} {form}"]
        assert head["has_text"]
        assert inflated(buffers[0]).split() == row["text"].split()


def test_what_is_not_recorded_says_so() -> None:
    key = next(iter(specialization_keys(RECORDING).values()))
    head, _ = held(page(RECORDING))["answers"][f"{key} ttir"]
    assert not head["has_text"] and head["note"]


def test_it_begins_with_a_kernel(tmp_path: Path) -> None:
    written = kernelscope.inspect(RECORDING, "tiled").to_html(tmp_path / "kernels")
    facts = held(written.read_text(encoding="utf-8"))["facts"]
    assert written.name == "kernels.html"
    assert next(each["name"] for each in facts["kernels"] if each["key"] == facts["first"]) == "tiled"
    with pytest.raises(UnknownKernelError, match="nothing"):
        page(RECORDING, "nothing")
