from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest
from everything import everything
from handmade import Script
from unpack import Unpacked, packed

from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.views import page as views_page
from kernelscope.views.page import page
from kernelscope.views.timeline.build import timeline_of
from kernelscope.views.timeline.svg import picture
from kernelscope.views.timeline.wire import Packed


@pytest.mark.parametrize(("given", "made"), [("report", "report.html"), ("report.htm", "report.htm")])
def test_to_html_returns_the_path(tmp_path: Path, given: str, made: str) -> None:
    assert everything().to_html(tmp_path / given) == tmp_path / made
    assert everything().to_html(str(tmp_path / given)) == tmp_path / made
    assert [each.name for each in tmp_path.iterdir()] == [made]


def test_what_fails_leaves_the_earlier_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = everything().to_html(tmp_path / "report.html")
    before = target.read_bytes()

    def fail(recording: Recording, **options: bool) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(views_page, "page", fail)
    with pytest.raises(KeyboardInterrupt):
        everything(rounds=1).to_html(target)
    assert target.read_bytes() == before
    assert list(tmp_path.iterdir()) == [target]


def test_the_page_holds_card_and_timeline(tmp_path: Path) -> None:
    recording = everything(name="</noscript><script>window.hit = 1</script>")
    text = page(recording)
    assert text.startswith("<!DOCTYPE html>")
    assert '<div class="kscope"' in text
    still = re.search(r"<noscript>(.*?)</noscript>", text, re.DOTALL)
    assert still is not None and picture(timeline_of(shareable(recording))) in still[1]
    assert "<script" not in still[1]
    header = json.loads(re.search(r'id="kernelscope-header">(.*?)</script>', text)[1])  # type: ignore[index]
    payload = re.search(r'id="kernelscope-payload">(.*?)</script>', text)[1]  # type: ignore[index]
    back = Unpacked(Packed(header, base64.b64decode(payload)))
    assert back.rows("launches") == len(recording.launches)
    assert header == json.loads(json.dumps(packed(shareable(recording)).header))


def test_only_its_own_script_may_run() -> None:
    text = page(everything())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]  # type: ignore[index]
    script = re.search(r'<script type="module" async>(.*?)</script>', text, re.DOTALL)[1]  # type: ignore[index]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "connect-src" not in policy
    assert "unsafe-eval" not in policy


def test_an_empty_recording_has_a_page_too() -> None:
    assert "no kernel launches" in page(Script().recording())


def test_a_surrogate_in_a_name_can_be_written(tmp_path: Path) -> None:
    recording: Recording = everything(name="half \ud83d of a pair")
    assert recording.to_html(tmp_path / "a.html").read_text(encoding="utf-8")
