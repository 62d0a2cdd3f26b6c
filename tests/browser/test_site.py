"""The documentation as readers open it: every page and every live view in it, narrow and wide, light and dark."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from browsing import missing

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
#: Of what is too wide, the names of elements that stick out: code and tables that scroll in themselves do not.
TOO_WIDE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
#: A view is drawn once it has elements of its own; a card is static, and a roofline done when Plotly says so.
DRAWN = """() => document.readyState === "complete" && !!document.querySelector(
    ".kst-bar, .ksi-kernel, .ksg svg, .ksg canvas, .kscope, .kscope-charts[data-drawn=done]")"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("sphinx") is None:
        missing("Sphinx", "kernelscope[docs]")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", folder / "doctrees", "docs",
         folder / "html"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == ""
    return folder / "html"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("width", [420, 1200])
def test_every_page_opens_without_a_complaint_and_is_as_wide_as_the_window(site: Path, watch: Any, width: int) -> None:
    watched = watch(width=width, height=900)
    wide: dict[str, int] = {}
    pages = sorted(each for each in site.rglob("*.html") if "_static" not in each.parts)
    assert len(pages) > 40
    for each in pages:
        watched.page.goto(each.as_uri())
        for frame in watched.page.locator(".live-view iframe").all():
            frame.scroll_into_view_if_needed()
            inside = frame.element_handle().content_frame()
            inside.wait_for_function(DRAWN)
            wide[f"{each.stem}: {inside.url.rpartition('/')[2]}"] = inside.evaluate(TOO_WIDE)
        wide[each.stem] = watched.page.evaluate(TOO_WIDE)
        assert watched.complaints == [], each
    assert {name: more for name, more in wide.items() if more > 0} == {}
    assert [url for url in watched.requests if not url.startswith((site.as_uri(), "data:", "blob:"))] == []


def test_live_views_follow_the_site_s_theme(site: Path, chromium: Any) -> None:
    page = chromium.new_page(color_scheme="null")  # none is imposed on frames
    page.goto((site / "gallery" / "slowest-rank.html").as_uri())
    frame = page.locator(".live-view iframe").element_handle().content_frame()
    frame.wait_for_function(DRAWN)
    for theme in ("dark", "light"):
        page.evaluate("(theme) => { document.body.dataset.theme = theme; }", theme)
        frame.wait_for_function("(dark) => matchMedia('(prefers-color-scheme: dark)').matches === dark",
                                arg=theme == "dark")
    page.close()


def test_a_live_view_has_a_picture_where_scripts_are_off(site: Path, chromium: Any) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    for name in ("timeline-workers_training", "graph-graphs-0", "roofline-inside"):
        page.goto((site / "_static" / "kernelscope" / f"{name}.html").as_uri())
        assert page.locator("svg, img").first.is_visible(), name
    page.goto((site / "_static" / "kernelscope" / "inspector-inside.html").as_uri())
    assert page.get_by_text("single", exact=True).first.is_visible()
    context.close()
