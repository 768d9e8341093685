"""Results of the paper's protocol: accuracies of each seed, and the paper's numbers from them. Imports no torch.

Source: the paper, section "On the compositional skills of ITA and IEL", Tables 3 and 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from checked_input.names import counted
from checked_input.schema import Strict
from tausearch.models.merge_configs import PAPER_UNLEARNING_MODE, UNLEARNING_MODES
from tausearch.models.results import EVALUATION, Accuracies, Saved, read_file, save_file
from tausearch.presentation import Column, Table, emphasise, gain, score
from tausearch.runs import RunDirectory, RunSpec, Score


class EvaluatedSeed(Strict):
    """Accuracies of one seed's compositions on each task, percent, over the logits of all classes.

    Attributes:
        whole: The uniform composition.
        specialised: The composition of the kept tasks alone.
        unlearned: Unlearning mode to one row per task u: the composition that unlearns u.
    """

    seed: int
    whole: Accuracies
    specialised: Accuracies
    unlearned: dict[str, tuple[Accuracies, ...]]


class EvaluationResult(Saved):
    """Results of the protocol on one run, or on one folder of vectors.

    `kept` are the tasks of the specialisation, from 1: first, central, last. `label` says which seeds were evaluated,
    if these were not all of the run.
    """

    run: str
    benchmark: str
    methods: tuple[str, ...]
    kept: tuple[int, ...]
    seeds: tuple[EvaluatedSeed, ...]
    label: str = EVALUATION

    def specialisation(self) -> dict[str, Score]:
        """Return `target`, `target_gain` and `control` over the seeds; see `Specialisation` of the paper.

        Up to three tasks all are kept, and there is `target` alone.
        """
        return _scores_over_seeds([_specialised(each, self.kept) for each in self.seeds])

    def unlearning(self, mode: str) -> dict[str, Score]:
        """Return `target`, `control` and their gains over the seeds, percent; see `Unlearning` of the paper."""
        return _scores_over_seeds([_unlearned(each, mode) for each in self.seeds])

    def summary(self) -> dict[str, dict[str, Score]]:
        """Return every table of the protocol: `specialisation`, and `unlearning/<mode>`."""
        unlearning = {f"unlearning/{mode}": self.unlearning(mode) for mode in UNLEARNING_MODES}
        return {"specialisation": self.specialisation(), **unlearning}

    def part_of(self, spec: RunSpec) -> str:
        """Return how many seeds of its run were evaluated, `1 of 2 seeds`; empty for all of them."""
        return f"{len(self.seeds)} of {counted(spec.trials, spec.trial_noun)}" if len(self.seeds) < spec.trials else ""

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form, which `tausearch evaluate --format json` prints and the file holds."""
        summary = {table: {k: vars(v) for k, v in part.items()} for table, part in self.summary().items()}
        return {**self.model_dump(mode="json"), "summary": summary}

    def save(self, directory: RunDirectory) -> Path:
        """Write the result into its run's directory."""
        return save_file(directory, EVALUATION, self.as_dict())


def read_evaluation(directory: RunDirectory) -> EvaluationResult | None:
    """Return the protocol's result on a run, named as its folder is; None without one. See `read_file`."""
    path = directory.compositions / f"{EVALUATION}.json"
    if not path.exists():
        return None
    return read_file(path, EvaluationResult).model_copy(update={"run": directory.name})  # it may have been renamed


def evaluation_table(result: EvaluationResult, part: str = "") -> Table:
    """Return specialisation and unlearning by the paper's protocol. The title names `part`; see `part_of`."""
    whole = ", which are all" if len(result.kept) == len(result.seeds[0].whole) else ""
    kept = f"specialised on tasks {', '.join(map(str, result.kept))}{whole}"
    summaries = {kept: result.specialisation()}
    summaries |= {f"unlearned, {reading}": result.unlearning(reading) for reading in UNLEARNING_MODES}
    parts = ("target", "target_gain", "control", "control_gain")
    rows = [(name, *map(scores.get, parts)) for name, scores in summaries.items()]
    columns = [
        Column(""),
        *(Column("these tasks", score, right=True), Column("gain", gain, right=True)),
        *(Column("the others", score, right=True), Column("gain of the others", gain, right=True)),
    ]
    paper = emphasise([1 + UNLEARNING_MODES.index(PAPER_UNLEARNING_MODE)], "strong")
    over = f" over {part}" if part else ""
    return Table(f"specialisation and unlearning{over}, test accuracy in percent", columns, rows, paper)


def _specialised(each: EvaluatedSeed, kept: Sequence[int]) -> dict[str, float]:
    target, control = _split(each.specialised, kept)
    if control is None:  # all tasks are kept, which is the whole composition: there is no gain to speak of
        return {"target": target}
    return {"target": target, "target_gain": target - _split(each.whole, kept)[0], "control": control}


def _unlearned(each: EvaluatedSeed, mode: str) -> dict[str, float]:
    """Average over the unlearned tasks; both gains are relative to the final accuracy, as in the paper."""
    pairs = [_split(row, [task]) for task, row in enumerate(each.unlearned[mode], start=1)]
    target, whole = fmean(target for target, _ in pairs), fmean(each.whole)
    found = {"target": target, "target_gain": target - whole}
    controls = [control for _, control in pairs if control is not None]
    if not controls:
        return found
    return {**found, "control": fmean(controls), "control_gain": fmean(controls) - whole}


def _split(row: Accuracies, tasks: Sequence[int]) -> tuple[float, float | None]:
    """Return the mean accuracy on some tasks, and on all others; None where no others exist."""
    others = [value for task, value in enumerate(row, start=1) if task not in tasks]
    return fmean(row[task - 1] for task in tasks), fmean(others) if others else None


def _scores_over_seeds(rows: Sequence[dict[str, float]]) -> dict[str, Score]:
    return {name: Score.of([row[name] for row in rows]) for name in rows[0]}
