"""The storage root: the folder that holds run directories and what they share."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from checked_input.names import near
from checked_input.ranges import text_fault
from checked_input.text_files import TextFileError, one_line, read_text, shown
from checked_input.whole_files import replacing
from tausearch.runs.directories import CampaignDirectory, Inside, RunDirectory
from trainables.errors import InputError

T = TypeVar("T")

DEFAULT_STORAGE = os.environ.get("TAUSEARCH_STORAGE") or "./tausearch-runs"
DEFAULT_CACHE_SIZE = 20.0  # a sequence of ten tasks at ViT-B size takes 3.4: an 85 M float Fisher per task
_RESERVED = ("cache", "mlflow.db", "mlflow.lock", "mlflow-artifacts", "compare.png", "compare.pdf", "campaigns")
PAPER = "paper"  # the source of a warm start that is no run
_MAX_SUGGESTIONS = 5  # run names in an error message
LONGEST_NAME = 100  # characters
_CREATED = re.compile(r"^created: (\d+\.\d+)$", re.MULTILINE)  # in `run.yaml`; reading all as YAML takes long
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}")


class RunError(RuntimeError):
    """A run ended by an error, such as one of the user's sampler; what was written stays, and it can be continued."""


class StorageError(RunError):
    """The storage is full, gone or not accessible; what was written stays, and the run can be continued."""


@dataclass(frozen=True)
class Storage:
    """The folder `root`, as given by `--storage`."""

    root: Path

    cache = Inside("cache", of="root")  # the pre-consolidation cache, shared by all searches
    mlflow_file = Inside("mlflow.db", of="root")  # the file of the default tracking store
    mlflow_artifacts = Inside("mlflow-artifacts", of="root")  # the artifact folder of the default tracking store
    campaigns_folder = Inside("campaigns", of="root")  # one folder per campaign; the runs of campaigns lie in the root
    comparison_figure = Inside("compare.png", of="root")  # the picture that `tausearch compare` draws

    @property
    def mlflow_uri(self) -> str:
        """The default tracking store: one SQLite file for all runs, so that MLflow can compare them."""
        return f"sqlite:///{self.mlflow_file}"

    def campaign(self, name: str) -> CampaignDirectory:
        """Return the folder of a campaign, which need not exist; raises an `InputError` for a name not allowed."""
        return CampaignDirectory(self.campaigns_folder / checked_name(name))

    def campaigns(self) -> list[CampaignDirectory]:
        """Return the folders of all campaigns, oldest first."""
        found = [each for each in map(CampaignDirectory, self.campaigns_folder.glob("[!.]*")) if each.exists()]
        return sorted(found, key=lambda each: (made(each.spec_file), each.name))

    def run(self, name: str) -> RunDirectory:
        """Return a run directory, which need not exist; raises an `InputError` for wrong and reserved names."""
        if checked_name(name) in _RESERVED:
            raise InputError(f"name {name!r}: is reserved for files that all runs share; choose another")
        return RunDirectory(self.root / name)

    def run_exists(self, name: str) -> bool:
        """Whether there is a run of this name."""
        return bool(_NAME.fullmatch(name)) and RunDirectory(self.root / name).exists()

    def runs(self) -> list[RunDirectory]:
        """Return all run directories, oldest first; raises an `InputError` if the root cannot be read."""
        if not self.root.is_dir():
            return []
        try:
            # A directory that is being made has a hidden name.
            folders = [path for path in self.root.iterdir() if not path.name.startswith(".")]
        except OSError as error:
            raise InputError(f"--storage {self.root}: cannot be read ({error.strerror})") from error
        found = [run for run in map(RunDirectory, folders) if run.exists()]
        return sorted(found, key=lambda run: (made(run.spec_file), run.name))

    def read_each(
        self, read: Callable[[RunDirectory], T], newest: int | None = None, among: Sequence[RunDirectory] | None = None
    ) -> tuple[list[T], list[InputError]]:
        """Return the results of `read`, and the errors of unreadable runs, which stop no other.

        Without `among`, all runs are read, or only the `newest`, the oldest first.
        """
        found, faults = [], []
        for directory in self.runs()[0 if newest is None else -newest :] if among is None else among:
            try:
                found.append(read(directory))
            except (InputError, StorageError) as error:
                if directory.path.exists():  # and was not deleted or renamed just now
                    faults.append(InputError(*error.args))
            except Exception as error:  # damage that no reader expects
                kind = type(error).__name__
                faults.append(InputError(f"run {directory.path}: cannot be read ({kind}: {one_line(error)})"))
        return found, faults

    def hint_for(self, name: str, among: Sequence[str] | None = None) -> str:
        """Return the end of an error about an unknown run: the campaign of that name, similar names, or latest runs.

        `among` are the names of the runs that fit, oldest first; by default all runs.
        """
        if _NAME.fullmatch(name) and self.campaign(name).exists():
            return f"; {name} is a campaign: {run_command('campaign status', name, self.root)}"
        names = [run.name for run in self.runs()] if among is None else among
        found = near(name, names) or names[-_MAX_SUGGESTIONS:][::-1]
        return f"; there are: {', '.join(found)}{', ...' if len(names) > len(found) else ''}" if found else ""

    def free_name(self, stem: str, endings: Sequence[str] = ("",)) -> str:
        """Return the first of `stem-1`, `stem-2`, ... that is not taken with any of the endings."""
        number = 1
        while any((self.root / f"{stem}-{number}{ending}").exists() for ending in endings):
            number += 1
        return f"{stem}-{number}"


def storage_option(root: str | Path) -> str:
    """Return ` --storage ROOT` for a command; empty for the default root."""
    is_default = Path(root).absolute() == Path(DEFAULT_STORAGE).absolute()
    return "" if is_default else f" --storage {shlex.quote(str(root))}"


def run_command(verb: str, name: str, root: str | Path) -> str:
    """Return `tausearch VERB NAME` for a run or campaign, with its storage root if that is not the default."""
    return f"tausearch {verb} {name}{storage_option(root)}"


def checked_name(name: str) -> str:
    """Return a name if it is allowed for a folder, else raise an `InputError`."""
    if not _NAME.fullmatch(name):
        allowed = "letters, digits, '.', '_' and '-', and start with a letter or digit"
        most = f", at most {LONGEST_NAME} characters, got {len(name)}" if len(name) > LONGEST_NAME else ""
        raise InputError(f"name {shown(name)}: must be {allowed}{most}")
    return name


def require_unmistakable(name: str) -> None:
    """Refuse a name for a new run that `--warm-start` takes for something else; older runs may have it."""
    if name == PAPER:
        raise InputError(f"name {name!r}: stands for the paper's choices in --warm-start; choose another")


def made(spec_file: Path) -> float:
    """Return the time that a specification notes: renaming, resuming and copying a run change that of its file."""
    try:
        noted = _CREATED.search(read_text(spec_file))
        return float(noted[1]) if noted else spec_file.stat().st_mtime
    except (OSError, TextFileError):  # removed just now, or damaged
        return 0.0


def open_storage(root: str | Path, *, write: bool) -> Storage:
    """Return the storage root, which need not exist.

    Raises:
        InputError: If it is no local path or no folder, or with `write` no probe file can be written there.
    """
    if fault := text_fault(str(root)):
        raise InputError(f"--storage {fault}")
    if "://" in str(root):
        raise InputError(f"--storage {root}: must be a local path; file system URIs are not supported yet")
    path = Path(os.path.expanduser(root)).absolute()
    if odd := [sign for sign in "?#%" if sign in str(path)]:
        raise InputError(f"--storage {path}: must not contain {odd[0]!r}, which has a meaning in MLflow's URIs")
    try:
        if path.is_symlink() and not path.exists():
            raise InputError(f"--storage {path}: is a link that leads nowhere")
        if path.exists() and not path.is_dir():
            raise InputError(f"--storage {path}: is not a folder, so it cannot be written")
        if write:
            try_to_write(path)
    except OSError as error:
        raise InputError(f"--storage {path}: cannot be written ({error.strerror})") from error
    return Storage(path)


def nearest_folder(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists."""
    return next(each for each in (path, *path.parents) if each.exists())


def try_to_write(folder: Path) -> None:
    """Write and remove a probe file in the nearest existing folder; raises the `OSError` of it."""
    probe = nearest_folder(folder) / f".write-probe-{os.getpid()}"
    probe.touch()
    probe.unlink()


def replace_text(path: Path, text: str) -> None:
    """Write a text file completely or not at all; a device such as /dev/stdout is written to and not replaced."""
    with replacing(path) as file:
        file.write_text(text, encoding="utf-8")
