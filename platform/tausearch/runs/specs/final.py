"""The specification of a final run."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import NonNegativeInt, PositiveInt, model_validator

from checked_input.schema import UNUSED, Strict
from search_spaces import Scalar
from tausearch.runs.constraints import Constraint
from tausearch.runs.specs.run import Role, RunSpec, Seed


class Retraining(Strict):
    """How a final run trains tasks of another one again, on a benchmark without some of its classes."""

    run: str  # the other run
    run_id: str  # its id
    forgotten: tuple[PositiveInt, ...]  # classes that are left out: places in the class order of that run, from 1
    kept: NonNegativeInt  # number of first tasks that are taken over: no image of these classes has reached them


class FinalSpec(RunSpec):
    """The specification of a final run; see `RunSpec` for the other fields."""

    role: ClassVar[Role] = "seed"
    purpose: Literal["final"] = "final"
    constraints: ClassVar[tuple[Constraint, ...]] = ()  # which only searches have
    seeds: tuple[Seed, ...]  # of its trials, each once per class order
    source: str | None = None  # the search whose best configuration it trains, if any
    source_id: Annotated[str, UNUSED] = ""  # its id: other storages have searches of this name; empty if not known
    tuned_on: str | None = None  # the benchmark of that search
    overrides: dict[str, Scalar] = {}  # values that replace the chosen ones (`--set`)
    retrained: Retraining | None = None  # None unless it trains tasks of another run again
    measure_removability: bool = False  # whether trials measure what a task loses without its vector, as a bound asks
    save_curvature: bool = False  # whether the curvature of each task is written beside its vector, for merging rules
    classes: PositiveInt | None = None  # number of classes of a run over class orders, whose tasks differ; else None

    @model_validator(mode="after")
    def _has_a_seed_for_each_trial(self) -> FinalSpec:
        orders = len(self.protocol.class_orders or (None,))
        if len(set(self.seeds)) * orders != self.trials:
            raise ValueError(f"seeds must be {self.trials // orders} different ones, as trials says")
        return self

    @property
    def class_count(self) -> int | None:
        """The number of classes of all tasks; None where it is not known."""
        return self.classes or super().class_count

    @property
    def removability(self) -> bool:
        """Whether its trials measure what each task loses without its vector."""
        return self.measure_removability

    def is_of(self, search: str, search_id: object) -> bool:
        """Whether the search of this name and id has chosen its configuration; an empty id is not known."""
        return self.source == search and (self.source_id == search_id or "" in (self.source_id, search_id))

    def label(self, number: int) -> str:
        """Return the name of a trial for people."""
        order = self.class_order(number)
        return f"seed {self.seed_of(number)}" + ("" if order is None else f" (class order {order})")

    def class_order(self, number: int) -> int | None:
        """Return the seed of the class order of a trial; all seeds of the first order come first."""
        orders = self.protocol.class_orders
        return None if orders is None else orders[number // len(self.seeds)]

    def seed_of(self, number: int) -> int:
        """Return the seed of a trial."""
        return self.seeds[number % len(self.seeds)]
