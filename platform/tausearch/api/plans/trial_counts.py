"""The number of trials of a search, which its algorithm and its grid may limit."""

from __future__ import annotations

from checked_input.names import counted
from checked_input.ranges import TRIALS
from search_spaces import ResolvedSpace
from tausearch.runs import SearchSpec
from trainables.errors import InputError
from trainables.methods import get_method

DEFAULT_TRIALS = 12
MOST_GP_TRIALS = 1_000


def trial_count(trials: int | None, algorithm: str, points: int | None, space: ResolvedSpace | SearchSpec) -> int:
    """Return the number of trials, by default the whole grid, 12, or 1 where all is fixed; see `require_enough`."""
    require_enough(trials, algorithm, points, space)
    usual = DEFAULT_TRIALS if space.space else 1
    if points is not None:
        usual = points if algorithm == "grid" else min(points, usual)
    return trials or usual


def require_enough(trials: int | None, algorithm: str, points: int | None, space: ResolvedSpace | SearchSpec) -> None:
    """Refuse trials beyond `points`, the number of points that the algorithm tries once each; None: any number."""
    if trials is not None and algorithm == "gp" and trials > MOST_GP_TRIALS:
        slow = "a proposal takes seconds then, and its time grows faster than the number of trials"
        raise InputError(f"--trials {trials}: gp takes {MOST_GP_TRIALS} at most, as {slow}; tpe takes more")
    if algorithm == "grid" and points is not None and points > (most := int(TRIALS.high)):
        raise InputError(f"the grid has {points:,} points, of at most {most:,}; tpe and random need no grid")
    if trials is not None and points is not None and trials > points:
        has = "the grid has" if algorithm == "grid" else f"{algorithm} tries each point of the space once, and it has"
        raise InputError(f"--trials {trials}: {has} {counted(points, 'point')}")
    if trials is not None and algorithm != "grid" and not space.space and trials > 1:
        idle = "".join(f" (no effect: {each})" for each in get_method(space.method).idle_words(space.fixed))
        one = "so there is one configuration to try"
        raise InputError(f"--trials {trials}: every hyperparameter is fixed{idle}, {one}")
