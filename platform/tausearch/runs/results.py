"""Test results of a final run, as `results.json` keeps them: each seed, and mean and deviation over the seeds."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, FiniteFloat, ValidationError

from tausearch.runs.files import RunDirectory, replace_text
from tausearch.runs.spec import RunSpec
from tausearch.runs.trials import TrialSummary
from trainables.errors import InputError
from trainables.metrics import TEST

_METRICS = (TEST.final_accuracy, TEST.pooled_accuracy, TEST.forgetting)
Summary = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Score:
    """A test metric over the seeds of a final run, percent.

    Attributes:
        mean: Over the seeds.
        std: Sample standard deviation; None for one seed.
        seeds: Number of seeds.
    """

    mean: float
    std: float | None
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Score:
        """Return the score of a metric's values, one for each seed; at least one."""
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))

    def text(self, sign: str = "") -> str:
        """Return `77.79 ± 0.26`, or with the sign `+` `+1.20 ± 0.31`; the mean alone for one seed."""
        return f"{self.mean:{sign}.2f}" + ("" if self.std is None else f" ± {self.std:.2f}")


def summarise(trials: Sequence[TrialSummary]) -> Summary:
    """Return mean and sample standard deviation of each test metric over the seeds that finished; 0 for one seed."""
    finished = [trial.final for trial in trials if trial.status == "complete"]
    summary = {}
    for metric in _METRICS:
        values = [row[metric] for row in finished if metric in row]  # a seed from before there was one lacks it
        if values:
            score = Score.of(values)
            summary[metric] = {"mean": score.mean, "std": score.std or 0.0, "seeds": score.seeds}
    return summary


def write_results(spec: RunSpec, directory: RunDirectory, trials: Sequence[TrialSummary]) -> Summary:
    """Write `results.json` from all seeds of a final run; returns the summary that it has."""
    summary = summarise(trials)
    content: dict[str, Any] = {
        "name": spec.name,
        "benchmark": spec.benchmark,
        "method": spec.method,
        "hyperparameters": spec.fixed,
        "protocol": spec.protocol.model_dump(mode="json"),
        "source": spec.source,
        "tuned_on": spec.tuned_on,
        "overrides": spec.overrides,
        "left_out": spec.left_out,
        "summary": summary,
        "seeds": [{"seed": t.seed, "status": t.status, **{m: t.final.get(m) for m in _METRICS}} for t in trials],
    }
    replace_text(directory.results_file, json.dumps(content, indent=2) + "\n")
    return summary


class _Score(BaseModel):
    mean: FiniteFloat
    std: FiniteFloat
    seeds: int


class _Results(BaseModel):
    """What is read of results.json; more may stand there."""

    summary: dict[str, _Score]


def read_scores(directory: RunDirectory) -> dict[str, Score]:
    """Read the summary of a final run's results.

    Returns:
        Metric to score; empty if there are no results yet.

    Raises:
        InputError: If the file cannot be read.
    """
    try:
        results = _Results.model_validate(json.loads(directory.results_file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"results file {directory.results_file}: cannot be read ({reason})") from error
    return {
        name: Score(part.mean, part.std if part.seeds > 1 else None, part.seeds)
        for name, part in results.summary.items()
    }
