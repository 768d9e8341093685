"""ITA and IEL in the `official` formulation, with and without their regularisers; ours alone.

The figures of mammoth's `SecondOrder` beside them were carried over: no command runs it for all systems.
"""

from __future__ import annotations

from typing import Any

from benchmarks.authors.parity.shared import Run, ours_alone
from benchmarks.authors.point import EPOCHS_PRE, LR_PRE

STRENGTHS = {  # of the regulariser on tau and the learning rate, by system
    "ita-fft": (50.0, 0.001),
    "ita-lora": (50.0, 0.01),
    "ita-ia3": (5.0, 0.01),
    "iel-fft": (25.0, 0.001),
    "iel-lora": (100.0, 0.01),
    "iel-ia3": (20.0, 0.01),
}


def _run(system: str, regularised: bool) -> Run:
    strength, lr = STRENGTHS[system]
    name = {"ita": "alpha", "iel": "beta"}[system.partition("-")[0]]
    strengths = {name: strength, f"{name}_cls": 0.5, f"{name}_cls_prior": 0.015}
    given = strengths if regularised else dict.fromkeys(strengths, 0.0)
    fixed = {"lr": lr, "lr_pre": LR_PRE, "epochs_pre": EPOCHS_PRE, "formulation": "official", "fisher_passes": "all"}
    return Run(method=system, hyperparameters=given | fixed)


RUNS = {(system, word): _run(system, word == "yes") for system in STRENGTHS for word in ("yes", "no")}


def run() -> list[dict[str, Any]]:
    """Measure ours over the seeds."""
    return [{"regularised": word, **ours_alone(each)} for (_, word), each in RUNS.items()]
