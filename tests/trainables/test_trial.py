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
from trainables.state import Checkpoints, State


class Counting:
    """A sequence of four tasks with one more constant after every task; one may diverge."""

    benchmark = SimpleNamespace(metrics=VALIDATION)
    closed = False

    def __init__(self, first: float = 0.0, diverges_at: int = 0) -> None:
        self.first = first
        self.diverges_at = diverges_at
        self.tasks_done = 0

    @property
    def finished(self) -> bool:
        return self.tasks_done == 4

    def run_next_task(self) -> dict[str, float]:
        if self.tasks_done + 1 == self.diverges_at:
            raise DivergedError(self.diverges_at, 7)
        self.tasks_done += 1
        return {"task": float(self.tasks_done), "val/average_accuracy": 50.0}

    def state(self) -> State:
        experts = {f"expert/{t}": torch.full((100,), self.first + t) for t in range(self.tasks_done)}
        return State({"last": torch.tensor(self.tasks_done)}, experts, {"done": self.tasks_done})

    def load_state(self, state: State) -> None:
        self.tasks_done = int(state.values["done"])  # type: ignore[arg-type]
        assert all(torch.equal(state.constant[name], value) for name, value in self.state().constant.items())

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TrialConfig:
    monkeypatch.setattr(trial, "build_sequence", lambda config: Counting())
    folder = str(tmp_path / "trial")
    return TrialConfig(
        trial=0, benchmark="b", purpose="search", split_seed=0, method="m", backbone="v", checkpoints=folder
    )


def constants(folder: Path) -> dict[Path, int]:
    """Files of constants, and when they were written."""
    return {path: path.stat().st_mtime_ns for path in folder.glob("*.safetensors")}


@pytest.mark.parametrize("same_process", [True, False])
def test_a_trial_goes_on_after_the_tasks_of_the_record_and_writes_its_constants_once(
    config: TrialConfig, tmp_path: Path, same_process: bool
) -> None:
    first = trial.TrialTrainable(config.as_dict())
    for _ in range(3):
        first.step()
    before = constants(tmp_path / "trial")
    resumed = replace(config, tasks_done=2).as_dict()
    if same_process:
        second = first
        assert second.reset_config(resumed)
    else:
        second = trial.TrialTrainable(resumed)
    assert second.sequence.tasks_done == 2
    assert second.step()["task"] == 3
    assert constants(tmp_path / "trial") == before and len(before) == 3


def test_the_next_trial_of_a_process_knows_nothing_of_the_last_ones_constants(
    config: TrialConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = trial.TrialTrainable(config.as_dict())
    process.step()
    old, released = process.sequence, list[bool]()
    monkeypatch.setattr(trial, "release", lambda: released.append(old.closed))  # type: ignore[attr-defined]
    process.reset_config(replace(config, trial=1, checkpoints=str(tmp_path / "other")).as_dict())
    process.step()
    assert len(constants(tmp_path / "other")) == 1 and released == [True]
    process.reset_config(replace(config, trial=2, checkpoints=None).as_dict())
    process.step()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "trial"]


def test_a_trial_that_starts_over_does_not_take_its_old_constants_for_the_new(
    config: TrialConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = trial.TrialTrainable(config.as_dict())
    process.step()
    monkeypatch.setattr(trial, "build_sequence", lambda config: Counting(5.0))  # as if numbers came out otherwise
    process.reset_config(config.as_dict())
    process.step()
    state = Checkpoints(tmp_path / "trial").read(1)
    assert state is not None and state.constant["expert/0"].eq(5.0).all()


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
            checkpoints=str(tmp_path / "trial"),
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
    assert sequence.device == context.device == torch.device("cpu:0") and sequence.leave_one_task_out is not None
    assert context.on_epoch.folder == tmp_path / "trial"
    assert context.backbone == sequence.backbone and sequence.backbone.weights == weights
    assert (context.epochs, context.batch_size) == (sequence.benchmark.spec.epochs, sequence.benchmark.spec.batch_size)
    (before,) = sequence.preparer.providers
    assert before.cache is not None
    assert (before.cache.folder, before.cache.max_bytes) == (tmp_path / "cache", 77)
    assert before.preparation == method.rule.config.preconsolidation
    owner = before.owner
    assert (owner.seed, owner.fingerprint, owner.purpose) == (4, sequence.benchmark.fingerprint, "final")
    assert (owner.device, owner.backbone, owner.spec) == (context.device, sequence.backbone, sequence.benchmark.spec)
    assert sequence.artifacts == tmp_path / "vectors"


def test_an_ended_process_lets_go_of_what_trials_share(config: TrialConfig) -> None:
    running = trial.TrialTrainable(config.as_dict())
    sequence: Any = running.sequence
    running.cleanup()
    assert sequence.closed
    trial.TrialTrainable.__new__(trial.TrialTrainable).cleanup()  # its setup has failed


def test_a_step_is_a_task_with_a_checkpoint_and_the_last_has_none(
    config: TrialConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = trial.TrialTrainable(config.as_dict())
    assert running.step() == {"task": 1.0, "val/average_accuracy": 50.0, "done": False}
    monkeypatch.setattr(trial, "peak_bytes", lambda: 7)
    running.step()
    running.step()
    assert running.step() == {"task": 4.0, "val/average_accuracy": 50.0, "done": True, "memory/peak_gpu_bytes": 7.0}
    assert sorted(path.name for path in (tmp_path / "trial").glob("task-*")) == ["task-002", "task-003"]


def test_divergence_is_an_end(config: TrialConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "build_sequence", lambda config: Counting(diverges_at=2))
    running = trial.TrialTrainable(config.as_dict())
    assert not running.step()["done"]
    worst = {"task": 2.0, "val/average_accuracy": 0.0, "done": True}
    assert running.step() == {**worst, "diverged": "loss is not finite at task 2, step 7"}
    assert [path.name for path in (tmp_path / "trial").glob("task-*")] == ["task-001"]


def test_what_fails_ends_its_traceback_with_the_place_in_the_users_code(
    config: TrialConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("no way")

    place = f"ValueError: no way in {__file__}, line {fails.__code__.co_firstlineno + 1}"
    for name in ("build", "run_next_task", "state"):
        running = trial.TrialTrainable(config.as_dict())
        with monkeypatch.context() as patch:
            if name == "build":
                patch.setattr(trial, "build_sequence", fails)
                running.reset_config(config.as_dict())  # no error yet: Tune would give the trial up
            else:
                patch.setattr(running.sequence, name, fails)
            with pytest.raises(ValueError, match="no way") as caught:
                running.step()
        assert caught.value.__notes__ == [place]
        running.reset_config(config.as_dict())
        assert running.step()["task"] == 1.0, "the process can be used again"
