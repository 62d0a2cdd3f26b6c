from __future__ import annotations

import os
from pathlib import Path

import pytest
from study_repositories import toy_checkout

from kernelscope.errors import StudyError
from kernelscope.studies.target import Target, framework_of, parse_target, parse_targets


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, with a checkout, one of another layout, a virtual environment, and other things."""
    toy_checkout(tmp_path / "numba cuda wt")
    toy_checkout(tmp_path / "mlir" / "src", package="numba_cuda_mlir")
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    for name in ("venv/bin/python", "python3.99"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "empty").mkdir()
    (tmp_path / "a=b").mkdir()
    toy_checkout(tmp_path / "a=b" / "wt")
    for name in ("notes.txt", "numba_cuda-0.31.0-py3-none-any.whl", "torch-2.0-py3-none-any.whl"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("text", "expected"), [
    ("current", Target("current")),
    ("baseline=current", Target("baseline")),
    ("numba cuda wt", Target("numba cuda wt", "checkout", "numba cuda wt")),
    ("v2=./numba cuda wt", Target("v2", "checkout", "./numba cuda wt")),
    ("~/numba cuda wt/", Target("numba cuda wt", "checkout", "~/numba cuda wt/")),
    ("mlir", Target("mlir", "checkout", "mlir")),
    ("a=b/wt", Target("wt", "checkout", "a=b/wt")),
    ("c=a=b/wt", Target("c", "checkout", "a=b/wt")),
    ("git:HEAD~3", Target("HEAD~3", "ref", "HEAD~3", "there")),
    ("git:HEAD@{1}", Target("HEAD@{1}", "ref", "HEAD@{1}", "there")),
    ("git:@~1", Target("@~1", "ref", "@~1", "there")),
    ("old = git:numba cuda wt@v0.29@{1}", Target("old", "ref", "v0.29@{1}", "numba cuda wt")),
    ("git:~/a=b/wt@feature/x", Target("feature/x", "ref", "feature/x", "~/a=b/wt")),
    ("numba-cuda==0.29.0", Target("numba-cuda==0.29.0", "requirement", "numba-cuda==0.29.0")),
    ("numba-cuda[cu12] >= 0.29, <0.30; python_version>='3.9'",
     Target("numba-cuda>=0.29,<0.30", "requirement", "numba-cuda[cu12] >= 0.29, <0.30; python_version>='3.9'")),
    ("Numba_CUDA", Target("Numba_CUDA", "requirement", "Numba_CUDA")),
    ("mlir=numba-cuda-mlir==0.6.0", Target("mlir", "requirement", "numba-cuda-mlir==0.6.0")),
    ("numba-cuda===0.29.0", Target("numba-cuda===0.29.0", "requirement", "numba-cuda===0.29.0")),
    ("numba-cuda @ git+https://example.com/x?a=b", Target("numba-cuda", "requirement",
                                                            "numba-cuda @ git+https://example.com/x?a=b")),
    ("numba_cuda-0.31.0-py3-none-any.whl", Target("numba_cuda-0.31.0", "requirement",
                                                  "numba_cuda-0.31.0-py3-none-any.whl")),
    ("venv", Target("venv", "python", "venv")),
    ("./venv/bin/python", Target("venv", "python", "./venv/bin/python")),
    ("new=python3.99", Target("new", "python", "python3.99")),
    ("python3.99", Target("python3.99", "python", "python3.99")),
])
def test_text_is_a_target(places: Path, text: str, expected: Target) -> None:
    assert parse_target(text, repo="there") == expected


@pytest.mark.parametrize(("text", "problem"), [
    ("", "is empty: it must be current, a folder"),
    ("v2=", "says nothing after its label"),
    ("=current", "target '=current' is none of the targets there are"),
    ("x" * 61 + "=current", "a label has at most 60 characters, and this one 61"),
    ("empty", "is a folder without the source of numba-cuda"),
    ("notes.txt", "is a file that cannot be executed"),
    ("torch-2.0-py3-none-any.whl", "is a wheel of neither"),
    ("./nowhere", "there is no such file or folder (for a git ref write git:./nowhere)"),
    ("feature/x", "there is no such file or folder (for a git ref write git:feature/x)"),
    ("v2=HEAD~3", "target 'HEAD~3' is none of the targets there are: current, a folder"),
    ("torch==2.0", "target 'torch==2.0' is none of the targets there are"),
    ("numba-cudax", "is none of the targets"),
    ("git:", "names no ref: write git:HEAD~, for instance"),
    ("git:./numba cuda wt", "names no ref: write git:./numba cuda wt@HEAD"),
    ("git:./nowhere@HEAD", "there is no folder './nowhere'"),
    ("git:empty@", "names no ref: write git:empty@HEAD"),
    ("git:--output=x", "a git ref cannot begin with a dash"),
])
def test_wrong_texts_are_refused_in_one_line(places: Path, text: str, problem: str) -> None:
    with pytest.raises(StudyError) as refused:
        parse_target(text)
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


def test_targets_keep_their_order_and_may_be_made_already(places: Path) -> None:
    made = Target("mine", "python", "venv")
    assert [each.label for each in parse_targets(["git:HEAD", made, "current"])] == ["HEAD", "mine", "current"]


def test_labels_are_unique_and_there_is_a_target(places: Path) -> None:
    with pytest.raises(StudyError, match=r"two targets are called 'current' .* again=current"):
        parse_targets(["current", "current"])
    with pytest.raises(StudyError, match=r"called 'x' \(this environment and HEAD of \.\): .* again=git:HEAD"):
        parse_targets(["x=current", "x=git:HEAD"])
    with pytest.raises(StudyError, match="a study needs a target"):
        parse_targets([])
    assert len(parse_targets(["a=current", "b=current"])) == 2


@pytest.mark.parametrize(("text", "framework"), [
    ("numba-cuda", "numba-cuda"), ("numba.cuda[cu13]~=0.30", "numba-cuda"), ("numba_cuda_mlir>=0.5", "numba-cuda-mlir"),
    ("dir/numba_cuda_mlir-0.6.0-cp312-cp312-linux_x86_64.whl[cu13]", "numba-cuda-mlir"),
    ("numba", None), ("-r requirements.txt", None), ("", None), (f"numba-cuda{os.sep}x", None), ("numba-cuda x", None),
])
def test_framework_of_a_requirement(text: str, framework: str | None) -> None:
    assert framework_of(text) == framework


def test_a_folder_whose_name_is_no_text_has_a_label_that_is(tmp_path: Path) -> None:
    (tmp_path / "fol\udcffder" / "numba_cuda").mkdir(parents=True)
    (tmp_path / "fol\udcffder" / "numba_cuda" / "__init__.py").touch()
    target = parse_target(str(tmp_path / "fol\udcffder"))
    assert target.label == "fol\\udcffder" and Path(target.value).is_dir()
    assert parse_target("l\udcff=current").label == "l\\udcff"
