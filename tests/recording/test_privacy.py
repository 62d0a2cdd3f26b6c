from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelscope.recording.file import load, save
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.schema import JSON_COLUMNS, TABLES

Rows = dict[str, list[dict[str, Any]]]
Make = Callable[..., Recording]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A home folder with a blank in its name, and a working folder inside it."""
    home = tmp_path / "homes" / "ännie lee"
    work = home / "secret project"
    work.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    return str(home), str(work)


def _everywhere(rows: Rows, text: str) -> Rows:
    """The rows with `text` in every text that is neither JSON nor an enumeration's, and inside every JSON."""
    for name, table in TABLES.items():
        for row in rows[name]:
            for column in table.columns:
                if column.name in JSON_COLUMNS:
                    row[column.name] = json.dumps({"deep": [{text: text}], "said": f"line\n{text}/x.py"})
                elif column.is_path:
                    row[column.name] = f"{text}/file.py"
                elif column.dtype in ("string", "category") and not column.is_enumeration:
                    row[column.name] = f"at {text}/file.py:3\n{text}"
    return rows


def _texts(recording: Recording) -> str:
    tables = "".join(str(recording.rows(name)) for name in TABLES)
    return tables + json.dumps(dict(recording.metadata), ensure_ascii=False)


def test_no_text_leads_home(folders: tuple[str, str], rows: Rows, recording_of: Make, tmp_path: Path) -> None:
    home, work = folders
    for folder in (home, work):
        recording = recording_of(_everywhere(rows, folder), executable=f"{folder}/bin/python", deep=[{folder: folder}])
        content = _texts(load(save(recording, tmp_path / "cut.kscope")))
        assert home not in content
        assert "lee" not in content
        assert "secret project" not in content
        assert json.dumps(home)[1:-1] not in content
        # The bytes too, where nothing is compressed: the manifest.
        assert b"homes" not in (tmp_path / "cut.kscope").read_bytes()


def test_everything_stays_on_request(folders: tuple[str, str], rows: Rows, recording_of: Make, tmp_path: Path,
                                     assert_same: Callable[[Recording, Recording], None]) -> None:
    recording = recording_of(_everywhere(rows, folders[1]), executable=folders[0])
    assert_same(load(save(recording, tmp_path / "whole.kscope", paths=True)), recording)


@pytest.mark.parametrize(("path", "name"), [
    ("/home/ann/project/kernels.py", "kernels.py"), ("C:\\Users\\ann\\kernels.py", "kernels.py"),
    ("/home/ann/folder/", "folder"), ("<ipython-input-3-0123>", "<ipython-input-3-0123>"), ("In[3]", "In[3]"),
    ("kernels.py", "kernels.py"), ("", ""), ("../x/y.py", "y.py"), ("/tmp/ipykernel_7/123.py", "123.py"),
])
def test_path_columns_keep_the_file_name(path: str, name: str, rows: Rows, recording_of: Make, tmp_path: Path) -> None:
    rows["dispatchers"][0]["filename"] = rows["compilations"][0]["cache_file"] = path
    loaded = load(save(recording_of(rows), tmp_path / "x"))
    assert loaded.rows("dispatchers")[0]["filename"] == name
    assert loaded.rows("compilations")[0]["cache_file"] == name
    assert loaded.rows("dispatchers")[1]["filename"] is None


@pytest.mark.parametrize(("said", "kept"), [
    ("cannot open /opt/data/x.npy", "cannot open x.npy"),
    ("'/opt/conda/lib/python3.11/site-packages/numba/core.py:3'", "'core.py:3'"),
    ("/data/a/b.py, /data/c", "b.py, c"),
    ("a=/opt/x/y;b", "a=y;b"),
    ("file:///opt/x/y.py", "y.py"),
    ("line\n/opt/x/y.py", "line\ny.py"),
    ("D:\\work\\ann\\y.py failed", "y.py failed"),
    ("see https://example.org/a/b/c", "see https://example.org/a/b/c"),
    ("300 ns/launch, 1/2, and/or", "300 ns/launch, 1/2, and/or"),
    ("a / b / c", "a / b / c"),
    ("//", "//"),
    ("[Errno 2] No such file: '/data/her b/x.npy'", "[Errno 2] No such file: 'x.npy'"),
    ('in "C:\\\\her b\\\\x.npy" and \'/\'', 'in "x.npy" and \'/\''),
    ("~/of hers/x.npy ~/her/x.npy ./sub/x.npy ./x.npy", "~/of hers/x.npy x.npy x.npy ./x.npy"),
    ("", ""),
])
def test_texts_json_and_metadata_keep_the_file_name(said: str, kept: str, rows: Rows, recording_of: Make) -> None:
    texts = (("cells", "error"), ("compilations", "fix"), ("health", "message"), ("launches", "error"),
             ("cells", "name"), ("ranges", "name"), ("ranges", "domain"), ("ranges", "payload"), ("threads", "name"),
             ("processes", "worker"), ("processes", "host"), ("operators", "name"), ("dispatchers", "module"))
    for table, column in texts:
        rows[table][0][column] = said
    rows["dispatchers"][0]["options"] = json.dumps({"a": [said]})
    recording = recording_of(rows, deep={"x": [said, 1, None, True]})
    cut = shareable(recording)
    assert {f"{table}.{column}": cut.rows(table)[0][column] for table, column in texts} == {
        f"{table}.{column}": kept for table, column in texts}
    assert json.loads(cut.rows("dispatchers")[0]["options"]) == {"a": [kept]}
    assert cut.metadata["deep"] == {"x": [kept, 1, None, True]}


def test_source_keeps_what_its_author_typed(rows: Rows, recording_of: Make, folders: tuple[str, str]) -> None:
    rows["cells"][0]["source"] = f"a = load('/data/set/a.npy')\nb = load('{folders[0]}/b.npy')"
    rows["lines"][0]["text"] = rows["cells"][0]["source"]
    cut = shareable(recording_of(rows))
    for text in (cut.rows("cells")[0]["source"], cut.rows("lines")[0]["text"]):
        assert text == "a = load('/data/set/a.npy')\nb = load('~/b.npy')"


def test_a_recording_without_paths_is_itself(full: Recording) -> None:
    assert shareable(full) is full


def test_what_has_no_paths_is_held_once_and_let_go(rows: Rows, recording_of: Make,
                                                   monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows["dispatchers"][0]["filename"] = "/opt/x/k.py"
    recording = recording_of(rows)
    cut = shareable(recording)
    assert shareable(recording) is cut
    assert shareable(cut) is cut
    assert shareable(recording, paths=True) is recording
    assert cut.arrow("launches") is recording.arrow("launches")
    monkeypatch.chdir(tmp_path)  # another working folder is another way to cut
    assert shareable(recording) is not cut
    held = weakref.ref(cut)
    del cut, recording
    gc.collect()
    assert held() is None


def test_paths_that_become_one_name_share_it(rows: Rows, recording_of: Make, tmp_path: Path) -> None:
    rows["launches"][0]["error"], rows["launches"][1]["error"] = "/opt/a/E", "/opt/b/E"
    loaded = load(save(recording_of(rows), tmp_path / "x"))
    assert loaded.arrow("launches").column("error").to_pylist() == ["E", "E", None]


def test_root_as_home_and_a_missing_working_folder(tmp_path: Path, full: Recording,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.setenv("HOME", "/")
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert load(save(full, tmp_path / "x.kscope")).rows("launches") == full.rows("launches")


def _code_after(recording_of: Make, rows: Rows, kind: str, text: str) -> list[str]:
    rows["code"] = [{"dispatcher_id": 0, "specialization_id": 0, "kind": kind, "text": text}]
    return [row["text"] for row in shareable(recording_of(rows)).rows("code")]


@pytest.mark.parametrize(("kind", "text", "cut"), [
    ("ptx", '\t.loc\t1 13 0\n\tret;\n\t.file\t1 "/data/her/k.py"', '\t.loc\t1 13 0\n\tret;\n\t.file\t1 "k.py"'),
    ("ptx", "x\n\t.section\t.debug_info\n\t{\n.b8 47\n\n\t}\n\t.section\t.debug_loc { }\ny",
     "x\n\t.section\t.debug_info\t// left out: it can hold paths\n\t.section\t.debug_loc { }\ny"),
    ("sass", '\t//## File "/d/a.py", line 8 inlined at "/d/her b/k.py", line 2\n  /*00a0*/ LDC.64 R10, c[0x0][0x238] ;',
     '\t//## File "a.py", line 8 inlined at "k.py", line 2\n  /*00a0*/ LDC.64 R10, c[0x0][0x238] ;'),
    ("mlir", '#loc1 = loc("/her b/k.py":11:0)', '#loc1 = loc("k.py":11:0)'),
    ("mlir", '#f = #llvm.di_file<"k.py" in "/data/her b">', '#f = #llvm.di_file<"k.py" in "">'),
    ("llvm", '!1 = !DIFile(directory: "/data/her", filename: "k.py")', '!1 = !DIFile(directory: "", filename: "k.py")'),
    ("llvm", '!1 = !DIFile(directory: "", filename: "/her b/k.py")', '!1 = !DIFile(directory: "", filename: "k.py")'),
    ("types", '[{"line": 3, "expr": "global(m: <module from /data/her/k.py>)"}]',
     '[{"line": 3, "expr": "global(m: <module from k.py>)"}]'),
    ("source", 'open("/data/her/k.py")', 'open("/data/her/k.py")'),
])
def test_code_keeps_the_names_of_files_only(rows: Rows, recording_of: Make, kind: str, text: str, cut: str) -> None:
    assert _code_after(recording_of, rows, kind, text) == [cut]
