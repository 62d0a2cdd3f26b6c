"""The card as a page shows it: well-formed, self-contained, safe, and bounded; tests/snapshots has what it says."""

from __future__ import annotations

import re
from typing import Any

import pytest
from cards import HOSTILE, Reader
from graph_stories import GraphScript, rebuilt, with_builds

from kernelscope.palette import PHASE_COLORS
from kernelscope.recording.model import Recording
from kernelscope.views.card.html import card, page, printed
from kernelscope.views.card.model import Overview
from kernelscope.views.card.sections import EMPTY, EMPTY_CHECKS, FIRST_GRAPHS, MOST_GRAPH_ROWS, card_of
from kernelscope.views.card.text import launches_table, summary
from kernelscope.views.html import sentence


def test_cards_are_well_formed_and_self_contained(story: Any, script: Any, many: Any, long: Any) -> None:
    for recording in (story().recording(), script().recording(), many(2_000, 500), long().recording(),
                      with_builds(rebuilt()).recording()):
        html = card(recording)
        read = Reader(html)
        assert read.tags <= {
            "style", "div", "span", "b", "small", "ul", "li", "table", "colgroup", "col", "thead", "tbody", "tr", "th",
            "td", "tfoot", "i", "details", "summary", "svg", "title", "g", "path", "rect", "text", "tspan"}
        names = {name for name, _ in read.attributes if name in ("id", "src", "href") or name.startswith("on")}
        assert not names, "no id, no handler, no address"
        assert not re.search(r"https?:(?!//www.w3.org/2000/svg)|url\(|@import", html)


def everywhere(made: Any, name: str) -> Recording:
    """A name wherever user code, a file or an error can put one."""
    graphs = with_builds(rebuilt())
    for table, added in graphs.rows.items():
        if table.startswith("graph") or table == "builds":
            made.rows[table] = added
    for table, texts in (("graph_nodes", ("name", "kind")), ("graph_events", ("changes", "error", "api")),
                         ("builds", ("algorithm", "framework", "reason", "fix", "error"))):
        for row in made.rows[table]:
            row |= dict.fromkeys(texts, name) | ({"specialization_id": None} if table == "graph_nodes" else {})
    made.metadata["gpu"] = {"source": name}
    made.activity(name=name)
    made.activity("memcpy", name, memory=name)
    return made.recording()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(hostile: Any, name: str) -> None:
    recording = everywhere(hostile(name), name)
    html = card(recording)
    read = Reader(html)
    assert not read.tags & {"script", "img"}
    assert "onerror" not in {attribute for attribute, _ in read.attributes}
    shown = name.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e").replace("\n", "\\n")
    assert shown in [value for attribute, value in read.attributes if attribute == "title"]
    assert "".join(read.texts).count(shown) >= 2
    document = page(recording, name)
    assert "<script" not in document
    Reader(document.removeprefix("<!DOCTYPE html>\n"))
    for text in (summary(recording, 120), launches_table(recording, 5, 200)):
        assert shown in text
        assert all(line.isprintable() for line in text.splitlines())
    assert not set(html + summary(recording)) & {"\x1b", "\u202e", "\r"}


@pytest.mark.parametrize(("text", "html"), [
    ("argument `x[1]` is None", 'argument <span class="ks-arg">x[1]</span> is None'),
    ("a lone ` stays", "a lone ` stays"),
    ("`<b>` & `&`", '<span class="ks-arg">&lt;b&gt;</span> &amp; <span class="ks-arg">&amp;</span>'),
    ("``", "``"),
])
def test_names_in_sentences_are_code_and_everything_is_escaped(text: str, html: str) -> None:
    assert sentence(text) == html


@pytest.mark.parametrize(("metadata", "notice"), [
    ({"dry_run": True}, "dry run: kernels did not execute"),
    ({"simulator": True}, "CUDA simulator: times say nothing about a GPU"),
])
def test_the_notice_is_on_every_output(story: Any, script: Any, metadata: dict[str, Any], notice: str) -> None:
    for made in (story(**metadata), script(**metadata)):
        recording = made.recording()
        assert Reader(card(recording)).texts.count(notice) == 1
        assert Reader(page([recording, recording], "x").removeprefix("<!DOCTYPE html>\n")).texts.count(notice) == 2
        assert summary(recording).splitlines()[1] == f"*** {notice} ***"
        assert launches_table(recording).startswith(f"*** {notice} ***")


def test_an_empty_recording_says_what_to_check(script: Any) -> None:
    made = script(dry_run=True)
    made.cell(execution_count=2)
    made.health("numba-cuda", "unavailable", message="not installed", fix="pip install numba-cuda")
    recording = made.recording()
    read = Reader(card(recording))
    for output in (" ".join(read.texts), " ".join(summary(recording).split())):
        for part in (EMPTY, *EMPTY_CHECKS, "numba-cuda: unavailable, not installed", "pip install numba-cuda"):
            assert part in output
    assert "table" not in read.tags
    assert launches_table(recording).splitlines()[1:] == ["no kernel launches in this cell"]


def test_what_is_much_is_folded_on_pages_and_cut_in_text(many: Any, script: Any) -> None:
    kernels = many(20_000, 500)
    html, text = card(kernels), summary(kernels, 100)
    assert {f"kernel_{at:03}" for at in range(500)} <= set(Reader(html).texts)
    assert len(html) < 400_000 and len(text.splitlines()) < 250
    assert "488 more kernels" in html and "and 488 more kernels" in text
    made = script()
    made.kernel()
    for at in range(600):
        made.compilation(signature=f"(array(float32, {at}d, C),)", specialization_id=None)
    made.configuration()
    for at in range(21):
        made.cell(execution_count=at)
        made.launch(specialization=None)
    for at in range(30):
        made.range(f"range {at}")
    html = card(made.recording())
    assert re.search(r"and \d+ more<", html)
    for part in ("592 more compiles", "10 more cells", "18 more paths"):
        assert part in html, part
    assert "and 18 more paths" in summary(made.recording(), 120)
    graphs = GraphScript()
    for at in range(MOST_GRAPH_ROWS + FIRST_GRAPHS + 5):
        graph = graphs.graph(f"f{at}", f"t{at}")
        graphs.graph_event("launch", graph, exec_id=graphs.instantiate(graph))
    html = card(graphs.recording())
    assert f"{MOST_GRAPH_ROWS + 6:,} more graphs" in html and "and 6 more" in html


def test_one_picture_of_a_graph_is_drawn_for_a_card() -> None:
    drawn: list[int] = []
    html = printed(card_of(rebuilt().recording()), lambda graph: drawn.append(graph) or "<svg></svg>")
    assert drawn == [0] and html.count("<svg></svg>") == 1


def test_long_names_keep_both_ends_and_their_title(long: Any) -> None:
    made = long()
    made.cell(name="word " * 200)
    name = Overview(made.recording()).by_kernel[0].name
    html = card(made.recording())
    assert f'title="{name}"><span>{name[:-14]}</span><span>{name[-14:]}</span>' in html
    assert (">" + "word " * 20) not in re.sub(r'title="[^"]*"', "", html)


def test_bars_have_exact_numbers_that_add_up(story: Any, gpu_story: Any) -> None:
    def totals(recording: Recording, *beginnings: str) -> list[int]:
        page = Reader(card(recording))
        labels = [value for name, value in page.attributes if name == "aria-label" and "ns" in value]
        sums = {label: sum(int(ns.replace(",", "")) for ns in re.findall(r"\(([\d,]+) ns", label)) for label in labels}
        return [max(value for label, value in sums.items() if label.startswith(each)) for each in beginnings]

    host = Overview(story().recording())
    assert totals(story().recording(), "dispatch", "Python") == [host.totals.host_ns, host.wall_ns]
    shown = Overview(gpu_story().recording()).gpu
    assert shown is not None
    spent = totals(gpu_story().recording(), "kernel ", "while idle: ")
    assert spent == [shown.busy[0].window_ns, shown.idle[0].idle_ns]


def test_phases_that_were_not_recorded_say_so(script: Any) -> None:
    made = script()
    made.cell()
    made.kernel()
    made.configuration()
    made.launch(phases=None, specialization=None)
    html = card(made.recording())
    assert "not recorded" in html
    assert "launches without phases 10.0 µs (10,000 ns, 100 %)" in html
    made.rows["launches"][0]["end_ns"] = None
    assert "10,000 ns" not in card(made.recording())


def test_the_style_sheet_touches_nothing_else(story: Any) -> None:
    sheet = card(story().recording()).split("</style>")[0]
    selectors = re.findall(r"(?:^|[{}\n])\s*([.@a-z][^{}\n]*)\{", sheet)
    assert all(each.lstrip().startswith((".kscope", "@media", "@container")) for each in selectors)


@pytest.mark.parametrize("ground", ["#ffffff", "#16191d", "#111111"])
def test_phase_colors_stand_out_from_the_ground(ground: str) -> None:
    def luminance(color: str) -> float:
        channels = [int(color[at:at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for color in PHASE_COLORS.values():
        light, dark = sorted((luminance(color), luminance(ground)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 2


def test_an_error_of_many_lines_is_shown_in_brief(script: Any) -> None:
    made = script()
    made.cell(status="error", error="TypingError: No match\n \n >>> mul(a, b)\n" + "candidate\n" * 40)
    for text in (card(made.recording()), summary(made.recording())):
        assert "\\n" not in text
        assert text.count("candidate") == 1


def test_a_card_of_endless_names_is_small(script: Any) -> None:
    endless = "x" * 100_000
    made = script(name=endless)
    made.cell(name=endless, error=endless, status="error")
    kernel = made.kernel(endless, filename=endless)
    made.specialization(kernel, f"({endless})")
    made.configuration()
    made.launch(kernel)
    made.compilation(kernel, signature=f"({endless})", error=endless, outcome="failed")
    made.range(endless, end_ns=made.now)
    recording = made.recording()
    assert len(card(recording)) < 150_000 and len(summary(recording)) < 150_000
