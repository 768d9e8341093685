"""The final run: the chosen configuration trained on the whole training set, tested, for several seeds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tausearch.api.concluding import conclude
from tausearch.api.planning import plan_training
from tausearch.api.requests import TrainRequest, with_fields_of
from tausearch.choosing import FixedSource
from tausearch.driving import Job, drive
from tausearch.runs import RunResult, TrialTable, created, summarise


@dataclass(frozen=True)
class FinalResult(RunResult):
    """Test results of a chosen configuration.

    Attributes:
        summary: Metric to its mean and standard deviation over the seeds, percent.
        results_file: The file that has them.
    """

    summary: dict[str, dict[str, float]]
    results_file: Path


@with_fields_of(TrainRequest)
def train(request: TrainRequest) -> FinalResult:
    """Train a chosen configuration on all training data, once per seed, and test it.

    Takes the fields of `TrainRequest`.

    Returns:
        Every seed's trial, and mean and standard deviation of test accuracy and forgetting. Task vectors and adapters
        lie in the run directory.

    Raises:
        InputError: Before any work, if something in the request, or the best file's protocol, is wrong.
    """
    plan = plan_training(request)
    with created(plan.spec, plan.storage, rename=not plan.named) as (spec, directory):
        source = FixedSource((number, {}) for number in range(len(spec.seeds)))
        job = Job(spec, plan.storage, directory, TrialTable(), source, partial(conclude, spec, directory))
        run = drive(job, address=request.address, progress_to=request.progress_to)
    return FinalResult(**vars(run), summary=summarise(run.trials), results_file=directory.results_file)
