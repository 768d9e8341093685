"""What a run came to: for MLflow, and for whoever asked for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tausearch.runs.trials import TrialSummary

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Conclusion:
    """What a run came to, as MLflow is to show it.

    Attributes:
        chosen: The trial to tag as chosen.
        metrics: Metrics to write to the parent run.
        files: Files to attach to the parent run.
    """

    chosen: TrialSummary | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    files: tuple[Path, ...] = ()


@dataclass(frozen=True)
class RunResult:
    """How a run went, as returned to whoever asked for it.

    Attributes:
        name: The run's name.
        path: Path of the run directory.
        trials: All trials, ordered by number.
        signal: Number of the signal that ended it before its last trial, SIGINT (Ctrl-C) or SIGTERM; None if none did.
        out_of_time: Whether its time budget ended it before its last trial.
        log_file: The file that holds what libraries printed.
        tracking_uri: The tracking store that has it in MLflow.
        tracking_error: Why MLflow could not be written; None if it was.
    """

    name: str
    path: Path
    trials: list[TrialSummary]
    signal: int | None
    out_of_time: bool
    log_file: Path
    tracking_uri: str
    tracking_error: str | None

    def dataframe(self) -> pandas.DataFrame:
        """Return a row per trial: number, seed, status, value (percent), tasks, seconds, hyperparameters, last metrics.

        The record, `pandas.read_parquet(path / "record")`, has a row per trial and task.
        """
        import pandas  # takes most of a second to import

        rows = [
            {
                "trial": trial.number,
                "seed": trial.seed,
                "status": trial.status,
                "value": trial.value,
                "tasks": trial.tasks_done,
                "seconds": trial.seconds,
                **trial.hyperparameters,
                **{name: value for name, value in trial.final.items() if name != "task"},
            }
            for trial in self.trials
        ]
        return pandas.DataFrame(rows)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C or SIGTERM ended it before its last trial."""
        return self.signal is not None
