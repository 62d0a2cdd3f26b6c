"""What type checkers see as `kernelscope.record`, `Recording` and their like: with what the built-in features add.

At run time features add their options and methods when they are registered (`kernelscope.registry`), which no type
checker can follow.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from kernelscope.features.call_paths.options import CallPathsOptions
from kernelscope.features.call_paths.view import flame as flame
from kernelscope.features.compare.command import history as history
from kernelscope.features.compare.view import ComparisonView
from kernelscope.features.compare.view import compare as compare
from kernelscope.features.lanes.options import LanesOptions
from kernelscope.features.metrics.command import metrics as metrics
from kernelscope.features.metrics.options import MetricsOptions
from kernelscope.features.operators.options import OperatorsOptions
from kernelscope.features.roofline.view import RooflineView
from kernelscope.features.roofline.view import roofline as roofline
from kernelscope.features.stalls.options import StallsOptions
from kernelscope.progress import Progress
from kernelscope.recorder import blocks, recorder
from kernelscope.recorder.journal import Journal
from kernelscope.recorder.options import set_up_by, takes_options
from kernelscope.recording import model

__all__ = [
    "Recorder", "Recording", "compare", "flame", "history", "load", "merge", "metrics", "record", "recorded", "recover",
    "roofline",
]

@dataclass(frozen=True)
class Options(CallPathsOptions, LanesOptions, MetricsOptions, OperatorsOptions, StallsOptions): ...

@dataclass(frozen=True)
class RecorderOptions(Options, recorder.RecorderOptions): ...

class Recording(model.Recording):
    measurements: pd.DataFrame
    metrics: pd.DataFrame
    pc_samples: pd.DataFrame
    pm_samples: pd.DataFrame
    def by_operator(self) -> pd.DataFrame: ...
    def by_stall(self) -> pd.DataFrame: ...
    def by_task(self) -> pd.DataFrame: ...
    def compare(self, other: model.Recording | str | Path) -> ComparisonView: ...
    def to_collapsed(self, path: str | Path, *, metric: str = "host", paths: bool = False,
                     progress: Progress | None = None) -> Path: ...
    def to_speedscope(self, path: str | Path, *, paths: bool = False, progress: Progress | None = None) -> Path: ...
    def roofline(self) -> RooflineView: ...
    def redacted(self, *, names: bool = True) -> Recording: ...
    def select(self, *, cell: int | None = None, process: int | str | None = None,
               framework: str | None = None) -> Recording: ...

class Recorder(recorder.Recorder):
    @set_up_by(RecorderOptions)
    def __init__(self, options: RecorderOptions) -> None: ...
    @property
    def recording(self) -> Recording: ...
    def passes(self) -> Iterator[int]: ...
    def start(self) -> Recorder: ...
    def stop(self) -> Recording: ...
    def __enter__(self) -> Recorder: ...

@takes_options(Options)
def record(options: Options) -> Recorder: ...
@blocks.function_or_options(Options)
def recorded(function: object = None, **options: object) -> object: ...
def load(path: str | Path, *, progress: Progress | None = None) -> Recording: ...
def merge(recordings: Sequence[model.Recording | str | Path], name: str | None = None) -> Recording: ...
def recover(journal: Journal | str | Path | None = None, *, remove: bool = False) -> Recording: ...
