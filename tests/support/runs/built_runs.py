"""Finished runs that tests share: a session builds each of them once, and a test that asks for one gets a copy of it.

`make_run`, `make_final_run` and `make_composable_run` work so. A test may change its copy.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import ClassVar
from unittest.mock import patch

from filelock import FileLock

from tausearch.api.finishing import conclude
from tausearch.runs import Record, RunDirectory, SearchSpec, Storage, TrialSummary
from tausearch.runs.creation import make_run_directory

Build = Callable[..., object]  # build(storage, name, *arguments) makes the run of that name


class BuiltRuns:
    """A folder of finished runs, each in a storage root of its own; the processes of a session share the folder."""

    folder: ClassVar[Path | None] = None  # without a folder, each run is built where a test asks for it

    @classmethod
    def copy(cls, build: Build, storage: Storage, name: str, *arguments: object) -> RunDirectory:
        """Put a run into a storage root: a copy of the run that `build` made of this name and these arguments."""
        directory = storage.run(name)
        if cls.folder is None:
            build(storage, name, *arguments)
            return directory
        built = _built(cls.folder, build, name, *arguments)
        shutil.copytree(built.path, directory.path, copy_function=shutil.copyfile)
        made_at(directory, time.time())
        return directory

    @classmethod
    def cache_clear(cls) -> None:
        """Forget all runs: `tests.mutants` counts what each test reaches, and a copy reaches nothing."""
        if cls.folder is not None:
            shutil.rmtree(cls.folder, ignore_errors=True)


def made_at(directory: RunDirectory, created: float) -> None:
    """Change when a run was made, by which runs are listed."""
    text = re.sub("^created: .*\n", "", directory.spec_file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    directory.spec_file.write_text(f"{text}created: {created:f}\n", encoding="utf-8")


def _built(folder: Path, build: Build, name: str, *arguments: object) -> RunDirectory:
    asked = repr((build.__module__, build.__qualname__, name, arguments))
    place = folder / hashlib.sha256(asked.encode()).hexdigest()[:16]
    return Storage(built_once(place, lambda root: build(Storage(root), name, *arguments))).run(name)


def built_once(place: Path, make: Callable[[Path], object]) -> Path:
    """Return a folder, which `make` fills under another name where it is not there; processes wait for each other."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{place}.lock"):
        if not place.exists():
            unfinished = Path(mkdtemp(dir=place.parent, prefix="unfinished-"))
            make(unfinished)
            unfinished.rename(place)
    return place


def make_run(storage: Storage, spec: SearchSpec, trials: Sequence[TrialSummary]) -> RunDirectory:
    """Put a run of hand-made trials into a storage root, with all that a run leaves behind except its figures."""
    return BuiltRuns.copy(_make, storage, spec.name, spec, tuple(trials))


def _make(storage: Storage, name: str, spec: SearchSpec, trials: tuple[TrialSummary, ...]) -> None:
    _, directory = make_run_directory(spec, storage)
    finish(spec, directory, trials)


def finish(spec: SearchSpec, directory: RunDirectory, trials: Sequence[TrialSummary], tasks: int = 0) -> None:
    """Record trials and conclude their run; figures are made but not saved, because rendering takes ten times longer.

    Each file of the record has the columns of `tasks` tasks.
    """
    record = Record(directory.record, metric_names=spec.metrics, tasks=tasks)
    for trial in trials:
        record.write(trial)
    with patch("tausearch.presentation.figures.style.save", _unsaved):
        conclude(spec, directory, list(trials))


def _unsaved(figure: object, path: Path) -> Path:
    return path
