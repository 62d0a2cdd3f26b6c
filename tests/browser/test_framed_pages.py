"""Views as pages of their own, which other pages show in frames: inspector with code, timeline, card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browsing import Timeline

import kernelscope
from kernelscope.views.page import card_page, timeline_page

pytestmark = [pytest.mark.browser, pytest.mark.slow]

RECORDINGS = Path(__file__).resolve().parents[2] / "notebooks" / "recordings"
TOO_WIDE = "() => document.documentElement.scrollWidth - innerWidth"


def test_the_inspector_has_all_code_without_a_kernel(watch: Any, tmp_path: Path) -> None:
    written = kernelscope.inspect(RECORDINGS / "inside.kscope", "single").to_html(tmp_path / "kernels")
    watched = watch(width=1200)
    watched.page.goto(written.as_uri())
    page = watched.page
    assert page.locator(".ksi-kernel[aria-selected=true] .ksi-name").inner_text() == "single"
    page.get_by_role("tab", name="Source").click()
    page.get_by_text("total += a[row, k] * b[k, column]").first.wait_for()
    assert page.get_by_text("95 %").first.is_visible()  # of the samples, at this line
    page.get_by_role("tab", name="PTX").click()
    page.get_by_text(".visible .entry").first.wait_for()
    page.get_by_role("tab", name="Passes").click()
    page.locator(".ksi-kernel", has_text="tiled").click()
    page.get_by_role("tab", name="Source").click()
    page.get_by_text("left[y, x] = a[row, start + x]").first.wait_for()
    assert watched.requests == [written.as_uri()]


def test_a_link_to_the_inspector_names_the_kernel_to_begin_with(watch: Any, tmp_path: Path) -> None:
    written = kernelscope.inspect(RECORDINGS / "inside.kscope").to_html(tmp_path / "kernels.html")
    watched = watch()
    watched.page.goto(f"{written.as_uri()}#coalesced")
    assert watched.page.locator(".ksi-kernel[aria-selected=true] .ksi-name").inner_text() == "coalesced"


@pytest.mark.parametrize("width", [370, 740])
def test_a_timeline_alone_fills_the_window(watch: Any, tmp_path: Path, width: int) -> None:
    page = tmp_path / "timeline.html"
    page.write_text(timeline_page(kernelscope.load(RECORDINGS / "workers_training.kscope")), encoding="utf-8")
    watched = watch(width=width, height=480)
    watched.page.goto(page.as_uri())
    Timeline(watched.page).wait()
    assert watched.page.evaluate(TOO_WIDE) <= 0
    assert watched.page.locator(".kscope").count() == 0
    assert watched.requests == [page.as_uri()]


def test_a_card_alone_needs_no_other_file(watch: Any, tmp_path: Path) -> None:
    page = tmp_path / "card.html"
    page.write_text(card_page(kernelscope.load(RECORDINGS / "triton_autotune.kscope")), encoding="utf-8")
    watched = watch(width=370)
    watched.page.goto(page.as_uri())
    assert watched.page.get_by_text("autotuning matmul twice").first.is_visible()
    assert watched.page.evaluate(TOO_WIDE) <= 0
    assert watched.requests == [page.as_uri()]
