"""The results of a run: for the caller, for trackers, and in the `results.json` of a final run."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from pydantic import BaseModel, Field, FiniteFloat

from checked_input.names import counted
from checked_input.text_files import one_line, read_json
from tausearch.runs.directories import RunDirectory
from tausearch.runs.record.record import Record
from tausearch.runs.specs.final import FinalSpec
from tausearch.runs.specs.run import RunSpec
from tausearch.runs.storage import replace_text, run_command
from tausearch.runs.trials import TrialSummary
from trainables.errors import InputError
from trainables.metrics import TEST

if TYPE_CHECKING:
    import pandas

_METRICS = (
    *(TEST.final_accuracy, TEST.pooled_accuracy, TEST.average_incremental_accuracy, TEST.forgetting),
    *TEST.removability,
)


class MetricSummary(TypedDict):
    """A `Score` in `results.json`."""

    mean: float
    std: float | None
    seeds: int


Summary = dict[str, MetricSummary]


@dataclass(frozen=True)
class Score:
    """A test metric over the seeds of a final run, percent; `std` is the sample deviation, None for one seed."""

    mean: FiniteFloat
    std: FiniteFloat | None
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Score:
        """Return the score of the values of one metric: at least one value, one per seed."""
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))

    def text(self, sign: str = "") -> str:
        """Return `77.79 ± 0.26`, or with the sign `+` `+1.20 ± 0.31`; the mean alone for one seed."""
        return f"{self.mean:{sign}.2f}" + ("" if self.std is None else f" ± {self.std:.2f}")


@dataclass(frozen=True)
class Conclusion:
    """The results of a run for callbacks and trackers."""

    chosen: TrialSummary | None = None  # of a search
    metrics: dict[str, float] = field(default_factory=dict)  # of the whole run
    files: tuple[Path, ...] = ()  # that the run has written
    summary: Summary | None = None  # of a final run of which all seeds have ended
    notes: dict[str, str] = field(default_factory=dict)  # for MLflow's tags: why a search `ended`


@dataclass(frozen=True, repr=False)
class RunResult:
    """The outcome of a run, for the caller.

    Attributes:
        name: Name of the run.
        path: The run directory.
        trials: All trials, ordered by number.
        signal: The signal that stopped the run, SIGINT (Ctrl-C), SIGTERM or SIGUSR1, or SIGPIPE for a closed output;
            None if no signal did.
        out_of_time: Whether the time budget stopped the run.
        over: Whether nothing of the run is left to do.
        log_file: The output of Ray, Optuna and MLflow.
        tracking_uri: MLflow's tracking store; None for a run that MLflow does not have.
        tracking_error: Why MLflow could not be written; None if it was written, or need not be.
    """

    name: str
    path: Path
    trials: list[TrialSummary]
    signal: int | None
    out_of_time: bool
    over: bool
    log_file: Path
    tracking_uri: str | None
    tracking_error: str | None

    def dataframe(self) -> pandas.DataFrame:
        """Return a row per trial: number, seed, status, value (percent), tasks, seconds, hyperparameters, last metrics.

        The metrics are those after the last finished task, such as `seconds/training`; `seconds` is the sum over all
        tasks. The record, `pandas.read_parquet(path / "record")`, has a row per trial and task. A hyperparameter of an
        own method that is named like a column before it, such as `value`, is in `trials` alone.
        """
        import pandas  # takes most of a second to import

        rows = [{**each.facts, **each.hyperparameters, **each.metrics, **each.facts} for each in self.trials]
        return pandas.DataFrame(rows)  # the facts come first, and win

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.in_words}; {self.path}>"

    @property
    def in_words(self) -> str:
        """The name, the number of trials that have ended, and the best or the mean of their values."""
        ended = sum(trial.has_ended for trial in self.trials)
        scores = [trial.value for trial in self.trials if trial.value is not None]
        said = f", {self._said(scores)}" if scores else ""
        return f"{self.name}: {counted(ended, 'trial')} ended{said}"

    def _said(self, scores: Sequence[float]) -> str:
        return f"best {max(scores):.2f} %"

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C, SIGTERM or SIGUSR1 stopped the run."""
        return self.signal is not None


def summarise(trials: Sequence[TrialSummary]) -> Summary:
    """Return the score of each test metric over the finished seeds."""
    finished = [trial.final for trial in trials if trial.status == "complete"]
    summary: Summary = {}
    for metric in _METRICS:
        if values := [row[metric] for row in finished if metric in row]:
            score = Score.of(values)
            summary[metric] = {"mean": score.mean, "std": score.std, "seeds": score.seeds}
    return summary


def summarise_orders(spec: RunSpec, trials: Sequence[TrialSummary]) -> dict[int, Summary]:
    """Return class order to summary; empty for a final run on the benchmark's own order."""
    orders = spec.protocol.class_orders or ()
    return {order: summarise([t for t in trials if spec.class_order(t.number) == order]) for order in orders}


def write_results(spec: FinalSpec, directory: RunDirectory, trials: Sequence[TrialSummary]) -> Summary:
    """Write `results.json` from all seeds of a final run, and return its summary."""
    scores = _scores(spec, trials)
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
        **spec.tasks_as_dict(),
        **scores,
    }
    if orders := summarise_orders(spec, trials):
        content["class_orders"] = orders
    replace_text(directory.results_file, json.dumps(content, indent=2) + "\n")
    return scores["summary"]


class _Scores(TypedDict):
    summary: Summary
    seeds: list[dict[str, Any]]


def _scores(spec: RunSpec, trials: Sequence[TrialSummary]) -> _Scores:
    return {"summary": summarise(trials), "seeds": [_plain(spec, trial) for trial in trials]}


def _plain(spec: RunSpec, trial: TrialSummary) -> dict[str, Any]:
    order = spec.class_order(trial.number)
    about = {"seed": trial.seed, **({} if order is None else {"class_order": order}), "status": trial.status}
    return {**about, **{metric: trial.final.get(metric) for metric in _METRICS}}


class _Seed(BaseModel):
    """A seed in results.json."""

    seed: int
    class_order: int | None = None
    status: str
    accuracy: float | None = Field(None, validation_alias=TEST.final_accuracy)


class _Results(BaseModel):
    """The fields of results.json that are read."""

    name: str
    summary: dict[str, Score]
    seeds: list[_Seed]


def read_scores(spec: RunSpec, directory: RunDirectory) -> dict[str, Score]:
    """Return metric to score over the finished seeds of a final run; an `InputError` if a file cannot be read."""
    return _read(spec, directory).summary


AccuracyOf = dict[tuple[int | None, int], float]
"""Class order, None for the benchmark's own, and seed to final accuracy, percent."""


def read_accuracies(spec: RunSpec, directory: RunDirectory) -> AccuracyOf:
    """Return the final accuracy of each finished seed of a final run; see `read_scores`."""
    return {
        (each.class_order, each.seed): each.accuracy
        for each in _read(spec, directory).seeds
        if each.status == "complete" and each.accuracy is not None
    }


def _read(spec: RunSpec, directory: RunDirectory) -> _Results:
    """Return what `results.json` says; the same from the record while the file lacks seeds of `spec`."""
    sync = run_command("runs sync", directory.name, directory.path.parent)
    file, mend = directory.results_file, f"`{sync}` writes it again from the record"
    try:
        results = _Results.model_validate(read_json(file))
    except FileNotFoundError:
        results = None
    except ValueError as error:  # from pydantic or `read_json`
        raise InputError(f"results file {file}: cannot be read ({one_line(error)}); {mend}") from error
    if results is None or len(results.seeds) < spec.trials:
        scores = _scores(spec, Record(directory.record).trials())
        return _Results.model_validate({"name": spec.name, **scores})
    if results.name != directory.name:
        raise InputError(f"results file {file}: belongs to run {results.name!r}; {mend}")
    return results
