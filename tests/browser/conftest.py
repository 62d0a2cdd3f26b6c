"""A real Chromium for the tests of this folder, and pages that note every request and every complaint."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from browsing import Timeline, chromiums
from code_pages import Code, code_page, stencil_code
from everything import everything

from kernelscope.recording.model import Recording

KNOWN = everything()


# Not of the whole session: while Playwright runs, no other test of the process can run an event loop.
@pytest.fixture(scope="module")
def chromium_with(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """Return the running Chromium with one of `browsing.FONTS`, one for all tests of a file."""
    with chromiums(tmp_path_factory.mktemp("chromium")) as with_font:
        yield with_font


@pytest.fixture(scope="module")
def chromium(chromium_with: Callable[[str], Any]) -> Any:
    """A running Chromium for what does not depend on a font."""
    return chromium_with("wide")


@dataclass
class Watched:
    """A page, with what it asked for and complained about."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture
def watch(chromium_with: Callable[[str], Any]) -> Iterator[Callable[..., Watched]]:
    """Make pages; those that any test leaves must not have complained, nor asked for anything but files."""
    pages: list[Watched] = []

    def make(dark: bool = False, width: int = 1300, height: int = 900, font: str = "wide", **options: Any) -> Watched:
        page = chromium_with(font).new_page(viewport={"width": width, "height": height},
                                            color_scheme="dark" if dark else "light", **options)
        watched = Watched(page)
        page.on("request", lambda request: watched.requests.append(request.url))
        page.on("console", lambda message: watched.complaints.append(message.text)
                if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: watched.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (watched.complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
        pages.append(watched)
        return watched

    yield make
    for each in pages:
        each.page.close()
    assert [each.complaints for each in pages if each.complaints] == []


@pytest.fixture
def artifacts(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder for pictures: that of KERNELSCOPE_ARTIFACTS, where it is set."""
    wanted = os.environ.get("KERNELSCOPE_ARTIFACTS")
    folder = Path(wanted) if wanted else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    return folder / re.sub(r"\W+", "-", request.node.name).strip("-")


@pytest.fixture(scope="module")
def real() -> dict[str, str]:
    """The code of a real kernel, by kind."""
    return stencil_code()


@pytest.fixture
def opened(watch: Callable[..., Any], tmp_path: Path) -> Callable[..., Code]:
    """Show the view of code, alone on a page."""
    def make(jupyter: str = "", **options: Any) -> Code:
        watched = watch(**options)
        watched.page.goto(code_page(tmp_path, jupyter).as_uri())
        code = Code(watched.page)
        code.watched = watched  # type: ignore[attr-defined]
        return code

    return make


@pytest.fixture
def opened_timeline(watch: Callable[..., Any], tmp_path: Path) -> Callable[..., Timeline]:
    """Write a recording's page and open it."""

    def make(recording: Recording = KNOWN, **options: Any) -> Timeline:
        path = recording.to_html(tmp_path / "report.html")
        watched = watch(**options)
        watched.page.goto(path.as_uri())
        timeline = Timeline(watched.page).wait()
        timeline.watched = watched  # type: ignore[attr-defined]
        return timeline

    return make
