"""The static twin: everything that a saved notebook needs, within limits, and no name that is more than a name."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from handmade import Script
from inspected import inspected, many

from kernelscope.recording.model import Recording
from kernelscope.views.inspector.html import MOST_FACTS, static_html
from kernelscope.views.inspector.model import inspect_kernels

HOSTILE = "</pre></details><script>hit()</script><img src=x onerror=hit()>\u202e\x00\"'"


class Reader(HTMLParser):
    """The elements and the text of a fragment."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.depth = 0
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.depth += tag not in ("col", "img", "br")

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def read(recording: Recording, **options: int) -> Reader:
    return Reader(static_html(recording, inspect_kernels(recording), **options))


def test_kernels_resources_reasons_and_code() -> None:
    found = read(inspected(notice=True))
    # A notebook that is not trusted shows it without its style: values stay apart.
    text = "".join(found.texts)
    for words in ("inspected KernelScope", "dry run: kernels did not execute", "demo.scale", "demo.plain",
                  "k.py:7 · arguments out, x · options", "out: float64[:] C, x: float32[:] C #2", "1,024 B 0 B, 400 B",
                  "5,001 B 9.0", "static shared memory local memory, constant memory", "4, 128: 50 %",
                  "bound to [4, 128]", "k.scale-7.2.nbc", "#2, compiled in 150 ms, requested by a launch, In [4]: "
                  "argument out is float64 Fix cast it", "def scale(out, x):", "add.s32"):
        assert words in text, words
    assert found.depth == 0
    assert found.tags.count("pre") == 1 + 3


def test_what_was_not_recorded_is_said() -> None:
    found = read(inspected(has_code=False))
    assert "Code: Recorded without code. Record with --code, or code=True." in found.text
    assert found.tags.count("pre") == 0
    assert "There is no kernel in it" in read(Script().recording()).text


def test_code_has_a_limit_and_what_is_left_out_is_said() -> None:
    recording = inspected(3_000)
    found = read(recording)
    size = len(recording.rows("code")[1]["text"])
    assert size > 70_000
    assert found.text.count("left out for size") >= 1
    assert sum(len(text) for text in found.texts) < 260_000
    assert found.tags.count("pre") < 4
    assert read(recording, limit=10).tags.count("pre") == 0


def test_many_kernels_have_a_limit() -> None:
    html = static_html(recording := many(1_200, 600), inspect_kernels(recording))
    assert len(html) < MOST_FACTS + 40_000
    assert "more kernels left out for size" in html


@pytest.mark.parametrize("text", [HOSTILE])
def test_names_are_only_names(text: str) -> None:
    made = Script(name=text)
    made.cell(name=text)
    kernel = made.kernel(text, module=text, filename=text, arguments=f"{text}, y", options=json.dumps({text: text}))
    row = made.specialization(kernel, text, compute_capability=text)
    made.compilation(kernel, specialization_id=row, cell_id=0, reason=text, reason_code="new_type", fix=text,
                     cache_file=text)
    for kind in ("source", "ptx", "sass"):
        made._add("code", None, {"dispatcher_id": kernel, "specialization_id": None if kind == "source" else row,
                                 "kind": kind, "text": f"{text}\n    indented"})
    found = read(made.recording())
    assert not {"script", "img"} & set(found.tags)
    assert {name for name, _ in found.attributes} <= {"class", "title", "role", "aria-level", "aria-label", "scope",
                                                        "open", "data-ks-at", "data-ks-key"}
    assert found.depth == 0
    html = static_html(made.recording(), inspect_kernels(made.recording()))
    assert "\u202e" not in html
    assert "\x00" not in html
    assert "\n    indented" in found.text
