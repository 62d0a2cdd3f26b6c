"""The direction of imports: the contracts of import-linter, and what importing the package must not load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("numba", "cuda", "cupti", "nvtx", "pandas", "pyarrow", "numpy", "plotly", "IPython", "ipywidgets", "anywidget")


def test_imports_point_down_only() -> None:
    run = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()",
         "--no-cache", "--no-logo", "--config", str(ROOT / "pyproject.toml")],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "0 broken" in run.stdout


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = f"import sys, kernelscope; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    assert _python(code).split() == []


def test_finished_recordings_need_no_framework() -> None:
    homes = ("recording.file", "analysis", "views.card.text", "views.card.html")
    imports = "; ".join(f"import kernelscope.{home}" for home in homes)
    code = f"import sys; sys.modules.update(numba=None, cuda=None, cupti=None); {imports}; print('ok')"
    assert _python(code) == "ok\n"


def _python(code: str) -> str:
    # KERNELSCOPE_DRYRUN asks for an import's one side effect, so the environment is not passed on.
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600,
                         env={"PATH": "/usr/bin:/bin"})
    assert run.returncode == 0, run.stderr
    return run.stdout
