"""Check a request for replays, and run them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tausearch.runs import ALGORITHMS, ENOUGH, SCHEDULERS, Algorithm, Record, Scheduler, SearchSpec, Storage, read_spec
from tausearch.studies.options import algorithm_named, different_numbers, scheduler_named
from tausearch.studies.recorded_trials import RecordedTrials
from tausearch.studies.replay_comparison import Comparison, Outcome
from tausearch.studies.replays import replay
from tausearch.studies.study import FIRST_STOP
from trainables.errors import InputError

DEFAULT_SEEDS = (0, 1, 2, 3, 4)


def replays_of(
    storage: Storage,
    name: str,
    *,
    algorithm: str | None = None,
    scheduler: str | None = None,
    trials: int | None = None,
    seeds: Sequence[int] = DEFAULT_SEEDS,
) -> Comparison:
    """Replay a recorded search under other algorithms and rules for stopping early; nothing is trained.

    Args:
        storage: The storage root.
        name: Name of the search.
        algorithm: The algorithm; None for each of them but the grid.
        scheduler: The rule for stopping early; None for each that goes with the algorithm.
        trials: Number of trials of a replay; None for half of those that are recorded.
        seeds: Seeds of the algorithm, a replay for each.

    Returns:
        What each setting would have found.

    Raises:
        InputError: If there is no such search, its record says too little, or something asked for is not allowed.
    """
    directory = storage.run(name)
    spec = read_spec(directory)
    if spec.purpose == "final" or not spec.space:
        raise InputError(f"run {spec.name!r}: nothing was searched in it, so there is nothing to replay")
    recorded = RecordedTrials(Record(directory.record).trials(), spec.space)
    _require_enough(spec.name, recorded)
    settings = _settings(algorithm, scheduler, spec.steps)
    count = _trial_count(trials, len(recorded.trials))
    different_numbers("--seeds", seeds)
    outcomes = [
        Outcome(a, s, tuple(replay(_asked(spec, a, s, count, seed), recorded) for seed in seeds)) for a, s in settings
    ]
    return Comparison(spec, recorded, count, outcomes)


def _asked(spec: SearchSpec, algorithm: Algorithm, scheduler: Scheduler, trials: int, seed: int) -> SearchSpec:
    changes = {"algorithm": algorithm, "scheduler": scheduler, "trials": trials, "seed": seed}
    return spec.model_copy(update=changes)


def _require_enough(name: str, recorded: RecordedTrials) -> None:
    finished = sum(trial.status == "complete" for trial in recorded.trials)
    if finished < ENOUGH:
        raise InputError(f"run {name!r}: has {finished} finished trials; a replay needs at least {ENOUGH}")


def _settings(algorithm: str | None, scheduler: str | None, steps: int) -> list[tuple[Algorithm, Scheduler]]:
    """Return the pairs to replay: the named one, or every valid pair."""
    algorithms = [each for each in ALGORITHMS if each != "grid"] if algorithm is None else [algorithm_named(algorithm)]
    if scheduler is not None:
        if algorithm is None and scheduler != "none":
            algorithms.remove("gp")
        return [(each, scheduler_named(scheduler, each, steps)) for each in algorithms]
    return [(a, s) for a in algorithms for s in SCHEDULERS if s == "none" or (a != "gp" and steps > FIRST_STOP)]


def _trial_count(trials: int | None, recorded: int) -> int:
    if trials is not None and not 1 <= trials <= recorded:
        raise InputError(f"--trials must be from 1 to {recorded}, the number of recorded trials, got {trials}")
    return trials or math.ceil(recorded / 2)
