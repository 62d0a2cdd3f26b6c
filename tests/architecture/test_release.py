"""What a release promises and consists of: public names, files of earlier schemas, the source distribution."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import promised
import pytest
import yaml

import kernelscope
from kernelscope.commands import cli, study
from kernelscope.features.compare.command import OVER
from kernelscope.schema import SCHEMA_VERSION, TABLES

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PROMISES = (DOCS / "reference" / "promises.md").read_text(encoding="utf-8")
FORGE = ROOT / ".github"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_what_was_promised_is_there() -> None:
    """docs/reference/promises.md says how a name goes; before 1.0 its line in the file is taken out by hand."""
    assert promised.gone(json.loads(promised.FILE.read_text(encoding="utf-8")), promised.promised()) == []


def test_what_goes_and_what_changes_is_found() -> None:
    now = promised.promised()
    before = json.loads(json.dumps(now))
    assert promised.gone(before, now) == []
    now["columns"]["devices"] = [line.replace("int32", "int64") for line in now["columns"]["devices"]]
    del now["names and their arguments"]["kernelscope.load"]
    now["magics"]["save"] = []
    now["magics"]["new"] = ["--new"]
    assert promised.gone(before, now) == [
        "names and their arguments: kernelscope.load",
        *(f"columns: devices {line}" for line in before["columns"]["devices"] if "int32" in line),
        *(f"magics: save {word}" for word in before["magics"]["save"])]
    kept = json.loads(promised.written(before, now))
    assert promised.gone(before, kept) == [] and kept["magics"]["new"] == ["--new"]


def test_every_exit_code_is_documented() -> None:
    codes = {0, cli._BROKEN_PIPE, cli._INTERRUPTED, OVER, study.FAILED, study.WRONG, study.OVER,
             study.INTERRUPTED}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", PROMISES, re.MULTILINE)} == codes
    guide = (DOCS / "guides" / "command-line.md").read_text(encoding="utf-8").partition("## Exit codes")[2]
    assert {int(code) for code in re.findall(r"\b\d+\b", guide)} == codes


def test_names_of_public_packages_are_documented() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    names = [name for room in promised.LISTED for name in getattr(kernelscope, room).__all__]
    assert [name for name in names if not re.search(
        rf"^\.\. (auto\w+|py:function):: kernelscope\.[\w.]*\b{name}\b", text, re.MULTILINE)] == []


def test_files_of_earlier_schemas_open_and_lack_only_what_came_later() -> None:
    found: dict[int, Path] = {}
    for path in sorted((ROOT / "notebooks" / "recordings").glob("*.kscope")):
        with zipfile.ZipFile(path) as archive:
            found[json.loads(archive.read("manifest.json"))["schema_version"]] = path
    said = re.search(r"Schemas 1 to (\d+) are read today; [^.]* written with ([\d, and]+)\.", PROMISES)
    assert said is not None and int(said[1]) == SCHEMA_VERSION
    assert sorted(found) == [int(number) for number in re.findall(r"\d+", said[2])]
    for version, path in found.items():
        recording = kernelscope.load(path)
        assert len(recording.launches) > 0 and recording.summary()
        for name, table in TABLES.items():
            assert table.since <= version or not recording.rows(name)
        assert [*recording.arrow("launches").column_names] == [*TABLES["launches"].names]


def test_every_extra_is_in_the_installation_guide() -> None:
    guide = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", guide, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == {*PROJECT["optional-dependencies"]}


def tracked() -> set[str]:
    """The repository's files; where the tests run from a source distribution, those that it lists."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        return {name for name in listed.split("\0") if (ROOT / name).is_file()}
    listed = (ROOT / "kernelscope.egg-info" / "SOURCES.txt").read_text(encoding="utf-8")
    return {name for name in listed.splitlines() if not name.startswith("kernelscope.egg-info/")} - {"setup.cfg"}


def test_the_source_distribution_is_the_repository(tmp_path: Path) -> None:
    """Its own tests need nothing else. Files are empty where their content is nothing to setuptools: that is faster."""
    source = tmp_path / "source"
    names = tracked()
    for name in names:
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        is_read = "/" not in name or name == "kernelscope/__init__.py"
        target.write_bytes((ROOT / name).read_bytes() if is_read else b"")
    for name in ("kernelscope/native/_core.so", "frontend/node_modules/x/x.js", "tests/__pycache__/x.pyc"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).touch()
    code = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        held = {member.name.partition("/")[2] for member in archive if not member.isdir()}
    assert names - held == set()
    assert {name for name in held - names if not name.startswith("kernelscope.egg-info/")} == {"PKG-INFO", "setup.cfg"}


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_workflows_run_what_the_repository_has() -> None:
    ci, release = (loaded(FORGE / "workflows" / f"{name}.yml") for name in ("ci", "release"))
    for workflow in (ci, release):
        assert workflow["permissions"] == {"contents": "read"}
        for job in workflow["jobs"].values():
            assert "timeout-minutes" in job and job["runs-on"]
            assert all(("run" in step) != ("uses" in step) for step in job["steps"])
    assert ci["jobs"]["test"]["steps"][-1] == {"run": "bash .ci/run"} and (ROOT / ".ci" / "run").is_file()
    text = (FORGE / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert [*release["jobs"]] == ["sdist", "wheels", "check"]
    assert "make dist" in text and "cibuildwheel --platform linux" in text
    assert not re.search(r"twine upload|gh-action-pypi-publish|id-token", text)  # a person publishes
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^dist: .*## ", makefile, re.MULTILINE)
    folders = re.findall(r"tests/[\w/]+", text)
    assert folders and [name for name in folders if not (ROOT / name).is_dir()] == []


def test_the_forms_of_issues_are_forms() -> None:
    """https://docs.github.com: syntax for issue forms and for GitHub's form schema."""
    forms = sorted(path for path in (FORGE / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
    assert [path.stem for path in forms] == ["bug", "feature", "wrong-number"]
    for path in forms:
        form = loaded(path)
        assert {*form} == {"name", "description", "labels", "body"} and all(form.values())
        ids = [field["id"] for field in form["body"]]
        assert len(ids) == len({*ids}) > 2
        for field in form["body"]:
            assert {*field} <= {"type", "id", "attributes", "validations"}
            assert field["type"] in ("input", "textarea") and field["attributes"]["label"]
            assert {*field["attributes"]} <= {"label", "description", "render"}
            assert field.get("validations", {"required": True}) == {"required": True}
    template = (FORGE / "pull_request_template.md").read_text(encoding="utf-8")
    assert all((FORGE / link).exists() for link in re.findall(r"\]\((\S+?)\)", template))


def test_the_citation_names_this_version() -> None:
    citation = loaded(ROOT / "CITATION.cff")
    assert citation["version"] == kernelscope.__version__
    assert citation["license"] == PROJECT["license"]
    assert {"cff-version", "message", "title", "authors", "type"} <= {*citation}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_of_the_pages_beside_the_package_lead_somewhere(name: str) -> None:
    text = re.sub(r"^```.*?^```$", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = [link.partition("#")[0] for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text)]
    assert [link for link in links if link and not (ROOT / link).exists()] == []
