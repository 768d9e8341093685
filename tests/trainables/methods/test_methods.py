"""Every method through one contract: it learns, repeats itself, resumes bit for bit, and diverges with a name."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

from search_spaces.reading import read_space_file
from search_spaces.schema import resolve
from tausearch.studies.spaces import require_space_fits
from tausearch.testing.methods import (
    check_composition,
    check_curvatures,
    check_declarations,
    check_learning,
    check_predictions,
    check_resuming,
    check_secrecy,
    check_vectors,
    erase,
)
from tausearch.testing.recording import Recorded, shown, watch
from tests.support.methods.linear_probe import LINEAR_PROBE
from tests.support.methods.small_digits import COMPOSABLE, SOURCE, run
from trainables.backbones import Backbone
from trainables.data import Task, build_benchmark
from trainables.errors import DivergedError, InputError
from trainables.methods import METHODS, get_method
from trainables.methods.entry import Values
from trainables.metrics import repeatable
from trainables.sequence import IncrementalSequence
from trainables.state import read_state


class Case(NamedTuple):
    """What the contract tests run a method with.

    Attributes:
        hyperparameters: With which it learns the small digits.
        floor: Percent of final accuracy below which something in it is broken: the lowest of four seeds less two images
            of the 24. Chance is 17.
        diverges: What makes it blow up.
        bf16: How far its loss in bf16 may be from that in float32; a square loss has another scale.
    """

    hyperparameters: dict[str, Any]
    floor: float
    diverges: dict[str, Any]
    bf16: float = 0.005


ABSURD = {"lr": 1e30}
FLOORS = {"ita-fft": 91, "ita-lora": 90, "ita-ia3": 87, "iel-fft": 91, "iel-lora": 90, "iel-ia3": 87}
AVERAGED = {name: {"heads": "averaged"} for name in ("ita-fft", "iel-lora")}  # the others' heads are as trained
CASES = {
    **{name: Case(given | AVERAGED.get(name, {}), FLOORS[name], ABSURD) for name, given in COMPOSABLE.items()},
    "finetune": Case({"lr": 0.001}, 50, ABSURD),
    "joint": Case({"lr": 0.001}, 87, ABSURD),
    "ewc": Case({"epsilon": 10.0, "lr": 0.03}, 58, ABSURD),
    "lwf-mc": Case({"lr": 0.1}, 58, ABSURD),
    "derpp": Case({"alpha": 0.3, "beta": 0.8, "buffer_size": 12, "lr": 0.03}, 70, ABSURD),
    "l2p": Case({"lr": 0.3}, 62, ABSURD),
    "coda": Case({"lr": 0.01}, 70, ABSURD),
    "apt": Case({"lr": 0.01}, 62, ABSURD),
    "inflora": Case({"lr": 0.01}, 58, ABSURD),
    "seed": Case({"lr": 0.001, "experts": 2}, 62, ABSURD),  # so that the third task chooses one
    "tmc": Case({"lr": 0.003}, 70, ABSURD, bf16=0.1),  # of 9.8
    "tak": Case({"lr": 0.001, "strength": 0.1, "draws": 2}, 50, ABSURD),
    "probe": Case({"lr_pre": 0.1, "epochs_pre": 8}, 62, {"lr_pre": 1e30, "epochs_pre": 1}),
    "linear-probe": Case({"lr": 0.1}, 62, ABSURD),
}
HYPERPARAMETERS = {name: case.hyperparameters for name, case in CASES.items()}
ENTRIES = {**METHODS, LINEAR_PROBE.name: LINEAR_PROBE}
SEQUENTIAL = [name for name, entry in ENTRIES.items() if not entry.capabilities.joint]
Run = partial[IncrementalSequence]
Trials = Callable[[str], Recorded]


@pytest.fixture(scope="module", autouse=True)
def _tests_own_method() -> Iterator[None]:
    """The method of the tests is known here, and nowhere else."""
    METHODS[LINEAR_PROBE.name] = LINEAR_PROBE
    yield
    del METHODS[LINEAR_PROBE.name]


@pytest.fixture(scope="module")
def trial(recorded: Callable[[str, dict[str, Any]], Recorded]) -> Trials:
    """Returns the recorded trial of a method. No test may change it."""
    return lambda method: recorded(method, HYPERPARAMETERS[method])


def test_the_contract_covers_every_method() -> None:
    assert CASES.keys() == ENTRIES.keys() == METHODS.keys()


@pytest.mark.parametrize("method", CASES)
def test_learns(method: str, trial: Trials) -> None:
    check_learning(trial(method), CASES[method].floor)
    assert len(trial(method).rows) == (1 if ENTRIES[method].capabilities.joint else 3)


@pytest.mark.parametrize("method", CASES)
def test_repeats_itself_and_resumes_bit_for_bit(method: str, trial: Trials, make: Run, tmp_path: Path) -> None:
    check_resuming(trial(method), lambda: make(method, HYPERPARAMETERS[method]), tmp_path)


@pytest.mark.parametrize("method", SEQUENTIAL)
def test_resumes_the_last_task_bit_for_bit(method: str, trial: Trials, make: Run, tmp_path: Path) -> None:
    expected, resumed = trial(method), make(method, HYPERPARAMETERS[method])
    x = shown(resumed.benchmark.evaluation[0])
    checkpoint = shutil.copytree(expected.folder / "2", tmp_path / "checkpoint")
    resumed.load_state(read_state(checkpoint, expected.folder / "blobs"))
    assert torch.equal(resumed.method.predict(x), expected.tasks[1].logits)
    erase(checkpoint)
    assert run(resumed) == expected.rows[2:]
    assert torch.equal(resumed.method.predict(x), expected.tasks[2].logits)


def test_same_numbers_in_a_fresh_process_without_a_cache(trial: Trials) -> None:
    """Methods that share all their code with others are left out; the others run in another order than here."""
    others = {"ita-ia3", "iel-fft", "iel-lora", "joint", LINEAR_PROBE.name}
    chosen = {name: given for name, given in reversed(HYPERPARAMETERS.items()) if name not in others}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.methods.fresh_process"],
        input=json.dumps(chosen),
        env={**os.environ, "PYTHONHASHSEED": "1234", "OMP_NUM_THREADS": str(torch.get_num_threads())},
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {name: trial(name).rows for name in chosen}


@pytest.mark.parametrize("method", CASES)
def test_predicts_every_class_seen_and_no_other(method: str, trial: Trials) -> None:
    check_predictions(trial(method))


@pytest.mark.parametrize("method", CASES)
def test_leaves_task_vectors_where_it_says_so(method: str, trial: Trials) -> None:
    check_vectors(trial(method))
    assert (trial(method).tasks[0].artifacts > 0) == ENTRIES[method].capabilities.composable


@pytest.mark.parametrize("method", [name for name in CASES if ENTRIES[name].capabilities.curvature])
def test_leaves_a_curvature_of_each_task_alone(method: str, trial: Trials) -> None:
    check_curvatures(trial(method))


# Averaged heads are not what `compose` puts side by side.
@pytest.mark.parametrize(
    "method", [name for name in CASES if ENTRIES[name].capabilities.composable and name not in AVERAGED]
)
def test_its_vectors_compose_to_its_own_predictions(method: str, trial: Trials, make: Run) -> None:
    check_composition(trial(method), lambda: make(method, HYPERPARAMETERS[method]))


@pytest.mark.parametrize("method", CASES)
def test_bf16_stays_close(method: str, trial: Trials, make: Run) -> None:
    half = make(method, HYPERPARAMETERS[method], precision="bf16").run_next_task()["train/loss"]
    full = trial(method).rows[0]["train/loss"]
    assert half != full and half == pytest.approx(full, abs=CASES[method].bf16)


@pytest.mark.parametrize("method", SEQUENTIAL)
def test_bf16_trains_on_what_past_tasks_left(method: str, trial: Trials, make: Run) -> None:
    sequence = make(method, HYPERPARAMETERS[method], precision="bf16")
    sequence.load_state(trial(method).state(2))
    assert sequence.run_next_task()["train/loss"] != trial(method).rows[2]["train/loss"]


@pytest.mark.parametrize("method", CASES)
def test_an_absurd_learning_rate_is_divergence(method: str, make: Run) -> None:
    with pytest.raises(DivergedError, match=r"at task \d, step \d+"):
        run(make(method, {**HYPERPARAMETERS[method], **CASES[method].diverges}))


@pytest.mark.parametrize("method", [name for name in CASES if name not in ("probe", "linear-probe")])
def test_a_weight_that_the_last_step_leaves_infinite_is_divergence(
    method: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No loss shows it: a task is one step here, and its loss was taken before. Linear probes have no optimiser."""

    def train_and_spoil(task: Task) -> dict[str, float]:
        spoils = register_optimizer_step_post_hook(lambda used, *_: used.param_groups[-1]["params"][-1].data.fill_(inf))
        try:
            return train(task)
        finally:
            spoils.remove()

    one_step = build_benchmark(dataclasses.replace(SOURCE, epochs=1, batch_size=128), "final")
    sequence = IncrementalSequence(one_step, method, HYPERPARAMETERS[method], backbone=Backbone(), cache=cache)
    train = sequence.method.train_task
    monkeypatch.setattr(sequence.method, "train_task", train_and_spoil)
    with pytest.raises(DivergedError, match="not finite at task 1, step 1"):
        sequence.run_next_task()


@pytest.mark.parametrize("method", CASES)
def test_what_it_declares_fits_its_hyperparameters_and_rows(method: str, trial: Trials) -> None:
    check_declarations(trial(method))


def test_the_space_of_the_tests_own_method_fits_it() -> None:
    file = Path(__file__).parents[2] / "support" / "methods" / "linear_probe.yaml"
    space = resolve([read_space_file(file)], LINEAR_PROBE.name, "digits", {}, file.name)
    require_space_fits(LINEAR_PROBE, space)
    assert space.start == {"lr": 0.1} and set(space.space) == {"lr"}


@pytest.mark.parametrize("method", CASES)
def test_no_evaluation_image_can_be_reached_from_a_method(method: str, trial: Trials) -> None:
    check_secrecy(trial(method).sequence, trial(method).reached)


@pytest.mark.parametrize("method", ["finetune", "joint", "ita-lora", "derpp"])
def test_no_validation_image_can_be_reached_from_a_method(method: str) -> None:
    """No method is given more than a task, all tasks at once or pre-consolidation, or keeps more than images."""
    benchmark = build_benchmark(SOURCE, "search")
    sequence = IncrementalSequence(benchmark, method, HYPERPARAMETERS[method], backbone=Backbone())
    reached, _ = watch(sequence), run(sequence)
    check_secrecy(sequence, reached)


@pytest.mark.parametrize("method", METHODS)
def test_what_a_method_calls_constant_never_changes(method: str, trial: Trials) -> None:
    seen: dict[str, Tensor] = {}
    for done in trial(method).tasks:
        for name, value in done.constant.items():
            assert torch.equal(seen.setdefault(name, value), value)


@pytest.mark.parametrize(
    ("method", "setting"),
    [(name, each) for name in ("ita-lora", "iel-ia3", "tak", "probe", "ewc", "tmc") for each in METHODS[name].idle],
)
def test_what_is_declared_to_have_no_effect_changes_no_bit(method: str, setting: Values, make: Run) -> None:
    given, learned = HYPERPARAMETERS[method] | dict(setting), []
    for changes in ({}, {name: 0.5 if name == "gamma" else 3 for name in METHODS[method].idle[setting]}):
        sequence = make(method, given | changes)
        rows = [repeatable(sequence.run_next_task()) for _ in range(2)]
        learned.append((rows, sequence.state().tensors))
    (one, kept), (other, same) = learned
    differ = [name for name, tensor in kept.items() if not torch.equal(tensor, same[name])]
    assert one == other and [name for name in differ if "fisher" not in name] == []  # EWC keeps it, whatever epsilon


def test_accuracies_are_those_on_the_evaluation_images_of_the_tasks_seen(make: Run) -> None:
    sequence = make("finetune", HYPERPARAMETERS["finetune"])
    for done in (1, 2, 3):
        row = sequence.run_next_task()
        seen = sequence.benchmark.evaluation[:done]
        right = [sequence.method.predict(shown(each)).argmax(1) == each.labels for each in seen]
        wanted = {f"test/accuracy/task_{k}": 100 * float(each.double().mean()) for k, each in enumerate(right, start=1)}
        assert {k: v for k, v in row.items() if "/accuracy/" in k} == pytest.approx(wanted)


def test_a_finite_loss_that_blows_up_is_divergence(make: Run) -> None:
    with pytest.raises(DivergedError, match=r"^loss of \d.* \(chance loss 0.69\) at task \d"):
        run(make("finetune", {"lr": 100.0}))


@pytest.mark.parametrize(
    ("method", "change", "message"),
    [
        ("ita-lora", {"alhpa": 1}, "unknown hyperparameter 'alhpa'; did you mean 'alpha'"),
        ("ita-lora", {"zeta": 1, "alhpa": 1}, "unknown hyperparameter 'alhpa'"),
        ("ita-lora", {"alpha": -1, "lr": 0}, "hyperparameter 'lr': .*greater than 0, got 0"),
        ("ita-lora", {"alpha": float("nan")}, "hyperparameter 'alpha'"),
        ("ita-lora", {"rank": 0}, "hyperparameter 'rank': .*got 0"),
        ("ita-lora", {"formulation": "mine"}, "hyperparameter 'formulation': .*'paper' or 'official'"),
        ("ewc", {"gamma": 1.5}, "hyperparameter 'gamma': .*less than or equal to 1, got 1.5"),
        ("ewc", {"epsilon": -1}, "hyperparameter 'epsilon': .*greater than or equal to 0, got -1"),
        ("ewc", {"fisher": "exact"}, "hyperparameter 'fisher': .*'weighted', 'empirical' or 'true'"),
        ("derpp", {"buffer_size": 0}, "hyperparameter 'buffer_size': .*greater than or equal to 1, got 0"),
        ("derpp", {"minibatch_size": 0}, "hyperparameter 'minibatch_size.*greater than or equal to 1, got 0"),
        ("derpp", {"alpha": -0.1}, "hyperparameter 'alpha': .*greater than or equal to 0, got -0.1"),
        ("derpp", {"rehearsal_classes": "task"}, "hyperparameter 'rehearsal_classes': .*'all' or 'seen'"),
        ("lwf-mc", {"wd": -0.1}, "hyperparameter 'wd': .*greater than or equal to 0, got -0.1"),
        ("lwf-mc", {"reduction": "none"}, "hyperparameter 'reduction': .*'mean' or 'sum'"),
        ("inflora", {"epsilon": 0}, "hyperparameter 'epsilon'"),
        ("inflora", {"epsilon": 1}, "hyperparameter 'epsilon'"),
        ("inflora", {"head_start": "uniform"}, "hyperparameter 'head_start': .*'normal' or 'linear'.*got 'uniform'$"),
        ("seed", {"experts": 0}, "hyperparameter 'experts'"),
        ("seed", {"features": 0}, "hyperparameter 'features'"),
        ("seed", {"alpha": 1.1}, "hyperparameter 'alpha'"),
        ("seed", {"tau": 0}, "hyperparameter 'tau'"),
        ("seed", {"clip": 0}, "hyperparameter 'clip'"),
        ("tmc", {"kappa": 0}, "hyperparameter 'kappa'"),
        ("tmc", {"penalty": -1}, "hyperparameter 'penalty'"),
        ("tmc", {"loss": "mse"}, "hyperparameter 'loss'"),
    ],
)
def test_wrong_hyperparameters_are_named(method: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{method}: {message}"):
        get_method(method).parse({**HYPERPARAMETERS[method], **change})


def test_a_missing_hyperparameter_is_named() -> None:
    with pytest.raises(InputError, match="^ita-lora: hyperparameter 'lr': is missing$"):
        get_method("ita-lora").parse({name: value for name, value in COMPOSABLE["ita-lora"].items() if name != "lr"})


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(InputError, match="unknown method 'ita'; did you mean 'ita-fft' or .* allowed: "):
        get_method("ita")
