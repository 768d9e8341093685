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
    """A benchmark of the paper with its protocol.

    Attributes:
        epochs: Epochs of fine-tuning per task.
    """

    title: str
    tasks: int
    epochs: int


class Specialisation(Strict):
    """Composing only the vectors of the first, the central and the last task; accuracies in percent.

    Attributes:
        target: On those three tasks.
        target_gain: `target` less the whole composition's on the same tasks.
        control: On all others.
    """

    target: Percent
    target_gain: FiniteFloat
    control: Percent


class Unlearning(Strict):
    """Taking one task's vector out of the composition, averaged over tasks; accuracies in percent.

    Attributes:
        target: On the task that is taken out.
        target_gain: `target` less the final accuracy.
        control: On all others.
        control_gain: `control` less the final accuracy.
    """

    target: Percent
    target_gain: FiniteFloat
    control: Percent
    control_gain: FiniteFloat


class PaperComposition(Strict):
    """The paper's results of composing a method's task vectors."""

    specialisation: Specialisation
    unlearning: Unlearning


@dataclass(frozen=True)
class PaperCell:
    """A method on a benchmark, mean over the paper's runs, percent.

    Attributes:
        accuracy: Final accuracy.
        std: Its standard deviation; None for ablations, for which the paper has none.
        forgetting: Final forgetting; None for joint training and for ablations.
    """

    accuracy: float
    std: float | None
    forgetting: float | None


class PaperResults(Strict):
    """All of the paper's tables. A row has one cell per benchmark, in the order of `benchmarks`.

    Attributes:
        runs: Number of runs that a mean is over.
        final_accuracy: Method to row, percent.
        standard_deviation: Method to row: of the final accuracy over the runs.
        forgetting: Method to row, percent.
        ablated: The hyperparameter that the ablations vary.
        beyond: Hyperparameters that the paper has not, of the regulariser of weights; their usual value is the paper's.
        ablations: Method to the value of that hyperparameter to row: final accuracy.
        composition: Benchmark to method.
    """

    source: str
    backbone: str
    batch_size: int
    runs: int
    benchmarks: dict[str, PaperBenchmark]
    final_accuracy: dict[str, PaperRow]
    standard_deviation: dict[str, PaperRow]
    forgetting: dict[str, PaperRow]
    ablated: str
    beyond: tuple[str, ...] = ()
    ablations: dict[str, dict[str, PaperRow]]
    composition: dict[str, dict[str, PaperComposition]]

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
