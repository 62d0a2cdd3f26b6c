"""`%kernelscope compare` and `history`, and the card of a cell that ran before, in a real kernel."""

from __future__ import annotations

from typing import Any

LAUNCH = "for at in range(20):\n    axpy[2, 32](a, 2.0, a)"


def test_the_card_of_a_cell_that_ran_before_says_what_changed(notebook: Any) -> None:
    cell = f"%%kernelscope --no-timeline\n{LAUNCH}"
    assert "Since the last run" not in notebook.ok(cell).card
    again = notebook.ok(cell)
    text, html = (" ".join(again.cards[0][kind].split()) for kind in ("text/plain", "text/html"))
    (line,) = [part.partition(".")[0] for part in text.split("Since the last run: ")[1:]]
    assert line.startswith("launches ")
    assert "Since the last run: launches " in html
    assert "Since the last run: launches " in " ".join(notebook.ok("%kernelscope report").card.split())


def test_another_cell_is_no_run_of_it_unless_it_has_its_name(notebook: Any) -> None:
    notebook.ok(f"%%kernelscope -q -n step\n{LAUNCH}")
    assert "Since the last run" not in notebook.ok(f"%%kernelscope --no-timeline\n{LAUNCH}\n").card
    named = " ".join(notebook.ok(f"%%kernelscope --no-timeline -n step\n{LAUNCH}\n{LAUNCH}").card.split())
    assert "Since the last run: 20 → 40 launches" in named


def test_two_cells_beside_each_other(notebook: Any) -> None:
    assert "no recorded cell" in notebook.run("%kernelscope compare").stderr
    for times in (1, 2):
        notebook.ok("%%kernelscope -q -n step\n" + f"{LAUNCH}\n" * times)
    notebook.ok(f"%%kernelscope -q -n other\n{LAUNCH}")
    assert "against" in notebook.ok("%kernelscope compare step other").card.splitlines()[1]
    assert "20 → 40 launches" in notebook.ok("%kernelscope compare step").card
    assert "no earlier run of" in notebook.run("%kernelscope compare --last").stderr
    assert "two cells, or one" in notebook.run("%kernelscope compare 1 2 3").stderr
    assert "leave out CELL" in notebook.run("%kernelscope compare --last step").stderr
    ran = notebook.ok("%kernelscope compare step other --timeline")
    assert set(ran.timelines) == {"picture", "widget"}


def test_the_history_of_a_cell(notebook: Any) -> None:
    for _ in range(2):
        notebook.ok(f"%%kernelscope -q -n again\n{LAUNCH}")
    (data,) = [content["data"] for kind, content in notebook.ok("%kernelscope history again").messages
               if kind == "display_data"]
    assert "KernelScope: again: 2 runs" in data["text/plain"]
    assert "Runs of again" in data["text/html"]
    notebook.ok("import pathlib; pathlib.Path('kept').mkdir(exist_ok=True); _kernelscope.save('kept/one.kscope')")
    assert notebook.value("kernelscope.history('again', 'kept').to_frame().cell.tolist()").count("In [") == 2
    assert "no recorded cell 'never'" in notebook.run("%kernelscope history never").stderr
