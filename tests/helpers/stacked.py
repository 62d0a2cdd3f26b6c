"""Recordings with call paths, made by hand."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
from handmade import Script, many_launches

from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import make_table, table_of_rows
from kernelscope.schema import UNKNOWN

SOURCE = "import sim\n\ndef run():\n    sim.loop()\n\nrun()\n"
#: Frames by their rows in ``lines``: file, line, function, whether it is the user's code.
LINES = (
    ("In[3]", 6, None, True), ("In[3]", 4, "run", True), ("/home/u/sim.py", 30, "Loop.run", True),
    ("/home/u/sim.py", 12, "step", True), ("/home/u/sim.py", 19, "step", True),
    ("/usr/lib/python3/site-packages/solver/core.py", 208, "Solver.solve", False),
    ("/usr/lib/python3/site-packages/solver/core.py", 77, "apply", False),
)
#: Frames of each path by their rows in ``lines``, outermost first.
PATHS = ((0,), (0, 1), (0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 4), (0, 1, 2, 4, 5), (0, 1, 2, 4, 5, 6), (0, 1, 2, 3, 6))


class StackScript(Script):
    """A script with the frames of `LINES` and the paths of `PATHS`, and more where they are added."""

    def __init__(self, **metadata: object) -> None:
        super().__init__(**metadata)
        self._add("threads", "thread_id", {"ident": 1, "name": "MainThread"})
        self._paths: dict[tuple[int | None, int], int] = {}
        for file, line, function, is_user in LINES:
            self.line(file, line, function, is_user)
        for path in PATHS:
            self.path(*path)

    def line(self, file: str, line: int, function: str | None = None, is_user: bool = True) -> int:
        return self._add("lines", "line_id", {
            "file": file, "cell_id": 0 if file.startswith("In[") else None, "line": line, "function": function,
            "user_code": is_user})

    def path(self, *lines: int) -> int:
        """The row of a call path, made with the paths that it begins with."""
        stack = None
        for line in lines:
            if (stack, line) not in self._paths:
                self._paths[stack, line] = self._add("stacks", "stack_id", {
                    "parent_stack_id": stack, "line_id": line})
            stack = self._paths[stack, line]
        assert stack is not None
        return stack


def simulation(seed: int = 3, gpu: bool = True, launches: int = 60) -> Recording:
    """Return a cell whose launches, compiles and activities have call paths, but for a few."""
    chance = random.Random(seed)
    script = StackScript(name="simulation", **({"gpu": {"source": "cupti"}} if gpu else {}))
    script.cell(source=SOURCE, execution_count=3, wall_ns=400_000_000)
    script.device()
    for name in ("diffuse", "advect", "project"):
        script.launchable(name)
    for at in range(launches):
        kernel = chance.randrange(3)
        stack = chance.choice([None, *range(2, len(PATHS))]) if at % 7 == 0 else (3, 5, 7)[kernel]
        compiling = chance.randint(20, 90) * 1_000_000 if at < 4 else 0
        if compiling:
            script.compilation(kernel, duration_ns=compiling, stack_id=stack)
        launch = script.launch(kernel, (3_000, compiling, chance.randint(2_000, 9_000), 2_000, 1_000), stack_id=stack)
        if gpu:
            script.activity(duration_ns=chance.randint(10, 900) * 1_000, launch_id=launch, stack_id=stack)
            if chance.random() < 0.3:
                script.activity("memcpy", "HtoD", chance.randint(1, 99) * 1_000, size_bytes=100, stack_id=stack)
            if chance.random() < 0.2:
                script.activity("sync", "stream", 5_000, stack_id=stack)
    return script.recording()


def many_paths(launches: int, stacks: int, seed: int = 5) -> Recording:
    """Return many launches over many call paths, made by columns."""
    chance = np.random.default_rng(seed)
    made = many_launches(launches, 20)
    at = np.arange(stacks)
    # Five outermost frames; further ones are called by one of the 4,000 before them.
    parent = np.where(at < 5, UNKNOWN, at - 1 - chance.integers(0, np.maximum(np.minimum(at, 4_000), 1)))
    held = dict(made.tables)
    held["lines"] = table_of_rows("lines", [
        {"line_id": each, "file": f"/home/u/m{each % 90}.py", "line": 1 + each, "function": f"function_{each}",
         "user_code": each % 3 > 0} for each in range(5_000)])
    held["stacks"] = make_table("stacks", {"stack_id": at, "parent_stack_id": parent, "line_id": at % 5_000})
    place = held["launches"].schema.get_field_index("stack_id")
    named = pa.array(np.concatenate((at, chance.integers(0, stacks, launches - stacks))), pa.int32())
    held["launches"] = held["launches"].set_column(place, held["launches"].schema.field(place), named)
    return Recording(held, made.metadata)
