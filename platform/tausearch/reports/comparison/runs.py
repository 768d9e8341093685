"""The final runs of a storage root, read from their `run.yaml` and `results.json`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checked_input.names import counted
from search_spaces import Scalar
from tausearch.runs import (
    AnySpec,
    ExperimentProtocol,
    FinalSpec,
    RunDirectory,
    Score,
    Storage,
    choice_remark,
    read_scores,
    read_spec,
)
from trainables.errors import InputError
from trainables.methods import known_method
from trainables.metrics import TEST

# Fields of a protocol on which a final run's accuracies do not depend; they depend on the digest of the weights.
FREE_FIELDS = ("split_seed", "backbone_weights", "initial_head")


@dataclass(frozen=True)
class FinalRunResults:
    """A final run with at least one finished seed."""

    spec: FinalSpec
    accuracy: Score  # final accuracy over the finished seeds
    forgetting: Score | None  # final forgetting over the finished seeds; None for methods without
    pooled: Score | None = None  # accuracy over the images of all tasks together; None where it was not measured
    incremental: Score | None = None  # average incremental accuracy; None for a joint method
    choice_remark: str = ""  # that its search chooses another configuration now; else empty

    @property
    def tuned_on(self) -> str | None:
        """The benchmark on which its hyperparameters were tuned; None without a search."""
        return self.spec.tuned_on

    @property
    def marks(self) -> dict[str, Scalar]:
        """The settings that make it another experiment than the plain method: an ablation or another formulation."""
        usual = self._usual
        return {name: self.spec.fixed[name] for name in usual if self.spec.fixed.get(name, usual[name]) != usual[name]}

    @property
    def settings(self) -> dict[str, Scalar]:
        """The marks, and every other hyperparameter that replaces the chosen value (`--set`)."""
        return {**self.marks, **{k: v for k, v in sorted(self.spec.overrides.items()) if k not in self._usual}}

    @property
    def seeds_text(self) -> str:
        """What its accuracies are means of: `3 seeds`, `2 of 3 seeds`, `2 seeds in each of 4 class orders`."""
        had, asked, orders = self.accuracy.seeds, self.spec.trials, len(self.spec.protocol.class_orders or (None,))
        if had < asked:
            return f"{had} of {counted(asked, self.spec.trial_noun)}"
        seeds = counted(len(self.spec.seeds), "seed")
        return f"{seeds} in each of {orders} class orders" if orders > 1 else seeds

    @property
    def accuracy_text(self) -> str:
        """Its accuracy with what this is a mean of: `77.79 ± 0.26 (3)`, `... (2 of 3)`, `... (2 orders x 3 seeds)`."""
        orders, had, asked = self.spec.protocol.class_orders, self.accuracy.seeds, self.spec.trials
        of_each = "" if orders is None else f"{counted(len(orders), 'order')} x {counted(len(self.spec.seeds), 'seed')}"
        some = f"{had} of {asked}" if had < asked else ""
        return f"{self.accuracy.text()} ({': '.join(filter(None, (some, of_each))) or had})"

    @property
    def _usual(self) -> Mapping[str, Scalar]:
        entry = known_method(self.spec.method)
        return {} if entry is None else entry.neutral_values

    @property
    def conditions(self) -> tuple[tuple[str, Any], ...]:
        """What its accuracies depend on besides method, hyperparameters and seeds; equal for comparable runs.

        Of the images only their number: their digest has times, so that it differs between copies.
        """
        images = None if (data := self.spec.data) is None else (data.train, data.evaluation)
        return (*((name, each) for name, each in self.spec.protocol if name not in FREE_FIELDS), ("images", images))

    def has_images_of(self, other: FinalRunResults) -> bool | None:
        """Whether both are of the same images, as far as both note them; None if copies or others of their number."""
        data, others = self.spec.data, other.spec.data
        if data is None or others is None or data.has_images_of(others):
            return True
        return None if (data.train, data.evaluation) == (others.train, others.evaluation) else False


def read_final_runs(storage: Storage) -> tuple[list[FinalRunResults], list[FinalSpec], list[InputError]]:
    """Return final runs with results, oldest first, the others, and faults of unreadable runs."""
    read, faults = storage.read_each(read_final_run)
    found = [run for _, run in read if run is not None]
    without = [spec for spec, run in read if run is None and spec.purpose == "final"]
    return found, without, faults


def latest_per_key(runs: Iterable[FinalRunResults], key: Callable[[FinalRunResults], Any]) -> list[FinalRunResults]:
    """Return one run for each key: the one with the most finished seeds, and of equals the newest.

    Of equals of one search, a run of an earlier choice does not take the place of one of the present choice. Runs come
    oldest first, and so do those that are returned.
    """
    groups: dict[str, list[tuple[int, FinalRunResults]]] = {}
    for place, run in enumerate(runs):
        groups.setdefault(repr(key(run)), []).append((place, run))
    return [run for _, run in sorted(map(_latest, groups.values()), key=lambda found: found[0])]


def _latest(runs: Sequence[tuple[int, FinalRunResults]]) -> tuple[int, FinalRunResults]:
    most = max(run.accuracy.seeds for _, run in runs)
    equals = [(place, run) for place, run in runs if run.accuracy.seeds == most]
    present = {run.spec.source for _, run in equals if not run.choice_remark}
    return [each for each in equals if not each[1].choice_remark or each[1].spec.source not in present][-1]


def describe(settings: dict[str, Scalar]) -> str:
    """Return settings as text: `regularise=none, lr=0.001`."""
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in settings.items()
    )


def protocol_parts(protocol: ExperimentProtocol) -> list[str]:
    """Return what tells two protocols apart, as texts."""
    parts = [counted(protocol.tasks, "task"), counted(protocol.epochs, "epoch"), f"batch {protocol.batch_size}"]
    parts.append(protocol.backbone)
    parts += [] if protocol.precision == "fp32" else [protocol.precision]
    return [*parts, *([protocol.orders_text] if protocol.orders_text else [])]


def read_final_run(directory: RunDirectory) -> tuple[AnySpec, FinalRunResults | None]:
    """Return a run's specification, and its results: None for a search and for a run without a finished seed."""
    spec = read_spec(directory)
    if spec.purpose == "search":
        return spec, None
    scores = read_scores(spec, directory)
    accuracy = scores.get(TEST.final_accuracy)
    if accuracy is None:
        return spec, None
    others = (TEST.forgetting, TEST.pooled_accuracy, TEST.average_incremental_accuracy)
    forgetting, pooled, incremental = map(scores.get, others)
    earlier = choice_remark(directory, spec)
    return spec, FinalRunResults(spec, accuracy, forgetting, pooled, incremental, earlier)
