"""The files of a run directory and of a campaign's folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from checked_input.bounds import LONGEST_TEXT
from checked_input.text_files import TextFileError, one_line, read_text


def trial_name(number: int) -> str:
    """Return the name of a trial's folder or file."""
    return f"trial-{number:05d}"


@dataclass(frozen=True)
class DrivenDirectory:
    """The folder of a run or campaign: one driver at a time."""

    path: Path

    @property
    def name(self) -> str:
        """The name of the run or campaign, which is the folder's name."""
        return self.path.name

    @property
    def log_file(self) -> Path:
        """The output of Ray, Optuna and MLflow."""
        return self.path / "log.txt"

    @property
    def lock_file(self) -> Path:
        """The file that the driver locks while it runs."""
        return self.path / "driver.lock"

    @property
    def ray(self) -> Path:
        """Ray Tune's own files: checkpoints and logs of trials, one folder per attempt."""
        return self.path / "ray"

    @property
    def spec_file(self) -> Path:
        """The specification; a folder without one is no run or campaign."""
        raise NotImplementedError

    def trial_folder(self, run: str, number: int) -> str:
        """Return the name of a trial's folder in an attempt's folder."""
        raise NotImplementedError


@dataclass(frozen=True)
class RunDirectory(DrivenDirectory):
    """The folder of one search or final run."""

    @property
    def run(self) -> RunDirectory:
        """The run directory itself; for re-evaluations, that of their search."""
        return self

    @property
    def reevaluation(self) -> ReevaluationDirectory:
        """The folder of a search's re-evaluations, which need not exist."""
        return ReevaluationDirectory(self.path / "reevaluation")

    @property
    def spec_file(self) -> Path:
        """The specification of the run."""
        return self.path / "run.yaml"

    @property
    def record(self) -> Path:
        """The Parquet record, one file per trial."""
        return self.path / "record"

    @property
    def best_file(self) -> Path:
        """The best configuration so far."""
        return self.path / "best.yaml"

    @property
    def figures(self) -> Path:
        """The folder of a finished search's figures."""
        return self.path / "figures"

    @property
    def study_file(self) -> Path:
        """The Optuna study, for optuna-dashboard."""
        return self.path / "study.journal"

    def trial_folder(self, run: str, number: int) -> str:
        """Return the name of a trial's folder in an attempt's folder; `run` is this run or its re-evaluation."""
        return trial_name(number) if run == self.name else f"reevaluation-{trial_name(number)}"

    def blobs(self, number: int) -> Path:
        """The folder that all checkpoints of a trial share, over all attempts; see `trainables.state`."""
        return self.path / "state" / trial_name(number)

    @property
    def artifacts(self) -> Path:
        """The folder of a final run's task vectors and adapters."""
        return self.path / "task_vectors"

    @property
    def compositions(self) -> Path:
        """The folder of a final run's compositions, one file each."""
        return self.path / "compositions"

    @property
    def note_file(self) -> Path:
        """The user's note on the run."""
        return self.path / "note.txt"

    @property
    def note(self) -> str:
        """The user's note, one line; "" without a note, the error's text if the file cannot be read."""
        try:
            return one_line(read_text(self.note_file).strip(), LONGEST_TEXT)
        except FileNotFoundError:
            return ""
        except TextFileError as error:
            return f"{self.note_file.name} {error}"

    @property
    def results_file(self) -> Path:
        """The test results of a final run."""
        return self.path / "results.json"


@dataclass(frozen=True)
class ReevaluationDirectory(RunDirectory):
    """The folder `reevaluation` in a search's run directory: a run with a record of its own."""

    @property
    def name(self) -> str:
        """The name of the re-evaluations among the runs of a driver."""
        return f"{self.run.name}.reevaluation"

    @property
    def run(self) -> RunDirectory:
        """The run directory of the search."""
        return RunDirectory(self.path.parent)


@dataclass(frozen=True)
class CampaignDirectory(DrivenDirectory):
    """The folder of a campaign; its runs lie in the storage root."""

    def exists(self) -> bool:
        """Whether there is such a campaign."""
        return self.spec_file.is_file()

    @property
    def spec_file(self) -> Path:
        """The cells, and the names of their runs."""
        return self.path / "campaign.yaml"

    @property
    def drives_file(self) -> Path:
        """A line of JSON for every driver: its start, and the seconds that it ran."""
        return self.path / "drives.jsonl"

    @property
    def report_file(self) -> Path:
        """The HTML report of all cells."""
        return self.path / "report.html"

    @property
    def pilot_file(self) -> Path:
        """Time and memory of the cells' pilot trials."""
        return self.path / "pilot.json"

    @property
    def pages_file(self) -> Path:
        """The MLflow page of each benchmark's table."""
        return self.path / "mlflow_pages.json"

    def best_file(self, benchmark: str, method: str) -> Path:
        """The chosen configuration of a cell; the benchmark by its short form."""
        return self.path / "best" / benchmark / f"{method}.yaml"

    def is_concluded(self, run: str) -> bool:
        """Whether a driver has finished a run, figures and MLflow included."""
        return (self.path / "concluded" / run).exists()

    def conclude(self, run: str) -> None:
        """Note that a driver has finished a run."""
        (self.path / "concluded").mkdir(exist_ok=True)
        (self.path / "concluded" / run).touch()

    def trial_folder(self, run: str, number: int) -> str:
        """Return the name of a trial's folder in an attempt's folder."""
        return f"{run}.{trial_name(number)}"
