"""Where things lie: the storage root, and the run directory of a search or final run inside it."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from search_spaces.bounds import LONGEST_TEXT, text_fault
from search_spaces.text_files import TextFileError, one_line, read_text, shown
from trainables.errors import InputError

T = TypeVar("T")

DEFAULT_STORAGE = "./tausearch-runs"
DEFAULT_STORE_GIGABYTES = 20.0  # a sequence of ten tasks at ViT-B size takes 3.4: an 85 M float Fisher per task
_RESERVED = ("store", "mlflow.db", "mlflow.lock", "mlflow-artifacts", "compare.png", "compare.pdf", "campaigns")
_NAMED = 5  # runs that an error names
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class StorageError(RuntimeError):
    """The storage is full, gone or closed to us; what had been written is there, and the run can be continued."""


def trial_name(number: int) -> str:
    """Return what a trial's folder or file is called, wherever there is one for each."""
    return f"trial-{number:05d}"


@dataclass(frozen=True)
class Storage:
    """The folder that holds run directories and what they share.

    Attributes:
        root: Path of the folder, as given by `--storage`.
    """

    root: Path

    @property
    def store(self) -> Path:
        """The pre-consolidation store, shared by all searches here."""
        return self.root / "store"

    @property
    def mlflow_uri(self) -> str:
        """The default tracking store: one SQLite file for all searches here, so that they can be compared."""
        return f"sqlite:///{self.mlflow_file}"

    @property
    def mlflow_file(self) -> Path:
        """The file of the default tracking store."""
        return self.root / "mlflow.db"

    @property
    def mlflow_artifacts(self) -> Path:
        """The folder in which the default tracking store keeps files."""
        return self.root / "mlflow-artifacts"

    @property
    def campaigns_folder(self) -> Path:
        """The folder of what campaigns have beside their runs, one folder each."""
        return self.root / "campaigns"

    def campaign(self, name: str) -> CampaignDirectory:
        """Return the folder of the campaign of that name, which need not exist.

        Raises:
            InputError: If the name is not allowed.
        """
        return CampaignDirectory(self.campaigns_folder / _checked(name))

    def campaigns(self) -> list[CampaignDirectory]:
        """Return the folders of all campaigns, oldest first."""
        found = [each for each in map(CampaignDirectory, self.campaigns_folder.glob("[!.]*")) if each.exists()]
        return sorted(found, key=lambda each: (_modified(each.spec_file), each.name))

    @property
    def comparison_figure(self) -> Path:
        """The picture that `tausearch compare` draws."""
        return self.root / "compare.png"

    def run(self, name: str) -> RunDirectory:
        """Return the run directory of that name, which need not exist.

        Raises:
            InputError: If the name is not allowed, or is reserved for what all runs share.
        """
        if _checked(name) in _RESERVED:
            raise InputError(f"name {name!r}: is taken by what all runs share; choose another")
        return RunDirectory(self.root / name)

    def run_exists(self, name: str) -> bool:
        """Whether there is a run of that name."""
        return bool(_NAME.fullmatch(name)) and (self.root / name / "run.yaml").is_file()

    def runs(self) -> list[RunDirectory]:
        """Return all run directories, oldest first."""
        if not self.root.is_dir():
            return []
        try:
            folders = [path for path in self.root.iterdir() if not path.name.startswith(".")]  # hidden: in the making
        except OSError as error:
            raise InputError(f"--storage {self.root}: cannot be read ({error.strerror})") from error
        found = [run for run in map(RunDirectory, folders) if run.spec_file.is_file()]
        return sorted(found, key=lambda run: (_modified(run.spec_file), run.name))

    def read_each(
        self, read: Callable[[RunDirectory], T], newest: int | None = None
    ) -> tuple[list[T], list[InputError]]:
        """Read something of every run, oldest first; a run that cannot be read keeps no other from being read.

        Args:
            read: Function that reads something of a run; raises an `InputError` for one that cannot be read.
            newest: Of how many runs, the newest; None for all.

        Returns:
            What was read, and why the rest was not.
        """
        found, faults = [], []
        for directory in self.runs()[0 if newest is None else -newest :]:
            try:
                found.append(read(directory))
            except (InputError, StorageError) as error:
                if directory.path.exists():  # and was not deleted or renamed just now
                    faults.append(InputError(*error.args))
            except Exception as error:  # whatever somebody's damage is, the other runs are read
                kind = type(error).__name__
                faults.append(InputError(f"run {directory.path}: cannot be read ({kind}: {one_line(error)})"))
        return found, faults

    def near(self, name: str) -> str:
        """Say which runs there are, for an error that finds none of a name: those of like names, or the latest."""
        names = [run.name for run in self.runs()]
        found = get_close_matches(name, names, _NAMED, 0.5) or names[-_NAMED:][::-1]
        return f"; there are: {', '.join(found)}{', ...' if len(names) > len(found) else ''}" if found else ""

    def free_name(self, stem: str) -> str:
        """Return the first of `stem-1`, `stem-2`, ... that is not taken."""
        number = 1
        while (self.root / f"{stem}-{number}").exists():
            number += 1
        return f"{stem}-{number}"


@dataclass(frozen=True)
class DrivenDirectory:
    """The folder of what one driver drives: a run, or a campaign."""

    path: Path

    @property
    def name(self) -> str:
        """What it is called, which is the folder's name."""
        return self.path.name

    @property
    def log_file(self) -> Path:
        """The file with what Ray, Optuna and MLflow printed."""
        return self.path / "log.txt"

    @property
    def lock_file(self) -> Path:
        """The lock file that the driver holds as long as it lives."""
        return self.path / "driver.lock"

    @property
    def ray(self) -> Path:
        """Ray Tune's own files: checkpoints and logs of trials, one folder per attempt."""
        return self.path / "ray"

    @property
    def spec_file(self) -> Path:
        """The file that says what was asked for; there as long as the storage is."""
        raise NotImplementedError

    def trial_folder(self, run: str, number: int) -> str:
        """Return the name that the folder of a trial has in an attempt's."""
        raise NotImplementedError


@dataclass(frozen=True)
class RunDirectory(DrivenDirectory):
    """The folder of one search or final run."""

    @property
    def run(self) -> RunDirectory:
        """The run directory itself; of confirmations that of their search."""
        return self

    @property
    def confirmation(self) -> ConfirmationDirectory:
        """The folder of a search's confirmations, which need not exist."""
        return ConfirmationDirectory(self.path / "confirmation")

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
        """The file with the best configuration so far."""
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
        """Return the name that the folder of a trial has in an attempt's; of this run, or of its confirmation."""
        return trial_name(number) if run == self.name else f"confirmation-{trial_name(number)}"

    def blobs(self, number: int) -> Path:
        """The folder of what a trial's checkpoints share, in all attempts; see `trainables.state`."""
        return self.path / "state" / trial_name(number)

    @property
    def artifacts(self) -> Path:
        """The folder of a final run's task vectors and adapters."""
        return self.path / "task_vectors"

    @property
    def compositions(self) -> Path:
        """The folder of what was composed of a final run's task vectors, one file each."""
        return self.path / "compositions"

    @property
    def note_file(self) -> Path:
        """The file with what a person has noted of the run."""
        return self.path / "note.txt"

    @property
    def note(self) -> str:
        """What a person has noted of the run, one line; empty if nothing, and why if it cannot be read."""
        try:
            return one_line(read_text(self.note_file).strip(), LONGEST_TEXT)
        except FileNotFoundError:
            return ""
        except TextFileError as error:
            return f"{self.note_file.name} {error}"

    @property
    def results_file(self) -> Path:
        """The file with the test results of a final run."""
        return self.path / "results.json"


@dataclass(frozen=True)
class ConfirmationDirectory(RunDirectory):
    """The folder of a search's confirmations, in its run directory: the record of a run beside the record of trials."""

    @property
    def name(self) -> str:
        """What the confirmations are called where all runs that are driven have a name."""
        return f"{self.run.name}.confirmation"

    @property
    def run(self) -> RunDirectory:
        """The run directory of the search."""
        return RunDirectory(self.path.parent)


@dataclass(frozen=True)
class CampaignDirectory(DrivenDirectory):
    """The folder of what a campaign has beside its runs, which lie in the storage root like all others."""

    def exists(self) -> bool:
        """Whether there is such a campaign."""
        return self.spec_file.is_file()

    @property
    def spec_file(self) -> Path:
        """The cells, and the names of their runs."""
        return self.path / "campaign.yaml"

    @property
    def drives_file(self) -> Path:
        """The file with a line of JSON for every driver: when it started, and for how many seconds it drove."""
        return self.path / "drives.jsonl"

    @property
    def report_file(self) -> Path:
        """The HTML report of all cells."""
        return self.path / "report.html"

    @property
    def pilot_file(self) -> Path:
        """The file with what pilot trials of the cells took."""
        return self.path / "pilot.json"

    @property
    def pages_file(self) -> Path:
        """The file that says where MLflow shows the table of each benchmark."""
        return self.path / "mlflow_pages.json"

    def best_file(self, benchmark: str, method: str) -> Path:
        """The chosen configuration of a cell; the benchmark by its short form."""
        return self.path / "best" / benchmark / f"{method}.yaml"

    def is_concluded(self, run: str) -> bool:
        """Whether a driver has seen a run to its end, figures and MLflow included."""
        return (self.path / "concluded" / run).exists()

    def conclude(self, run: str) -> None:
        """Note that a driver has seen a run to its end."""
        (self.path / "concluded").mkdir(exist_ok=True)
        (self.path / "concluded" / run).touch()

    def trial_folder(self, run: str, number: int) -> str:
        """Return the name that the folder of a run's trial has in an attempt's."""
        return f"{run}.{trial_name(number)}"


def _checked(name: str) -> str:
    """Return a name that can be that of a folder.

    Raises:
        InputError: If it cannot.
    """
    if not _NAME.fullmatch(name):
        allowed = "letters, digits, '.', '_' and '-', and start with a letter or digit"
        raise InputError(f"name {shown(name)}: must be {allowed}")
    return name


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # removed just now
        return 0.0


def open_storage(root: str | Path, *, write: bool) -> Storage:
    """Resolve the path of the storage root, and check it.

    Args:
        root: Path of the storage root.
        write: Whether to make sure that it can be written, or made; nothing is left behind by trying.

    Returns:
        The storage root, which need not exist.

    Raises:
        InputError: If the root is not a local path, or cannot be created or written.
    """
    if fault := text_fault(str(root)):
        raise InputError(f"--storage {fault}")
    if "://" in str(root):
        raise InputError(f"--storage {root}: must be a local path; file system URIs are not supported yet")
    path = Path(os.path.expanduser(root)).absolute()
    if odd := [sign for sign in "?#%" if sign in str(path)]:
        raise InputError(f"--storage {path}: must not have {odd[0]!r} in it, which means something in MLflow's URIs")
    try:
        if path.is_symlink() and not path.exists():
            raise InputError(f"--storage {path}: is a link that leads nowhere")
        if path.exists() and not path.is_dir():
            raise InputError(f"--storage {path}: is not a folder, so it cannot be written")
        if write:
            _try_to_write(nearest_folder(path))
    except OSError as error:
        raise InputError(f"--storage {path}: cannot be written ({error.strerror})") from error
    return Storage(path)


def nearest_folder(path: Path) -> Path:
    """Return a folder itself, or the nearest one above it where it has yet to be made."""
    return next(each for each in (path, *path.parents) if each.exists())


def _try_to_write(folder: Path) -> None:
    probe = folder / f".write-probe-{os.getpid()}"
    probe.touch()
    probe.unlink()


def replace_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all; what is no file, as /dev/stdout, is written to and stays what it is."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, path)
    except OSError as error:  # which names the unfinished one
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        unfinished.unlink(missing_ok=True)
