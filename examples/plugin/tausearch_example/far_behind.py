"""A pruner that stops a trial which is far behind the best at the same task."""

from __future__ import annotations

from optuna import Study
from optuna.pruners import BasePruner
from optuna.trial import FrozenTrial


class FarBehind(BasePruner):
    """Stops a trial by so many points, from task two on."""

    def __init__(self, points: float = 20.0) -> None:
        self.points = points

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Return whether the trial should stop."""
        step = trial.last_step
        if step is None or step < 2:
            return False
        others = [each.intermediate_values.get(step) for each in study.get_trials(deepcopy=False)]
        best = max(value for value in others if value is not None)
        return trial.intermediate_values[step] < best - self.points
