"""Runs that have ended, what a command knows of them, and the lines that it prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tausearch.api import FinalResult, SearchResult
from tausearch.runs import AnySpec, Record, RunDirectory, SearchSpec, Storage, TrialSummary
from tausearch.runs.creation import make_run_directory
from tausearch.studies import BestFile


def recorded(spec: AnySpec, trials: list[TrialSummary], folder: Path) -> RunDirectory:
    _, directory = make_run_directory(spec, Storage(folder))
    for trial in trials:
        Record(directory.record).write(trial)
    return directory


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def result_of(directory: RunDirectory, trials: list[TrialSummary], **outcome: Any) -> Any:
    about = {"log_file": directory.log_file, "tracking_uri": "", "tracking_error": None}
    stopped = {"signal": outcome.pop("signal", None), "out_of_time": outcome.pop("out_of_time", False), "over": True}
    kind: Any = FinalResult if "summary" in outcome else SearchResult
    return kind(directory.name, directory.path, trials, **stopped, **about, **outcome)


def searched(spec: SearchSpec, trials: list[TrialSummary], folder: Path, best: BestFile | None, **stopped: Any) -> Any:
    directory = recorded(spec, trials, folder)
    found = {"best": best, "best_file": None if best is None else directory.best_file, "reevaluation": None}
    return result_of(directory, trials, **found, **stopped)
