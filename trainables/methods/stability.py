"""Stability of a quadratic penalty's gradient steps: theta <- theta - step * curvature * theta diverges above 2."""

from __future__ import annotations

from trainables.methods.contract import ExtraMetric

EULER_FACTOR = "train/euler_factor"  # metric: largest step size times curvature of a penalty during a task
EULER_LIMIT = 2.0  # of that product; explicit Euler


def euler_factor(formula: str, steps: str) -> ExtraMetric:
    """Declare the metric; `formula` and `steps` name a method's product and its steps in the warning."""
    warning = (
        f"trial {{trial}}: {formula} reaches {{worst:.3g}} (from task {{task}}); {steps} are stable below {{limit:g}}"
    )
    return ExtraMetric(EULER_FACTOR, unit="1", limit=EULER_LIMIT, warning=warning)
