"""What editing a composition came to: accuracies of each seed, and the paper's numbers, which are worked out from them.

Source: the paper, section "On the compositional skills of ITA and IEL", Tables 3 and 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from search_spaces.schema import Strict
from tausearch.models.merge_weights import COEFFICIENTS
from tausearch.models.results import EDIT, read_file, save_file
from tausearch.runs import RunDirectory, Score

Accuracies = tuple[float, ...]  # on each task, percent


class EditedSeed(Strict):
    """What one seed's compositions reach; accuracies on each task, percent, over the logits of all classes.

    Attributes:
        seed: The seed.
        whole: Of the uniform composition.
        specialised: Of the composition of the kept tasks alone.
        unlearned: Reading to one row per task u: accuracies of the composition that unlearns u.
    """

    seed: int
    whole: Accuracies
    specialised: Accuracies
    unlearned: dict[str, tuple[Accuracies, ...]]


class EditResult(Strict):
    """The protocol on one run.

    Attributes:
        run: Name of the run, or path of the folder.
        benchmark: What the benchmark is called.
        methods: The methods of the task vectors.
        kept: The tasks of the specialisation, from 1: first, central, last.
        seeds: What each seed reaches.
    """

    run: str
    benchmark: str
    methods: tuple[str, ...]
    kept: tuple[int, ...]
    seeds: tuple[EditedSeed, ...]

    def specialisation(self) -> dict[str, Score]:
        """Return `target`, `target_gain` and `control` over the seeds; see `tausearch.comparison.Specialisation`."""
        return _over([_specialised(each, self.kept) for each in self.seeds])

    def unlearning(self, coefficient: str) -> dict[str, Score]:
        """Return `target`, `control` and their gains over the seeds, percent; see `tausearch.comparison.Unlearning`."""
        return _over([_unlearned(each, coefficient) for each in self.seeds])

    def summary(self) -> dict[str, dict[str, Score]]:
        """Return every table of the protocol: `specialisation`, and `unlearning/<reading>`."""
        unlearning = {f"unlearning/{name}": self.unlearning(name) for name in COEFFICIENTS}
        return {"specialisation": self.specialisation(), **unlearning}

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form that `tausearch edit --json` prints and the file has."""
        summary = {table: {k: vars(v) for k, v in part.items()} for table, part in self.summary().items()}
        return {**self.model_dump(mode="json"), "summary": summary}

    def save(self, directory: RunDirectory) -> Path:
        """Write it to the run that it is of."""
        return save_file(directory, EDIT, self.as_dict())


def read_edit(directory: RunDirectory) -> EditResult | None:
    """Read what the protocol came to on a run.

    Returns:
        It, or None if it has not been run.

    Raises:
        InputError: If the file cannot be read.
    """
    path = directory.compositions / f"{EDIT}.json"
    return read_file(path, EditResult) if path.exists() else None


def _specialised(each: EditedSeed, kept: Sequence[int]) -> dict[str, float]:
    target, control = _split(each.specialised, kept)
    found = {"target": target, "target_gain": target - _split(each.whole, kept)[0]}
    return found if control is None else {**found, "control": control}


def _unlearned(each: EditedSeed, coefficient: str) -> dict[str, float]:
    """Average over the tasks that are unlearned; both gains are relative to the final accuracy, as in the paper."""
    pairs = [_split(row, [task]) for task, row in enumerate(each.unlearned[coefficient], start=1)]
    target, whole = fmean(target for target, _ in pairs), fmean(each.whole)
    found = {"target": target, "target_gain": target - whole}
    controls = [control for _, control in pairs if control is not None]
    if not controls:
        return found
    return {**found, "control": fmean(controls), "control_gain": fmean(controls) - whole}


def _split(row: Accuracies, tasks: Sequence[int]) -> tuple[float, float | None]:
    """Return the mean accuracy on some tasks, and on all others, if there are any."""
    others = [value for task, value in enumerate(row, start=1) if task not in tasks]
    return fmean(row[task - 1] for task in tasks), fmean(others) if others else None


def _over(rows: Sequence[dict[str, float]]) -> dict[str, Score]:
    return {name: Score.of([row[name] for row in rows]) for name in rows[0]}
