"""A benchmark process to ask, for tests: started as a study does it, without the study's runner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelscope.studies import process

ON_GPU = os.environ.get("KERNELSCOPE_TEST_GPU") == "1"


class Bench:
    """A benchmark process in a folder of its own; its output goes to ``output.txt`` there."""

    def __init__(self, folder: Path, python: str = sys.executable, environ: Mapping[str, str] | None = None) -> None:
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        self.output = folder / "output.txt"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [*process.command(Path(python)), str(requests), str(answers)], cwd=folder, stdout=output,
                stderr=output, stdin=subprocess.DEVNULL, pass_fds=(requests, answers),
                env={**clean_environ(), **(environ or {})})
        os.close(requests)
        os.close(answers)
        self._writer, self._reader = os.fdopen(self._requests, "w"), os.fdopen(self._answers)

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """Return the answer to a request; an AssertionError if the process has died."""
        self._writer.write(json.dumps({"do": do, **fields}) + "\n")
        self._writer.flush()
        line = self._reader.readline()
        assert line, f"the process died: {self.output.read_text()}"
        return json.loads(line)

    def must(self, do: str, **fields: Any) -> dict[str, Any]:
        """Return the answer to a request that must go well."""
        answer = self.ask(do, **fields)
        assert answer["ok"], answer.get("traceback", answer)
        return answer

    def hello(self, **fields: Any) -> dict[str, Any]:
        """Say hello, on the dry run unless the tests are on a GPU."""
        return self.ask("hello", **{**({} if ON_GPU else process.dry_run_fields()), **fields})

    def close(self, timeout: float = 20) -> int:
        """Close the pipe of requests and wait for the end; the exit code."""
        self._writer.close()
        try:
            return self.process.wait(timeout)
        finally:
            self.process.kill()
            self._reader.close()


def clean_environ() -> dict[str, str]:
    """Return this environment without what changes Python, KernelScope or numba.

    On a GPU the tests may have their packages from ``PYTHONPATH``, which is left.
    """
    ours = ("PYTHON", "KERNELSCOPE", "NUMBA")
    return {name: value for name, value in os.environ.items()
            if not name.startswith(ours) or (ON_GPU and name == "PYTHONPATH")}


def empty_kernel(arguments: int = 0, **fields: Any) -> dict[str, Any]:
    """Return the fields of a case: an empty kernel with so many arrays."""
    names = ", ".join(f"a{i}" for i in range(arguments))
    arrays = "\n".join(f"a{i} = cuda.device_array(1, np.float32)" for i in range(arguments))
    setup = f"@cuda.jit\ndef kernel({names}):\n    pass\n{arrays}\nheld = kernel[1, 1]\n"
    return {"name": f"{arguments} args", "setup": setup, "statement": f"held({names})", "args": arguments, **fields}
