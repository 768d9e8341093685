"""The paper's results: their schema, and access to single cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, FiniteFloat

from checked_input.schema import Strict
from checked_input.yaml_text import read_yaml

FILE = Path(__file__).with_name("paper.yaml")
Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
PaperRow = tuple[Percent | None, ...]


class PaperBenchmark(Strict):
    """A benchmark of the paper with its protocol."""

    title: str
    tasks: int
    epochs: int  # epochs of fine-tuning per task


class Specialisation(Strict):
    """Composing only the vectors of the first, the central and the last task; accuracies in percent."""

    target: Percent  # on those three tasks
    target_gain: FiniteFloat  # `target` less the whole composition's on the same tasks
    control: Percent  # on all others


class Unlearning(Strict):
    """Taking one task's vector out of the composition, averaged over tasks; accuracies in percent."""

    target: Percent  # on the task that is taken out
    target_gain: FiniteFloat  # `target` less the final accuracy
    control: Percent  # on all others
    control_gain: FiniteFloat  # `control` less the final accuracy


class PaperComposition(Strict):
    """The paper's results of composing a method's task vectors."""

    specialisation: Specialisation
    unlearning: Unlearning


@dataclass(frozen=True)
class PaperCell:
    """A method on a benchmark, mean over the paper's runs, percent."""

    accuracy: float  # final accuracy
    std: float | None  # its standard deviation; None for ablations, for which the paper has none
    forgetting: float | None  # final forgetting; None for joint training and for ablations


class PaperResults(Strict):
    """All of the paper's tables. A row has one cell per benchmark, in the order of `benchmarks`."""

    source: str
    backbone: str
    batch_size: int
    runs: int  # number of runs that a mean is over
    benchmarks: dict[str, PaperBenchmark]
    final_accuracy: dict[str, PaperRow]  # method to row, percent
    standard_deviation: dict[str, PaperRow]  # method to row: of the final accuracy over the runs
    forgetting: dict[str, PaperRow]  # method to row, percent
    ablated: str  # the hyperparameter that the ablations vary
    beyond: tuple[str, ...] = ()  # of the regulariser of weights: hyperparameters whose usual value is the paper's
    ablations: dict[str, dict[str, PaperRow]]  # method to the value of that hyperparameter to row: final accuracy
    composition: dict[str, dict[str, PaperComposition]]  # benchmark to method

    @property
    def methods(self) -> tuple[str, ...]:
        """All methods, in the paper's order."""
        return tuple(self.final_accuracy)

    def place(self, method: str) -> int:
        """Return the place of a method in the paper's order; others come last."""
        return self.methods.index(method) if method in self.methods else len(self.methods)

    def cell(self, benchmark: str, method: str, variant: str = "all") -> PaperCell | None:
        """Return a method's results on a benchmark; None if the paper has none.

        `variant` says what is regularised: "all", or "head" or "none" for the ablations.
        """
        if benchmark not in self.benchmarks or method not in self.methods:
            return None
        column = list(self.benchmarks).index(benchmark)
        if variant == "all":
            accuracy, std = self.final_accuracy[method][column], self.standard_deviation[method][column]
            forgetting = self.forgetting[method][column]
        else:
            row = self.ablations.get(method, {}).get(variant)
            accuracy, std, forgetting = None if row is None else row[column], None, None
        return None if accuracy is None else PaperCell(accuracy, std, forgetting)


@cache
def paper_results() -> PaperResults:
    """Return the paper's results, read once."""
    return PaperResults.model_validate(read_yaml(FILE))
