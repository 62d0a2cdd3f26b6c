"""The benchmark process: its protocol, on the dry run, in an interpreter of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench_process import Bench, clean_environ, empty_kernel

from kernelscope.studies import process


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """Start benchmark processes; they end with the test."""
    made: list[Bench] = []

    def start_one(**options: Any) -> Bench:
        made.append(Bench(tmp_path, **options))
        return made[-1]

    yield start_one
    for bench in made:
        bench.process.kill()
        bench.process.wait()
        bench._reader.close()
        if not bench._writer.closed:
            bench._writer.close()


@pytest.fixture
def bench(started: Callable[..., Bench]) -> Bench:
    """A process that has said hello."""
    made = started()
    assert made.hello()["ok"]
    return made


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A process that has said hello, and that answers several tests."""
    made = Bench(tmp_path_factory.mktemp("asked"))
    assert made.hello()["ok"]
    yield made
    made.close()


def test_hello_says_what_is_measured_and_the_process_pins_itself_when_it_is_timed_first(
        started: Callable[..., Bench]) -> None:
    allowed = os.sched_getaffinity(0)
    core = max(allowed)
    bench = started()
    hello = bench.hello(pin=[core])
    import numba.cuda
    import numba_cuda

    assert hello["ok"]
    assert hello["framework"] == "numba-cuda"
    assert hello["versions"]["numba-cuda"] == numba_cuda.__version__
    assert {"python", "numba", "numpy", "cuda-core", "cuda-bindings"} <= set(hello["versions"])
    assert hello["module"] == os.path.dirname(str(numba.cuda.__file__))
    assert hello["is_dry_run"] is True
    assert hello["gpu"] == {"name": "KernelScope dry run", "cuda": "13.0"}
    assert (hello["pinned_to"], hello["pin_error"]) == ([core], None)
    assert 0 < hello["clock_resolution_ns"] < 10_000
    assert 0 < hello["clock_read_ns"] < 10_000
    bench.must("prepare", case=empty_kernel(), batch_ms=1)
    assert os.sched_getaffinity(bench.process.pid) == allowed
    bench.must("batch", case="0 args", loops=5)
    assert os.sched_getaffinity(bench.process.pid) == {core}


def test_cases_from_hello_to_bye(bench: Bench) -> None:
    for arguments in (0, 2):
        prepared = bench.must("prepare", case=empty_kernel(arguments), batch_ms=3)
        assert prepared["loops"] > 20
        assert prepared["warm_batches"] >= 6
        assert prepared["limited"] == ""
        batch = bench.must("batch", case=f"{arguments} args", loops=100)
        assert 100 * 500 < batch["host_ns"] < 1e9
        assert 0 < batch["sync_ns"] < 1e9
    setup = "@cuda.jit\ndef kernel(a):\n    pass\nhost = np.zeros(3)\n"
    bench.must("prepare", case={"name": "host", "setup": setup, "statement": "kernel[1, 1](host)"}, batch_ms=1)
    setup = "import subprocess\nsubprocess.Popen(['sleep', '5'], close_fds=False)"
    bench.must("prepare", case={"name": "parent", "setup": setup, "statement": "1"}, batch_ms=0.1)
    assert 0 <= bench.must("noise", ms=5)["lost"] < 1
    assert bench.must("bye") == {"ok": True}
    assert bench._reader.readline() == ""  # the end of the file: no child of the target has the other end
    assert bench.process.wait(60) == 0
    assert bench.output.read_text() == ""  # also no advice on host arrays and grids of one block


def test_the_target_s_path_is_what_it_always_is_and_its_output_no_answer(bench: Bench) -> None:
    case = {"name": "look", "setup": "import sys\nprint(sys.path, sys.argv)", "statement": "1"}
    bench.must("prepare", case=case, batch_ms=0.1)
    alone = subprocess.run([sys.executable, "-c", "import sys; print(sys.path[1:], sys.argv)"], env=clean_environ(),
                           capture_output=True, text=True, check=True)
    assert bench.output.read_text() == alone.stdout
    case = {"name": "loud", "setup": "import os; os.write(2, b'raw\\n')", "statement": "print('{\"ok\": 1}')"}
    bench.must("prepare", case=case, batch_ms=0.05)
    assert "host_ns" in bench.must("batch", case="loud", loops=1)
    assert bench.output.read_text().startswith(f"{alone.stdout}raw\n{{")


@pytest.mark.parametrize("name", ["bench", "timed", "main", "case", "studies", "target"])
def test_no_module_of_ours_hides_one_of_the_target(asked: Bench, name: str) -> None:
    answer = asked.ask("prepare", case={"name": "look", "statement": "1", "needs": [name]})
    assert answer["kind"] == "unavailable"


@pytest.mark.parametrize(("fields", "kind", "said"), [
    ({"setup": "raise Unavailable('not in this version')"}, "unavailable", "not in this version"),
    ({"needs": ["no_such_module"]}, "unavailable", "needs no_such_module: ModuleNotFoundError"),
    ({"setup": "x = nothing"}, "error", "case 'sad', setup, line 1 (x = nothing): NameError: name 'nothing'"),
    ({"setup": "raise SystemExit(3)"}, "error", "case 'sad', setup, line 1 (raise SystemExit(3)): SystemExit: 3"),
    ({"statement": "raise KeyboardInterrupt"}, "error", "KeyboardInterrupt"),
    ({"statement": "x ="}, "error", "case 'sad', statement, line 1 (x =): SyntaxError: invalid syntax"),
    ({"setup": "@cuda.jit\ndef kernel():\n    unknown()\n", "statement": "kernel[1, 1]()"}, "error",
     "case 'sad', statement, line 1 (kernel[1, 1]()): TypingError: "),
])
def test_a_sad_case_is_an_answer_and_the_process_goes_on(asked: Bench, fields: dict[str, Any], kind: str,
                                                         said: str) -> None:
    answer = asked.ask("prepare", case={"name": "sad", "statement": "1", **fields})
    assert (answer["ok"], answer["kind"]) == (False, kind)
    assert answer["error"].startswith(said)
    assert "\n" not in answer["error"]
    assert answer["traceback"].startswith(("Traceback", "  File"))
    assert asked.must("prepare", case=empty_kernel(), batch_ms=0.5)


@pytest.mark.parametrize(("request_", "said"), [
    ({"do": "dance"}, "a request to do 'dance' is not known; known: hello, prepare, batch, noise, anatomy, bye"),
    ({"do": "batch", "case": "none", "loops": 1}, "case 'none' is not prepared; prepared: "),
    ({"do": "prepare"}, "KeyError: 'case'"),
])
def test_a_wrong_request_is_answered(asked: Bench, request_: dict[str, Any], said: str) -> None:
    answer = asked.ask(**request_)
    assert (answer["ok"], answer["kind"]) == (False, "error")
    assert answer["error"].startswith(said)


def test_no_gpu_is_said_with_the_way_out(started: Callable[..., Bench]) -> None:
    answer = started().hello(dryrun=None, library=None)
    assert not answer["ok"]
    assert answer["error"].startswith("no CUDA GPU is available (")
    assert "dry_run=True, or --dryrun" in answer["error"]


def test_the_simulator_is_refused(started: Callable[..., Bench], tmp_path: Path) -> None:
    (tmp_path / ".numba_config.yaml").write_text("enable_cudasim: 1\n")
    answer = started().hello()
    assert not answer["ok"]
    assert answer["error"].startswith("the CUDA simulator is on (NUMBA_ENABLE_CUDASIM, or enable_cudasim in ")


def test_what_cannot_be_greeted_is_said_and_kernelscope_is_there_for_the_cases_that_need_it(
        started: Callable[..., Bench], tmp_path: Path) -> None:
    bench = started()
    assert "the first request must be a hello" in bench.ask("prepare", case=empty_kernel())["error"]
    assert bench.ask("hello", kernelscope=str(tmp_path))["error"] == f"there is no package kernelscope in {tmp_path}"
    answer = bench.hello(framework="numba-cuda-mlir")
    assert answer["error"] == (f"numba-cuda-mlir is not installed for {sys.executable}: "
                               "pip install 'numba-cuda-mlir[cu13]' there")
    assert bench.hello(framework="cupy")["error"] == (
        "framework 'cupy' is not known; known: numba-cuda, numba-cuda-mlir")
    bench.hello(kernelscope=process.package_folder())
    setup = "import kernelscope.schema\nprint(kernelscope.__file__)"
    bench.must("prepare", case={"name": "recorded", "setup": setup, "statement": "1",
                                "needs": ["kernelscope.schema"]}, batch_ms=0.1)
    assert bench.output.read_text() == f"{process.package_folder()}/kernelscope/__init__.py\n"


def test_a_framework_that_breaks_on_import_is_said_with_its_versions(started: Callable[..., Bench],
                                                                     tmp_path: Path) -> None:
    package = tmp_path / "path" / "numba_cuda" / "numba" / "cuda"
    package.mkdir(parents=True)
    for folder in (package.parent.parent, package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "__init__.py").write_text("import numba\nnumba.no_such_thing\n")
    answer = started(environ={"PYTHONPATH": str(tmp_path / "path")}).hello()
    assert f"numba-cuda cannot be imported by {sys.executable}, with numba-cuda " in answer["error"]
    assert "AttributeError: module 'numba' has no attribute 'no_such_thing'" in answer["error"]


def test_it_ends_when_the_pipe_is_closed(bench: Bench) -> None:
    bench._writer.write('{"do": "prepare", "case": {"name": "slow", "setup": "import time; time.sleep(0.3)", '
                        '"statement": "1"}}\n')
    assert bench.close() == 0


def test_a_crash_is_in_the_output(bench: Bench) -> None:
    with pytest.raises(AssertionError, match="the process died"):
        bench.ask("prepare", case={"name": "crash", "statement": "import ctypes; ctypes.string_at(0)"})
    assert bench.process.wait(60) == -signal.SIGSEGV
    text = bench.output.read_text()
    assert "Fatal Python error: Segmentation fault" in text
    assert "<case 'crash': statement>" in text


def test_the_command_names_no_current_folder(tmp_path: Path) -> None:
    """A module in the current folder is not taken for one of the target's."""
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "importlib.py").write_text("raise SystemExit('shadowed')")
    read, write = os.pipe()
    os.close(write)
    done = subprocess.run([*process.command(Path(sys.executable)), str(read), "1"], pass_fds=(read,),
                          cwd=tmp_path, env=clean_environ(), capture_output=True, text=True, timeout=600, check=False)
    os.close(read)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

