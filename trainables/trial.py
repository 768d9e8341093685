"""The Ray Tune Trainable: one step is one task. It contains no science."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from ray import tune

from trainables.backbones import Backbone, InputSpec
from trainables.config import Purpose, TrialConfig
from trainables.data import Benchmark, build_benchmark, get_source, require_counts
from trainables.device import claim, peak_bytes, release
from trainables.errors import DivergedError
from trainables.metrics import PEAK_GPU_BYTES
from trainables.process import settle
from trainables.sequence import IncrementalSequence
from trainables.state import Checkpoints, Heartbeat
from trainables.user_code import allow_code, explaining


def build_sequence(config: TrialConfig) -> IncrementalSequence:
    """Make the sequence of a trial, and apply a trial's settings to this process."""
    settle(config.cpus_per_trial)
    for name, folder in config.code.items():
        allow_code(name, folder)
    backbone = Backbone.of(config.backbone, config.backbone_weights, config.initial_head)
    benchmark = _benchmark(config.benchmark, config.data_root, config.purpose, config.split_seed, backbone.input)
    if config.images is not None:
        require_counts(config.run, config.images, benchmark.counts, f"{config.benchmark}: ")
    return IncrementalSequence(
        benchmark,
        config.method,
        config.hyperparameters,
        backbone=backbone,
        seed=config.seed,
        device=claim(config.gpus_per_trial),
        precision=config.precision,
        cache=None if config.cache is None else Path(config.cache),
        cache_bytes=config.cache_bytes,
        artifacts=None if config.artifacts is None else Path(config.artifacts),
        save_curvature=config.save_curvature,
        removability=config.removability,
        on_epoch=Heartbeat(None if config.checkpoints is None else Path(config.checkpoints)),
    )


@lru_cache(maxsize=1)
def _benchmark(name: str, data_root: str | None, purpose: Purpose, split_seed: int, reads: InputSpec) -> Benchmark:
    """Build a benchmark once per worker process; trials in the process share it, unchanged."""
    return build_benchmark(get_source(name, data_root), purpose, split_seed, reads)


class TrialTrainable(tune.Trainable):
    """Runs an `IncrementalSequence` task by task; each result is the metrics row of one task.

    A trial that diverges ends normally with `diverged` in its last result, because a retry would not help. The trial
    writes the checkpoint of a task before it reports the task: Tune would need another call for each.
    """

    sequence: IncrementalSequence

    def setup(self, config: dict[str, Any]) -> None:
        """Build the sequence, and continue from its checkpoint if there is one.

        The first step raises an error of this. Tune then says which error it was, and tries the trial again. Of an
        error in a setup it says that the process died, and it gives the trial up if another had the process before.
        """
        self._failure: Exception | None = None
        try:
            self._build(TrialConfig(**config))
        except Exception as error:
            self._failure = error

    @explaining()
    def _build(self, trial: TrialConfig) -> None:
        self.sequence = build_sequence(trial)
        self._checkpoints = Checkpoints(None if trial.checkpoints is None else Path(trial.checkpoints))
        if (state := self._checkpoints.read(trial.tasks_done)) is not None:
            self.sequence.load_state(state)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Reuse the process for another trial: drop the last trial's state, keep imports and images."""
        self.cleanup()
        release()
        self.setup(new_config)
        return True

    def cleanup(self) -> None:
        """Release resources that trials share."""
        if hasattr(self, "sequence"):  # missing after a failed setup
            self.sequence.close()
            del self.sequence

    def step(self) -> dict[str, Any]:
        """Run one task and return its metrics row."""
        if self._failure is not None:
            raise self._failure
        return self._run_next_task()

    @explaining()
    def _run_next_task(self) -> dict[str, Any]:
        try:
            row: dict[str, Any] = dict(self.sequence.run_next_task())
        except DivergedError as error:
            # The lowest accuracy, so that every comparison at this task ranks the trial last.
            worst = {self.sequence.benchmark.metrics.average_accuracy: 0.0}
            return {"task": float(error.task), **worst, "diverged": str(error), "done": True}
        if peak := peak_bytes():
            row[PEAK_GPU_BYTES] = float(peak)
        if not self.sequence.finished:
            self._checkpoints.write(self.sequence.tasks_done, self.sequence.state())
        return {**row, "done": self.sequence.finished}
