"""The config of a trial: plain values, read without torch and Ray."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

Purpose = Literal["search", "final"]
Precision = Literal["fp32", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


@dataclass(frozen=True, kw_only=True)
class TrialConfig:
    """All inputs of a trial, and where it runs.

    Attributes:
        run: Name of the trial's search or final run.
        trial: Number of the trial in its run, from 0.
        benchmark: Name of the benchmark, as `BenchmarkRef` reads it.
        purpose: "search" measures on the validation split, "final" on the test split.
        split_seed: The seed of the validation split.
        method: Name of the method.
        hyperparameters: The method's hyperparameters.
        seed: The seed of the trial.
        backbone: Name of the backbone.
        weights: Local weights file of the backbone, or None.
        precision: Precision of fine-tuning and evaluation.
        gpus_per_trial: 1/k of a GPU, or 0 to compute on the CPU.
        data_root: Folder of the published datasets, or None.
        code_folder: Folder of the module of a benchmark `MODULE:NAME`; None forbids the import.
        cpus_per_trial: CPU threads; results depend on their number.
        cache: Directory of the pre-consolidation cache, or None.
        cache_bytes: Bound on the cache's size, bytes, or None.
        artifacts: Folder for task vectors, or None.
        blobs: Folder for constants that the trial's checkpoints share; None writes all into each checkpoint.
        resume_from: Checkpoint folder of an earlier attempt, or None.
    """

    run: str = ""
    trial: int
    benchmark: str
    purpose: Purpose
    split_seed: int
    method: str
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    backbone: str
    weights: str | None = None
    precision: Precision = "fp32"
    gpus_per_trial: float = 0
    data_root: str | None = None
    code_folder: str | None = None
    cpus_per_trial: int = 1
    cache: str | None = None
    cache_bytes: int | None = None
    artifacts: str | None = None
    blobs: str | None = None
    resume_from: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form that Tune passes to a worker."""
        return asdict(self)
