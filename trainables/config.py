"""The config of a trial: plain values, read without torch and Ray."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

Purpose = Literal["search", "final"]
Precision = Literal["fp32", "tf32", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
# The two methods between which another is expected: classifiers on the frozen backbone, all tasks trained at once.
BOUNDS = LOWER_BOUND, UPPER_BOUND = ("probe", "joint")


@dataclass(frozen=True, kw_only=True)
class TrialConfig:
    """All inputs of a trial, and where it runs; a field that is None is not used."""

    run: str = ""  # name of the trial's search or final run
    trial: int  # number in its run, from 0
    benchmark: str  # as `BenchmarkRef` reads it
    purpose: Purpose  # "search" measures on the validation split, "final" on the test split
    split_seed: int  # of the validation split
    images: tuple[int, int] | None = None  # to train and to evaluate on, as its run noted them; None: not compared
    method: str
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    backbone: str
    backbone_weights: str | None = None  # local weights file
    initial_head: str | None = None  # file of embeddings of the class names
    precision: Precision = "fp32"  # of fine-tuning and evaluation
    gpus_per_trial: float = 0  # 1/k of a GPU, or 0 to compute on the CPU
    data_root: str | None = None  # folder of the published datasets
    code: dict[str, str] = field(default_factory=dict)  # each `MODULE:NAME` that may be imported, and its folder
    cpus_per_trial: int = 1  # threads; results depend on their number
    cache: str | None = None  # directory of the pre-consolidation cache
    cache_bytes: int | None = None  # bound on the cache's size
    artifacts: str | None = None  # folder for task vectors
    save_curvature: bool = False  # write the curvature of each task beside its vector
    checkpoints: str | None = None  # folder of the trial's checkpoints; None writes none
    removability: bool = False  # measure after the last task what each task loses without its vector
    tasks_done: int = 0  # in the record; the trial goes on from its newest checkpoint after at most so many tasks

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form that Tune passes to a worker."""
        return asdict(self)
