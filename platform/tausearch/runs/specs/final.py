"""The specification of a final run."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import NonNegativeInt, PositiveInt, model_validator

from checked_input.schema import UNUSED, Strict
from search_spaces import Scalar
from tausearch.runs.constraints import Constraint
from tausearch.runs.specs.run import Role, RunSpec, Seed


class Retraining(Strict):
    """How a final run trains tasks of another one again, on a benchmark without some of its classes.

    Attributes:
        run: The other run.
        run_id: Its id.
        forgotten: The classes that are left out: places in the class order of the other run, from 1.
        kept: Number of first tasks that are taken over, because no image of these classes has reached them.
    """

    run: str
    run_id: str
    forgotten: tuple[PositiveInt, ...]
    kept: NonNegativeInt


class FinalSpec(RunSpec):
    """The specification of a final run; see `RunSpec` for the other fields.

    Attributes:
        seeds: The seeds of its trials, each once per class order.
        source: The search whose best configuration it trains, if any.
        source_id: The id of that search, as another storage has searches of the same names; empty where not known.
        tuned_on: The benchmark of that search.
        overrides: Values that replace the chosen ones (`--set`).
        retrained: None unless it trains tasks of another run again.
        measure_removability: Whether its trials measure what each task loses without its vector, because a bound of the
            search asked for it.
        save_curvature: Whether its trials write the curvature of each task beside its vector, for merging rules.
        classes: The number of classes of a run over class orders, in which each order has tasks of its own; None of
            other runs and in those of earlier versions.
    """

    role: ClassVar[Role] = "seed"
    purpose: Literal["final"] = "final"
    constraints: ClassVar[tuple[Constraint, ...]] = ()  # which only searches have
    seeds: tuple[Seed, ...]
    source: str | None = None
    source_id: Annotated[str, UNUSED] = ""
    tuned_on: str | None = None
    overrides: dict[str, Scalar] = {}
    retrained: Retraining | None = None
    measure_removability: bool = False
    save_curvature: bool = False
    classes: PositiveInt | None = None

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
