"""What a search for the parameters of a merging rule has found. Imports no torch."""

from __future__ import annotations

from pydantic import FiniteFloat

from checked_input.names import counted
from checked_input.schema import Strict
from tausearch.presentation import Column, Table, numbers, score
from tausearch.runs import Score


class RuleTrial(Strict):
    """Values of a rule's parameters, and what they came to."""

    parameters: dict[str, float]  # the value of each parameter
    accuracies: tuple[FiniteFloat, ...]  # by seed: the mean validation accuracy over tasks of positive weight, percent

    @property
    def score(self) -> Score:
        """Mean and deviation over the seeds."""
        return Score.of(self.accuracies)


class RuleSearch(Strict):
    """How the parameters of a rule were chosen: by validation images alone."""

    seed: int  # the seed of the search
    searched: tuple[str, ...]  # the names of the parameters that were searched
    images: int  # the number of validation images of the tasks of positive weight
    trials: tuple[RuleTrial, ...]  # in their order; the first has the defaults, and the values that were given
    chosen: int  # the number of the chosen trial, from 0: the best, the earlier one of equals
    plain_sum: tuple[FiniteFloat, ...]  # the accuracies of the weighted sum, as those of a trial

    def scores(self) -> dict[str, Score]:
        """Return the scores to compare: of the chosen values, of the first trial, and of the weighted sum."""
        return {
            "chosen": self.trials[self.chosen].score,
            "defaults": self.trials[0].score,
            "plain_sum": Score.of(self.plain_sum),
        }


def rule_search_table(search: RuleSearch) -> Table:
    """Return the chosen values beside the rule's defaults and the weighted sum, on validation images."""
    names, scores = list(search.searched), search.scores()
    chosen, defaults = search.trials[search.chosen].parameters, search.trials[0].parameters
    rows: list[tuple[object, ...]] = [
        (f"chosen (trial {search.chosen})", *(f"{chosen[name]:g}" for name in names), scores["chosen"]),
        ("defaults", *(f"{defaults[name]:g}" for name in names), scores["defaults"]),
        ("plain sum", *("" for _ in names), scores["plain_sum"]),
    ]
    columns = [Column("values"), *numbers(*names), *numbers("validation accuracy", format=score)]
    return Table("", columns, rows)


def chosen_by_line(search: RuleSearch) -> str:
    """Return the line about the images by which the values were chosen."""
    tried = f"{counted(len(search.trials), 'trial')}, seed {search.seed}"
    return (
        f"Chosen by {counted(search.images, 'validation image')} ({tried}), which the final run has trained on, too."
        " The test images below were not used."
    )


def no_gain_line(search: RuleSearch) -> str | None:
    """Return the line about values that are no better than the weighted sum; None where the chosen ones are."""
    scores = search.scores()
    if scores["plain_sum"].mean < scores["chosen"].mean:
        return None
    return "On these images no value is better than the plain sum, which `compose` without --rule gives."
