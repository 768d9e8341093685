"""What a search for the parameters of a merging rule has found. Imports no torch."""

from __future__ import annotations

from checked_input.schema import Strict
from tausearch.runs import Score


class RuleTrial(Strict):
    """Values of a rule's parameters, and what they came to.

    Attributes:
        parameters: The value of each parameter.
        accuracies: For each seed the mean validation accuracy over the tasks of positive weight, percent.
    """

    parameters: dict[str, float]
    accuracies: tuple[float, ...]

    @property
    def score(self) -> Score:
        """Mean and deviation over the seeds."""
        return Score.of(self.accuracies)


class RuleSearch(Strict):
    """How the parameters of a rule were chosen: by validation images alone.

    Attributes:
        seed: The seed of the search.
        searched: The names of the parameters that were searched.
        images: The number of validation images of the tasks of positive weight.
        trials: The trials in their order. The first has the defaults, and the values that were given.
        chosen: The number of the chosen trial, from 0: the best, the earlier one of equals.
        plain_sum: The accuracies of the weighted sum, as those of a trial.
    """

    seed: int
    searched: tuple[str, ...]
    images: int
    trials: tuple[RuleTrial, ...]
    chosen: int
    plain_sum: tuple[float, ...]

    def scores(self) -> dict[str, Score]:
        """Return the scores to compare: of the chosen values, of the first trial, and of the weighted sum."""
        return {
            "chosen": self.trials[self.chosen].score,
            "defaults": self.trials[0].score,
            "plain_sum": Score.of(self.plain_sum),
        }


def best_of(trials: tuple[RuleTrial, ...]) -> int:
    """Return the number of the best trial; of equals the earlier one."""
    return max(range(len(trials)), key=lambda number: (trials[number].score.mean, -number))
