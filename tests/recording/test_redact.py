"""Redaction: no word of a user's survives, whatever the tables hold, and what is left is a recording all the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from everything import everything
from handmade import Script

from kernelscope import Recording, load
from kernelscope.analysis.compiles import explain
from kernelscope.analysis.redaction import redacted
from kernelscope.errors import RecordingFileError
from kernelscope.recording import redact as redact_module
from kernelscope.recording.integrity import check_tables
from kernelscope.recording.merge import merge
from kernelscope.recording.model import select_cell
from kernelscope.recording.parquet import arrow_schema, empty_table, table_of_rows
from kernelscope.recording.redact import RULES, Names, neutral_types, redact, without_texts
from kernelscope.schema import BUILD_REASONS, COMPILE_REASONS, JSON_COLUMNS, TABLES, Column, Neutral, Table
from kernelscope.views.card.answer import recording_answer
from kernelscope.views.inspector.text import inspection_text

FOLDER = Path(__file__).resolve().parents[2] / "notebooks" / "recordings"
MARK = "Gehe1m"


def texts(recording: Recording) -> Iterator[tuple[str, str]]:
    """Every text of every table, and the metadata."""
    for table in TABLES:
        for column in TABLES[table].columns:
            if column.dtype in ("string", "category"):
                for value in recording.arrow(table).column(column.name).to_pylist():
                    if value is not None:
                        yield f"{table}.{column.name}", value
        held = recording.arrow(table)
        for field in held.schema:  # dictionaries may hold words that no row uses
            for chunk in held.column(field.name).chunks:
                for word in getattr(chunk, "dictionary", []):
                    yield f"{table}.{field.name}", str(word)
    yield "metadata", json.dumps(dict(recording.metadata))


def marked(rows: dict[str, list[dict[str, Any]]], how: Callable[[str, int], str],
           enumerations: bool = True) -> dict[str, list[dict[str, Any]]]:
    """Put marker words into every text column of every row, also where no file may have them."""
    # Events of unknown kinds cannot be named.
    for row in (*rows["graph_events"], *rows["launches"], *rows["activities"]):
        for column in ("exec_id", "source_event_id", "rebuild_of", "capture_event_id"):
            row.pop(column, None)
    rows["activities"][1]["graph_event_id"] = None
    number = 0
    for table, records in rows.items():
        for record in records:
            for column in TABLES[table].columns:
                if column.dtype in ("string", "category") and (enumerations or not column.is_enumeration):
                    number += 1
                    text = how(MARK, number)
                    is_json = column.name in JSON_COLUMNS
                    record[column.name] = json.dumps({text: [text, {text: text}]}) if is_json else text
    return rows


HOW: list[Callable[[str, int], str]] = [
    lambda mark, at: f"{mark}{at}",
    lambda mark, at: f"({mark}{at}, array({mark}, 1d, C), Record({mark}[type=int32;offset=0];4;False))",
    lambda mark, at: f"<ipython-input-3-{mark}>",
    lambda mark, at: f"NVIDIA {mark}",
    lambda mark, at: f"TypeError: {mark} {at}",
    lambda mark, at: f"/home/{mark}/x.py\n{mark}",
    lambda mark, at: f"Literal[str]('{mark} and {mark}{at}')",
    lambda mark, at: f"cu {mark}",
    lambda mark, at: f"*{mark}, {mark}[0]",
]


@pytest.mark.parametrize("how", HOW)
def test_no_word_survives_in_any_column(rows: Any, recording_of: Any, how: Callable[[str, int], str]) -> None:
    given = recording_of(marked(rows, how), name=MARK, platform=f"Linux-{MARK}", created=MARK, python=f"3.{MARK}",
                         probes=[MARK], packages={MARK: "1", "numpy": MARK}, gpu={"source": MARK, MARK: MARK},
                         detail=MARK, driver_version=MARK, clock={"host_ns": MARK, MARK: 1}, **{MARK: MARK})
    held = {where for where, text in texts(given) if MARK in text}
    assert held >= {f"{table}.{column.name}" for table in TABLES for column in TABLES[table].columns
                    if column.dtype in ("string", "category")}
    for shown in (redact(given), redacted(given)):
        assert [(where, text) for where, text in texts(shown) if MARK.lower() in text.lower()] == []


@pytest.mark.parametrize("how", HOW)
def test_what_is_left_of_any_words_is_a_recording(rows: Any, recording_of: Any, how: Callable[[str, int], str]) -> None:
    given = recording_of(marked(rows, how, enumerations=False))
    for shown in (redact(given), redacted(given)):
        check_tables({name: shown.arrow(name) for name in TABLES})


def test_every_redaction_that_the_schema_names_exists_and_is_of_a_text() -> None:
    for table in TABLES.values():
        for column in table.columns:
            assert isinstance(column.redaction, Neutral) or column.redaction in RULES, (table.name, column.name)
            assert not column.redaction or column.dtype in ("string", "category"), (table.name, column.name)


def test_a_column_of_which_the_schema_says_nothing_is_emptied(full: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {name: replace(table, columns=tuple(
        column._replace(redaction="") if (name, column.name) in (("cells", "name"), ("ranges", "name")) else column
        for column in table.columns)) for name, table in TABLES.items()}
    monkeypatch.setattr(redact_module, "TABLES", tables)
    shown = redact(full)
    assert {row["name"] for row in full.rows("cells")} != {None} == {row["name"] for row in shown.rows("cells")}
    assert [row["name"] for row in shown.rows("ranges")] == ["", "withheld"]


def test_numbers_stay(full: Recording) -> None:
    shown = redact(full)
    for table in TABLES:
        for column in TABLES[table].columns:
            if column.dtype not in ("string", "category") and table != "code":
                assert shown.arrow(table).column(column.name).equals(full.arrow(table).column(column.name))
    assert shown.rows("code") == []


def test_names_are_neutral_and_stay_distinct(full: Recording) -> None:
    shown = redact(full)
    assert [row["name"] for row in shown.rows("dispatchers")] == ["kernel_1", "kernel_2"]
    first = shown.rows("dispatchers")[0]
    assert (first["module"], first["filename"], first["arguments"]) == (
        "module_1", "file_1.py", "argument_1, argument_2, *argument_3")
    assert json.loads(first["options"]) == {"fastmath": True}
    assert len(first["code_sha256"]) == 64 and first["code_sha256"] != full.rows("dispatchers")[0]["code_sha256"]
    assert [row["name"] for row in shown.rows("activities")] == ["stream synchronize", "kernel_1"]
    compilation = shown.rows("compilations")[0]
    assert (compilation["argument"], compilation["cache_file"], compilation["cache_data_file"]) == (
        "argument_2", "cache_1.nbi", "cache_data_1.nbc")
    assert shown.rows("specializations")[0]["entry_name"] == shown.rows("activities")[1]["entry_name"] == "entry_1"
    assert shown.rows("specializations")[0]["launch_config"] == '{"griddim": [1, 1, 1]}'
    assert shown.rows("launches")[1]["error"] == "TypeError"
    assert shown.rows("devices")[0]["name"] == "NVIDIA H100"
    assert dict(shown.metadata) == {
        "name": "redacted", "redacted": True, "schema_version": 1, "dry_run": False, "probes": [],
        "packages": {"numba-cuda": "0.30.4"}, "clock": {"host_ns": 10, "wall_ns": 10**18, "error_ns": 5}}


def test_graphs_and_builds_keep_the_words_that_are_known(full: Recording) -> None:
    shown = redact(full)
    assert [row["name"] for row in shown.rows("graph_nodes")] == ["kernel_1", None, "HtoD", "function_2"]
    assert shown.rows("graph_nodes")[0]["entry_name"] == shown.rows("activities")[1]["entry_name"]
    first, second = shown.rows("graphs")
    assert first["topology"] == second["topology"] != full.rows("graphs")[0]["topology"]
    assert len({first["fingerprint"], second["fingerprint"], full.rows("graphs")[0]["fingerprint"]}) == 3
    failed = shown.rows("graph_events")[3]
    assert (failed["api"], failed["error"], failed["change"], failed["changes"]) == (
        "cuGraphInstantiateWithParams", "CUDA_ERROR_INVALID_VALUE", "configuration", None)
    build = shown.rows("builds")[1]
    assert json.loads(build["key_parts"]) == {"operator": "value_1", "dtype": "value_2"}
    assert (build["algorithm"], build["differing_parts"], build["reason_code"], build["reason"], build["fix"]) == (
        "reduce_into", "operator, dtype", "new_operator", None, None)
    assert shown.rows("builds")[0]["algorithm"] == "algorithm_1"


def test_variables_in_a_build_caches_key_are_named_neutrally(rows: Any, recording_of: Any) -> None:
    rows["builds"][1].update(differing_parts="op captured Gehe1m, d_in op 2 name, op captured kind, Gehe1m",
                             key_parts=json.dumps({"op captured Gehe1m": "Gehe1m", "d_in dtype": ["Gehe1m"]}))
    build = redact(recording_of(rows)).rows("builds")[1]
    assert build["differing_parts"] == "op captured part_1, d_in op 2 name, op captured part_2, part_1"
    assert json.loads(build["key_parts"]) == {"op captured part_1": "value_1", "d_in dtype": "value_2"}


@pytest.mark.parametrize(("error", "left"), [
    ("CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE: CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED at Gehe1m",
     "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE: CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED"),
    ("CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED", "CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED"),
    ("CUresult 700", "CUresult 700"), ("Gehe1m CUDA_ERROR_X", "Error_1"),
])
def test_the_drivers_words_stay(error: str, left: str, rows: Any, recording_of: Any) -> None:
    rows["graph_events"][3]["error"] = error
    assert redact(recording_of(rows)).rows("graph_events")[3]["error"] == left


def test_what_is_redacted_stays_what_it_was(full: Recording, assert_same: Any) -> None:
    before = {name: full.rows(name) for name in TABLES}
    redact(full)
    assert {name: full.rows(name) for name in TABLES} == before
    once = redact(full)
    assert_same(once, redact(full))


def test_what_is_left_opens_merges_and_renders(tmp_path: Path) -> None:
    shown = redacted(everything())
    again = load(shown.save(tmp_path / "redacted.kscope"))
    assert again.rows("launches") == shown.rows("launches")
    assert "kernel_1" in again.summary() and "axpy" not in again.summary()
    assert "kernel_1" in again._repr_html_()
    assert "kernel_2" in inspection_text(again)
    assert len(merge([again, again]).cells) == 2 * len(again.cells)
    assert select_cell(again, 0).rows("cells")[0]["name"] == "cell_1"
    assert "redacted" in again.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(again.by_range()) == len(everything().by_range())


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.kscope")), ids=lambda path: path.stem)
def test_recordings_of_a_gpu_say_the_same_of_their_numbers(path: Path) -> None:
    recording = load(path)
    shown = redacted(recording)
    # An algorithm of cuda.compute has the library's own name.
    names = {row["name"] for row in recording.rows("dispatchers") if row["framework"] != "cuda.compute"} | {
        row["name"] for row in recording.rows("ranges") if row["name"]}
    for where, text in texts(shown):
        assert text not in names, where
    kept = set(recording.column("activities", "name")) & set(shown.column("activities", "name"))
    assert kept <= {"HtoD", "DtoH", "DtoD", "memset", "stream synchronize", "event synchronize", "context synchronize"}
    assert set(shown.column("passes", "name")) == set(recording.column("passes", "name"))
    assert shown.column("compilations", "reason_code").tolist() == explain(recording).column(
        "compilations", "reason_code").tolist()


@pytest.mark.parametrize(("text", "neutral"), [
    ("(array(float32, 2d, C), int64, readonly unaligned array(bool, 1d, A))", None),
    ("(UniTuple(int64 x 3), Optional(float32), omitted(default=None), none, complex128)", None),
    ("(Record(mass[type=float32;offset=0],x[type=nestedarray(float64, (2,));offset=4];20;False),)",
     "(Record(name_1[type=float32;offset=0],x[type=nestedarray(float64, (2,));offset=4];20;False),)"),
    ("(IntEnumMember<Shade>(int64), IntEnumMember<Shade>(int64))",
     "(IntEnumMember<name_1>(int64), IntEnumMember<name_1>(int64))"),
    ("(Literal[str](dog), Literal[int](5), float8_e4m3fn)", "(Literal[str](name_1), Literal[int](5), float8_e4m3fn)"),
    ("größe", "name_1"),
])
def test_types_keep_numba_s_words(text: str, neutral: str | None) -> None:
    assert neutral_types(Names(), text) == (text if neutral is None else neutral)


def forget_tables() -> None:
    for made in (arrow_schema, empty_table):
        made.cache_clear()


@pytest.fixture
def changing_schema(request: pytest.FixtureRequest) -> Iterator[pytest.MonkeyPatch]:
    """For a test that changes the schema, which Arrow's tables are otherwise made from once."""
    request.addfinalizer(forget_tables)
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def test_an_empty_recording_and_a_table_with_a_new_column(changing_schema: pytest.MonkeyPatch) -> None:
    assert redact(Recording({}, {})).rows("cells") == []
    threads = TABLES["threads"]
    changing_schema.setitem(TABLES, "threads", Table("threads", threads.row, (
        *threads.columns, Column("secret", "string", "text", "New.", nullable=True),
        Column("secret_word", "category", "word", "New, and never null."))))
    forget_tables()
    row = {"thread_id": 0, "ident": 1, "name": MARK, "secret": MARK, "secret_word": MARK}
    shown = redact(Recording({"threads": table_of_rows("threads", [row])}, {}))
    assert shown.rows("threads") == [
        {"thread_id": 0, "ident": 1, "name": "thread_1", "process_id": None, "secret": None, "secret_word": "withheld"}]


LISTED = [(table.name, column) for table in TABLES.values() for column in table.columns
          if column.values and table.name != "code"]


@pytest.mark.parametrize(("table", "column"), LISTED, ids=lambda each: each if isinstance(each, str) else each.name)
def test_every_value_that_the_schema_lists_stays(table: str, column: Column, full: Recording) -> None:
    first = full.rows(table)[0]
    tables = {name: full.arrow(name) for name in TABLES}
    tables[table] = table_of_rows(table, [{**first, column.name: value} for value in column.values])
    for shown in (redact(Recording(tables, {})), without_texts(Recording(tables, {}))):
        assert shown.arrow(table).column(column.name).to_pylist() == list(column.values)


def test_what_is_not_listed_is_refused_in_enumerations_only(full: Recording, tmp_path: Path) -> None:
    for table, column in LISTED:
        rows = [{**row, column.name: "Gehe1m"} for row in full.rows(table)]
        changed = Recording({**full.tables, table: table_of_rows(table, rows)}, full.metadata)
        if not column.is_enumeration:
            check_tables(changed.tables)
            continue
        with pytest.raises(RecordingFileError, match=rf"column {table}.{column.name} has 'Gehe1m' in row 0, which is "
                                                     rf"none of {column.values[0]}, "):
            changed.save(tmp_path / "x.kscope")


def test_unfinished_cells_and_launches_and_tunings_from_disk_are_counted_alike() -> None:
    script = Script()
    script.launchable()
    script.cell(status="unfinished")
    script.launch(end_ns=None, error="unfinished")
    script.launch(error="TypeError")
    script.launch()
    tried = script.tuning({"n": "1024"}, (0.3, None))
    script.rows["builds"][tried]["attributes"] = script.rows["builds"][tried]["attributes"].replace(
        "OutOfResources", "OutOfResources: Gehe1m")
    script.tuning({"n": "2048"}, outcome="disk")
    for outcome in TABLES["builds"].column("outcome").values:
        script.build(outcome=outcome)
    recording = script.recording()
    whole, bare = (recording_answer(each) for each in (recording, redacted(recording)))
    assert whole["counts"]["errors"] == 1
    for part in ("counts", "gpu", "time"):
        assert bare.get(part) == whole.get(part)
    for part, members in (("builds", ("requests", "hits", "misses", "waits", "failed")),
                          ("tunings", ("trials", "duration_ns", "compile_ns", "reason_code"))):
        assert [[row.get(name) for name in members] for row in bare[part]] == [
            [row.get(name) for name in members] for row in whole[part]], part
    assert [row["outcome"].partition(" for ")[0] for row in bare["tunings"]] == [
        row["outcome"].partition(" for ")[0] for row in whole["tunings"]]
    assert recording.summary().count("unfinished") == redacted(recording).summary().count("unfinished") > 0
    assert "Gehe1m" not in json.dumps(bare) + str(recording.redacted(names=False).rows("builds"))


def test_every_reason_keeps_its_code() -> None:
    made = Script()
    made.kernel()
    for code in COMPILE_REASONS:
        made.compilation(reason_code=code)
    for code in BUILD_REASONS:
        made.build("reduce", reason_code=code)
    shown = redacted(made.recording())
    assert shown.column("compilations", "reason_code").tolist() == list(COMPILE_REASONS)
    assert shown.column("builds", "reason_code").tolist() == list(BUILD_REASONS)
