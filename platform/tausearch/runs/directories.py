"""The files of a run directory and of a campaign's folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from checked_input.ranges import LONGEST_TEXT
from checked_input.text_files import TextFileError, one_line, read_text


def trial_folder_name(number: int) -> str:
    """Return the name of a trial's folder or file."""
    return f"trial-{number:05d}"


def reevaluation_name(search: str) -> str:
    """Return the name of a search's re-evaluations among the runs of a driver."""
    return f"{search}.reevaluation"


class Inside:
    """An attribute of a folder: the path of a file or folder in it. `of` names the attribute that has the folder."""

    def __init__(self, name: str, of: str = "path") -> None:
        self.of = of
        self.name = name

    def __get__(self, folder: object, owner: type[object]) -> Path:
        return Path(getattr(folder, self.of), self.name)


@dataclass(frozen=True)
class DrivenDirectory:
    """The folder of a run or campaign: one driver at a time."""

    path: Path

    spec_file: ClassVar[Inside]  # a folder without this file is no run or campaign
    log_file = Inside("log.txt")  # the output of Ray, Optuna and MLflow
    lock_file = Inside("driver.lock")  # locked by the driver while it runs
    ray = Inside("ray")  # Ray Tune's own files, one folder per attempt

    @property
    def name(self) -> str:
        """The name of the run or campaign, which is the folder's name."""
        return self.path.name

    def exists(self) -> bool:
        """Whether there is such a run or campaign."""
        return self.spec_file.is_file()


@dataclass(frozen=True)
class RunDirectory(DrivenDirectory):
    """The folder of one search or final run."""

    spec_file = Inside("run.yaml")
    tasks_file = Inside("tasks.json")  # names of the tasks and their classes, for people
    record = Inside("record")  # Parquet, one file per trial
    best_file = Inside("best.yaml")  # the best configuration so far
    front = Inside("front")  # a best file for each point of the front of several objectives
    study_file = Inside("study.journal")  # the Optuna study, for optuna-dashboard
    results_file = Inside("results.json")  # the test results of a final run
    figures = Inside("figures")
    tensorboard = Inside("tensorboard")  # event files, with `--tracking tensorboard`
    artifacts = Inside("task_vectors")  # the task vectors and adapters of a final run
    compositions = Inside("compositions")  # the compositions of a final run, one file each
    note_file = Inside("note.txt")  # the user's note
    stopped_file = Inside("stopped.txt")  # what stopped the last driver, if a signal or the time budget did

    @property
    def reevaluation(self) -> ReevaluationDirectory:
        """The folder of a search's re-evaluations, which need not exist."""
        return ReevaluationDirectory(self.path / "reevaluation")

    @property
    def note(self) -> str:
        """The user's note, one line; "" without a note, the error's text if the file cannot be read."""
        try:
            return one_line(read_text(self.note_file).strip(), LONGEST_TEXT)
        except FileNotFoundError:
            return ""
        except TextFileError as error:
            return f"{self.note_file.name} {error}"

    def checkpoints(self, number: int) -> Path:
        """The folder of a trial's checkpoints, over all attempts; see `trainables.state`."""
        return self.path / "state" / trial_folder_name(number)


@dataclass(frozen=True)
class ReevaluationDirectory(RunDirectory):
    """The folder `reevaluation` in a search's run directory: a run with a record of its own."""

    @property
    def name(self) -> str:
        """See `reevaluation_name`; not the folder's name."""
        return reevaluation_name(self.path.parent.name)


@dataclass(frozen=True)
class CampaignDirectory(DrivenDirectory):
    """The folder of a campaign; its runs lie in the storage root."""

    spec_file = Inside("campaign.yaml")  # the cells, and the names of their runs
    drives_file = Inside("drives.jsonl")  # a line of JSON for each driver that ended by itself: its start and seconds
    report_file = Inside("report.html")  # of all cells
    pilot_file = Inside("pilot.json")  # time and memory of the cells' pilot trials
    pages_file = Inside("mlflow_pages.json")  # the MLflow page of each benchmark's table

    def best_file(self, benchmark: str, method: str) -> Path:
        """The chosen configuration of a cell; the benchmark by its short form."""
        return self.path / "best" / benchmark / f"{method}.yaml"

    def is_concluded(self, run: str) -> bool:
        """Whether a driver has finished a run, figures and MLflow included."""
        return (self.path / "concluded" / run).exists()

    def mark_concluded(self, run: str) -> None:
        """Note that a driver has finished a run."""
        (self.path / "concluded").mkdir(exist_ok=True)
        (self.path / "concluded" / run).touch()

    def reopen(self, run: str) -> None:
        """Note that a run that was finished gets more trials."""
        (self.path / "concluded" / run).unlink(missing_ok=True)
