from __future__ import annotations

import pytest

from kernelscope.units import MISSING
from kernelscope.views import base


@pytest.mark.parametrize(("text", "cleaned"), [
    ("axpy", "axpy"),
    ("größe_Ω", "größe_Ω"),
    ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
    ("\x9b31m", "\\x9b31m"),
    ("a\nb\r\tc", "a\\nb\\r\\tc"),
    ("gnp\u202egpj.exe", "gnp\\u202egpj.exe"),
    ("a\u2066b\u2069\u200b\ufeff", "a\\u2066b\\u2069\\u200b\\ufeff"),
    ("\x00\x07\x7f", "\\x00\\x07\\x7f"),
    ("\ud800", "\\ud800"),
    ("\U000e0041", "\\U000e0041"),
])
def test_characters_that_act_on_the_reader_become_visible(text: str, cleaned: str) -> None:
    assert base.clean(text) == cleaned
    cleaned.encode()


def test_html_is_escaped_for_elements_and_attributes() -> None:
    assert base.escape("<script>\"'&\x1b") == "&lt;script&gt;&quot;&#x27;&amp;\\x1b"


@pytest.mark.parametrize(("dims", "text"), [
    ((1, 1, 1), "1"), ((4_096, 1, 1), "4,096"), ((16, 16, 1), "16 \u00d7 16"), ((1, 1, 4), "1 \u00d7 1 \u00d7 4"),
])
def test_dims(dims: tuple[int, int, int], text: str) -> None:
    assert base.dims(dims) == text


def test_ranges() -> None:
    assert base.span(None) == MISSING
    assert base.span((32, 32)) == "32"
    assert base.span((32, 1_040)) == "32 to 1,040"
    assert base.percents((0.5, 0.75)) == "50 to 75 %"
    assert base.sizes((96, 4_096)) == "96 B to 4.0 KiB"
    assert base.sizes((96, 96)) == "96 B"
    assert base.sizes(None) == MISSING


def test_streams_have_the_drivers_names() -> None:
    assert [base.stream(each) for each in (None, 0, 1, 2, 255)] == [
        MISSING, "default", "legacy default", "per-thread default", "0xff"]
    assert len(base.stream(0x7fff_dead_beef_0123)) == 12


@pytest.mark.parametrize(("text", "width", "short"), [
    ("axpy", 4, "axpy"), ("axpy_kernel", 7, "axp…nel"), ("axpy_kernel", 6, "axp…el"), ("axpy", 1, "…"), ("axpy", 0, ""),
    ("漢字漢字漢字", 7, "漢…字"),
])
def test_long_text_gives_way_in_its_middle(text: str, width: int, short: str) -> None:
    assert base.shorten(text, width) == short
    assert base.width_of(base.shorten(text, width)) <= width


@pytest.mark.parametrize("text", ["kernel · [1,024, 256]", "MMMMMMMMMM", "iiiiiiiiii", "漢字漢字漢字", "e\u0301" * 8])
def test_what_is_drawn_takes_no_more_than_its_room(text: str) -> None:
    whole = base.drawn_width(text, 11)
    assert base.fitted(text, whole, 11) == text
    assert base.drawn_width(text, 11, bold=True) > whole
    kept = [base.fitted(text, whole * tenth / 10, 11) for tenth in range(10)]
    assert kept[0] == ""
    assert all(base.drawn_width(each, 11) <= whole * tenth / 10 for tenth, each in enumerate(kept))
    assert "…" in kept[9]
    assert list(map(len, kept)) == sorted(map(len, kept))


def test_width_counts_columns_of_a_terminal() -> None:
    assert (base.width_of("abc"), base.width_of("漢字"), base.width_of("e\u0301")) == (3, 4, 1)
