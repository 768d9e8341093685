"""The Trainable: checkpoints, config and steps; `test_sequence` tests the loop that it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from trainables import trial
from trainables.backbones import glyph_vit
from trainables.config import TrialConfig
from trainables.errors import DivergedError
from trainables.metrics import VALIDATION
from trainables.state import State, manifest_of, read_state


class Counting:
    """A sequence with one more constant after every task."""

    def __init__(self, first: float = 0.0) -> None:
        self.first = first
        self.done = 0

    def run_next_task(self) -> None:
        self.done += 1

    def state(self) -> State:
        experts = {f"expert/{t}": torch.full((100,), self.first + t) for t in range(self.done)}
        return State({"last": torch.tensor(self.done)}, experts, {"done": self.done})

    def load_state(self, state: State) -> None:
        self.done = int(state.values["done"])  # type: ignore[arg-type]
        assert all(torch.equal(state.constant[name], value) for name, value in self.state().constant.items())

    closed = False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TrialConfig:
    monkeypatch.setattr(trial, "build_sequence", lambda config: Counting())
    return TrialConfig(
        trial=0, benchmark="b", purpose="search", split_seed=0, method="m", backbone="v", blobs=str(tmp_path / "blobs")
    )


def checkpoint(running: trial.Trial, folder: Path) -> Path:
    folder.mkdir()
    running.sequence.run_next_task()
    running.save_checkpoint(str(folder))
    return folder


@pytest.mark.parametrize("same_process", [True, False])
def test_a_trial_writes_its_constants_once_over_all_its_attempts(
    config: TrialConfig, tmp_path: Path, same_process: bool
) -> None:
    first = trial.Trial(config.as_dict())
    checkpoint(first, tmp_path / "1")
    folder = checkpoint(first, tmp_path / "2")
    blobs = {path: path.stat().st_mtime_ns for path in (tmp_path / "blobs").iterdir()}
    assert len(blobs) == 2
    resumed = replace(config, resume_from=str(folder)).as_dict()
    if same_process:
        second = first
        assert second.reset_config(resumed)
    else:
        second = trial.Trial(resumed)
    assert second.sequence.done == 2  # type: ignore[attr-defined]
    checkpoint(second, tmp_path / "3")
    now = {path: path.stat().st_mtime_ns for path in (tmp_path / "blobs").iterdir()}
    assert len(now) == 3 and now.items() >= blobs.items()
    assert len(set(manifest_of(tmp_path / "3").values())) == 3


def test_the_next_trial_of_a_process_knows_nothing_of_the_last_ones_constants(
    config: TrialConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = trial.Trial(config.as_dict())
    checkpoint(process, tmp_path / "1")
    old, released = process.sequence, list[bool]()
    monkeypatch.setattr(trial, "release", lambda: released.append(old.closed))  # type: ignore[attr-defined]
    process.reset_config(replace(config, trial=1, blobs=str(tmp_path / "other")).as_dict())
    checkpoint(process, tmp_path / "2")
    assert len(list((tmp_path / "other").iterdir())) == 1 and released == [True]
    process.reset_config(replace(config, trial=2, blobs=None).as_dict())
    checkpoint(process, tmp_path / "3")
    assert not manifest_of(tmp_path / "3")
    trial.Trial(replace(config, blobs=None, resume_from=str(tmp_path / "3")).as_dict())


def test_a_trial_that_starts_over_does_not_take_its_old_constants_for_the_new(
    config: TrialConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = trial.Trial(config.as_dict())
    checkpoint(process, tmp_path / "1")
    monkeypatch.setattr(trial, "build_sequence", lambda config: Counting(5.0))  # as if numbers came out otherwise
    process.reset_config(config.as_dict())
    constant = read_state(checkpoint(process, tmp_path / "2"), tmp_path / "blobs").constant
    assert constant["expert/0"].eq(5.0).all()


def test_a_trial_is_a_function_of_all_of_its_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    original, build = trial.get_source, trial.build_benchmark
    monkeypatch.setattr(trial, "settle", lambda threads: asked.update(threads=threads))
    monkeypatch.setattr(trial, "claim", lambda share: asked.update(share=share) or torch.device("cpu:0"))
    monkeypatch.setattr(trial, "allow_code", lambda name, folder: asked.setdefault("code", {}).update({name: folder}))
    monkeypatch.setattr(trial, "get_source", lambda name, root: asked.update(root=root) or original(name, root))
    monkeypatch.setattr(
        trial, "build_benchmark", lambda source, *rest: asked.update(built=rest) or build(source, *rest)
    )
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(glyph_vit.WEIGHTS.read_bytes())
    given = {"alpha": 1.0, "alpha_cls": 0.1, "alpha_cls_prior": 0.01, "lr": 0.01}
    sequence = trial.build_sequence(
        TrialConfig(
            trial=3,
            benchmark="digits?tasks=2",
            purpose="final",
            split_seed=6,
            method="ita-ia3",
            hyperparameters=given,
            seed=4,
            backbone="glyph_vit",
            backbone_weights=str(weights),
            precision="bf16",
            gpus_per_trial=0.5,
            data_root="/data",
            code={"own:X": "/code", "other:Y": "/more"},
            cpus_per_trial=2,
            blobs=str(tmp_path / "blobs"),
            cache=str(tmp_path / "cache"),
            cache_bytes=77,
            artifacts=str(tmp_path / "vectors"),
            removability=True,
        )
    )
    method: Any = sequence.method
    assert asked.pop("built") == ("final", 6, sequence.backbone.input)  # whatever the benchmark's own backbone reads
    assert asked == {"threads": 2, "share": 0.5, "code": {"own:X": "/code", "other:Y": "/more"}, "root": "/data"}
    assert sequence.benchmark.purpose == "final" and sequence.benchmark.split_seed == 6
    assert (sequence.entry.name, len(sequence.tasks), method.rule.config.alpha) == ("ita-ia3", 2, 1.0)
    context = method.context
    assert (context.seed, context.precision, context.num_tasks) == (4, "bf16", 2)
    assert sequence.device == context.device == torch.device("cpu:0") and sequence.left_out is not None
    assert context.on_epoch.folder == tmp_path / "blobs"
    assert context.backbone == sequence.backbone and sequence.backbone.weights == weights
    assert (context.epochs, context.batch_size) == (sequence.benchmark.spec.epochs, sequence.benchmark.spec.batch_size)
    (before,) = sequence.preparer.providers
    assert before.cache is not None
    assert (before.seed, before.cache.folder, before.cache.max_bytes) == (4, tmp_path / "cache", 77)
    assert (before.fingerprint, before.purpose) == (sequence.benchmark.fingerprint, "final")
    assert (before.device, before.backbone) == (context.device, sequence.backbone)
    assert before.preparation == method.rule.config.preconsolidation and before.spec == sequence.benchmark.spec
    assert sequence.artifacts == tmp_path / "vectors"


def test_an_ended_process_lets_go_of_what_trials_share(config: TrialConfig) -> None:
    running = trial.Trial(config.as_dict())
    running.cleanup()
    assert running.sequence.closed  # type: ignore[attr-defined]
    trial.Trial.__new__(trial.Trial).cleanup()  # its setup has failed


class Ending(Counting):
    """A sequence of two tasks; the second may diverge."""

    benchmark = SimpleNamespace(metrics=VALIDATION)
    diverges = False

    @property
    def finished(self) -> bool:
        return self.done == 2

    def run_next_task(self) -> dict[str, float]:  # type: ignore[override]
        if self.done == 1 and self.diverges:
            raise DivergedError(2, 7)
        self.done += 1
        return {"task": float(self.done), "val/average_accuracy": 50.0}


@pytest.mark.parametrize("diverges", [False, True])
def test_a_step_is_a_task_and_divergence_is_an_end(
    config: TrialConfig, monkeypatch: pytest.MonkeyPatch, diverges: bool
) -> None:
    monkeypatch.setattr(Ending, "diverges", diverges)
    monkeypatch.setattr(trial, "build_sequence", lambda config: Ending())
    running = trial.Trial(config.as_dict())
    assert running.step() == {"task": 1.0, "val/average_accuracy": 50.0, "done": False}
    monkeypatch.setattr(trial, "peak_bytes", lambda: 7)
    if diverges:
        worst = {"task": 2.0, "val/average_accuracy": 0.0, "done": True}
        assert running.step() == {**worst, "diverged": "loss is not finite at task 2, step 7"}
    else:
        row = {"task": 2.0, "val/average_accuracy": 50.0, "done": True}
        assert running.step() == {**row, "memory/peak_gpu_bytes": 7.0}


def test_what_fails_ends_its_traceback_with_the_place_in_the_users_code(
    config: TrialConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = trial.Trial(config.as_dict())

    def fails(*_: object) -> None:
        raise ValueError("no way")

    monkeypatch.setattr(trial, "build_sequence", fails)
    for name in ("run_next_task", "state", "load_state"):
        monkeypatch.setattr(running.sequence, name, fails)
    monkeypatch.setattr(trial, "read_state", lambda *_: None)
    calls = [
        lambda: running.setup(config.as_dict()),
        running.step,
        lambda: running.save_checkpoint(str(tmp_path)),
        lambda: running.load_checkpoint(str(tmp_path)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="no way") as caught:
            call()
        place = f"ValueError: no way in {__file__}, line {fails.__code__.co_firstlineno + 1}"
        assert caught.value.__notes__ == [place]
