"""Every method through one contract: it learns, repeats itself, resumes bit for bit, and diverges with a name."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

from search_spaces.reading import read_space_file
from search_spaces.schema import resolve
from tausearch.choosing.spaces import require_space_fits
from tests.support.methods.linear_probe import LINEAR_PROBE
from tests.support.methods.small_digits import SOURCE, few_digits, run, small_digits
from tests.support.reachable import reachable
from tests.support.stored_images import images_of
from trainables.backbones import EMBEDDED, Backbone
from trainables.composition import Origin, composed, read_vector, vector_folders
from trainables.data import ImageSet, Task, build_benchmark, described, get_source
from trainables.errors import DivergedError, InputError
from trainables.methods import METHODS, get_method, register
from trainables.sequence import IncrementalSequence
from trainables.state import State, check_state, read_state, write_state

ITA = {"alpha": 1.0, "alpha_cls": 0.1, "alpha_cls_prior": 0.01, "lr": 0.003}
IEL = {"beta": 10.0, "beta_cls": 0.1, "beta_cls_prior": 0.01, "lr": 0.003}


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
CASES = {
    "ita-fft": Case({**ITA, "lr": 0.001}, 91, ABSURD),
    "ita-lora": Case(ITA, 90, ABSURD),
    "ita-ia3": Case(ITA, 87, ABSURD),
    "iel-fft": Case({**IEL, "lr": 0.001}, 91, ABSURD),
    "iel-lora": Case(IEL, 90, ABSURD),
    "iel-ia3": Case(IEL, 87, ABSURD),
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
    "linear-probe": Case({"lr": 0.1}, 62, ABSURD),
}
COMPOSABLE = ("ita-fft", "ita-lora", "ita-ia3", "iel-fft", "iel-lora", "iel-ia3")
ONCE_TORCH_SAVED = (*COMPOSABLE, "finetune", "joint")  # had checkpoints before these were safetensors
HYPERPARAMETERS = {name: case.hyperparameters for name, case in CASES.items()}
ENTRIES = {**METHODS, LINEAR_PROBE.name: LINEAR_PROBE}


@pytest.fixture(scope="module", autouse=True)
def _tests_own_method() -> Iterator[None]:
    """The method of the tests is known here, and nowhere else."""
    register(LINEAR_PROBE)
    yield
    del METHODS[LINEAR_PROBE.name]


def shown(images: ImageSet) -> Tensor:
    """All images of a set as a method is shown them."""
    return next(images.batches(len(images), None, shuffle=False)).x


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


Run = partial[IncrementalSequence]


@pytest.fixture
def make(store: Path) -> Run:
    torch.set_num_threads(1)
    return partial(IncrementalSequence, small_digits(), backbone=Backbone(), store=store)


def round_trip(state: State, folder: Path) -> State:
    """Through a checkpoint and what it shares with others; gone as soon as it is read, as Tune's may be."""
    kept = folder / "kept"
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    write_state(checkpoint, state, kept)
    assert check_state(checkpoint, kept)
    return read_state(checkpoint, kept)


def nested(state: State) -> dict[str, Any]:
    """As `torch.save` had it before checkpoints were safetensors."""
    found: dict[str, Any] = {}
    for name, value in {**state.tensors, **state.values}.items():
        *rooms, last = name.split("/")
        room = found
        for each in rooms:
            room = room.setdefault(each, {})
        room[last] = value
    return found


def test_the_contract_covers_every_method() -> None:
    assert CASES.keys() == ENTRIES.keys() == METHODS.keys()


@pytest.mark.parametrize("method", CASES)
def test_learns_and_repeats_itself(method: str, make: Run) -> None:
    state = torch.get_rng_state()
    first, second = (run(make(method, HYPERPARAMETERS[method])) for _ in range(2))
    assert torch.equal(state, torch.get_rng_state())
    assert first == second
    last = first[-1]
    assert {"task", "train/loss", "test/average_accuracy", "test/final_accuracy", "test/forgetting"} <= set(last)
    by_task = [last[f"test/accuracy/task_{k}"] for k in (1, 2, 3)]
    assert last["test/final_accuracy"] == last["test/average_accuracy"] == pytest.approx(sum(by_task) / 3)
    assert last["test/final_accuracy"] >= CASES[method].floor
    assert len(first) == (1 if ENTRIES[method].capabilities.joint else 3)


@pytest.mark.timeout(300)  # all methods, twice
def test_same_numbers_in_a_fresh_process(make: Run) -> None:
    here = {method: run(make(method, given)) for method, given in HYPERPARAMETERS.items()}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.methods.fresh_process"],
        input=json.dumps(HYPERPARAMETERS),
        env={**os.environ, "PYTHONHASHSEED": "1234"},
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == here


@pytest.mark.parametrize("method", CASES)
def test_predicts_every_class_seen_and_no_other(method: str, make: Run) -> None:
    sequence = make(method, HYPERPARAMETERS[method])
    x = shown(sequence.benchmark.evaluation[0])
    for task in sequence.tasks:
        sequence.run_next_task()
        logits = sequence.method.predict(x)
        assert logits.shape == (len(x), task.classes.stop)
        assert logits.isfinite().all() and not logits.requires_grad


@pytest.mark.parametrize("method", CASES)
def test_what_is_loaded_predicts_as_what_was_saved(method: str, make: Run, tmp_path: Path) -> None:
    saved, loaded = (make(method, HYPERPARAMETERS[method]) for _ in range(2))
    x = shown(saved.benchmark.evaluation[0])
    for _ in saved.tasks[:2]:
        saved.run_next_task()
    loaded.load_state(round_trip(saved.state(), tmp_path))
    assert torch.equal(loaded.method.predict(x), saved.method.predict(x))


@pytest.mark.parametrize("method", CASES)
def test_writes_artifacts_where_it_says_so(method: str, make: Run, tmp_path: Path) -> None:
    sequence = make(method, HYPERPARAMETERS[method], artifacts=tmp_path)
    written = 0
    for _ in sequence.tasks:
        sequence.run_next_task()
        files = sum(path.is_file() for path in tmp_path.rglob("*"))
        assert (files > written) == ENTRIES[method].capabilities.writes_artifacts
        written = files


def test_who_does_not_say_so_is_not_asked_for_artifacts(make: Run, tmp_path: Path) -> None:
    sequence = make(LINEAR_PROBE.name, HYPERPARAMETERS[LINEAR_PROBE.name], artifacts=tmp_path)
    with mock.patch.object(sequence.method, "save_artifacts") as save:
        sequence.run_next_task()
    save.assert_not_called()


@pytest.mark.parametrize("method", CASES)
def test_bf16_stays_close(method: str, make: Run) -> None:
    full, half = (run(make(method, HYPERPARAMETERS[method], precision=p)) for p in ("fp32", "bf16"))
    assert half[0]["train/loss"] != full[0]["train/loss"]
    assert half[0]["train/loss"] == pytest.approx(full[0]["train/loss"], abs=CASES[method].bf16)


@pytest.mark.parametrize("method", CASES)
def test_an_absurd_learning_rate_is_divergence(method: str, make: Run) -> None:
    with pytest.raises(DivergedError, match=r"at task \d, step \d+"):
        run(make(method, {**HYPERPARAMETERS[method], **CASES[method].diverges}))


@pytest.mark.parametrize("method", [name for name in CASES if name != "linear-probe"])
def test_a_weight_that_the_last_step_leaves_infinite_is_divergence(
    method: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No loss shows it: a task is one step here, and its loss was taken before. The tests' own has no optimiser."""

    def train_and_spoil(task: Task) -> dict[str, float]:
        spoils = register_optimizer_step_post_hook(lambda used, *_: used.param_groups[-1]["params"][-1].data.fill_(inf))
        try:
            return train(task)
        finally:
            spoils.remove()

    one_step = build_benchmark(dataclasses.replace(SOURCE, epochs=1, batch_size=128), "final")
    sequence = IncrementalSequence(one_step, method, HYPERPARAMETERS[method], backbone=Backbone(), store=store)
    train = sequence.method.train_task
    monkeypatch.setattr(sequence.method, "train_task", train_and_spoil)
    with pytest.raises(DivergedError, match="not finite at task 1, step 1"):
        sequence.run_next_task()


@pytest.mark.parametrize("method", CASES)
def test_what_it_declares_fits_its_hyperparameters_and_rows(method: str, make: Run) -> None:
    entry = ENTRIES[method]
    defaults = {field.name: field.default for field in dataclasses.fields(entry.config)}
    assert all(defaults[name] == value for name, value in entry.usual.items())
    common = {"task", "train/loss"}
    for row in run(make(method, HYPERPARAMETERS[method])):
        extra = {name for name in row if name not in common and not name.startswith("test/")}
        assert extra <= {metric.name for metric in entry.metrics}
    assert entry.capabilities.tasks_to_peak >= 1


def test_the_space_of_the_tests_own_method_fits_it() -> None:
    file = Path(__file__).parents[2] / "support" / "methods" / "linear_probe.yaml"
    space = resolve([read_space_file(file)], LINEAR_PROBE.name, "digits", {}, file.name)
    require_space_fits(LINEAR_PROBE, space)
    assert space.start == {"lr": 0.1} and set(space.space) == {"lr"}


@pytest.mark.parametrize("purpose", ["search", "final"])
@pytest.mark.parametrize("method", CASES)
def test_no_evaluation_image_can_be_reached_from_a_method(method: str, purpose: Any) -> None:
    benchmark = build_benchmark(SOURCE, purpose)
    sequence = IncrementalSequence(benchmark, method, HYPERPARAMETERS[method], backbone=Backbone())
    stored = set(images_of(each.images for each in benchmark.evaluation))
    evaluation = stored | set(images_of(map(shown, benchmark.evaluation)))
    for task in sequence.tasks:
        before = None if sequence.preconsolidator is None else sequence.preconsolidator.task(task.index)
        sequence.method.begin_task(task, before)
        sequence.method.train_task(task)
        found = set(images_of(reachable([task, sequence.method, sequence.preconsolidator], limit=2_000_000)))
        assert set(images_of([task.train.images])) <= found and not found & evaluation
        sequence.method.end_task(task)
    assert stored <= set(images_of(reachable(sequence, limit=2_000_000)))  # the walk would have found them


@pytest.mark.parametrize("method", [name for name, entry in ENTRIES.items() if not entry.capabilities.joint])
@pytest.mark.parametrize("after", [1, 2])
def test_resumed_equals_unbroken_bit_for_bit(method: str, after: int, make: Run, tmp_path: Path) -> None:
    unbroken = make(method, HYPERPARAMETERS[method])
    expected = run(unbroken)
    broken = make(method, HYPERPARAMETERS[method])
    for _ in range(after):
        broken.run_next_task()
    resumed = make(method, HYPERPARAMETERS[method])
    resumed.load_state(round_trip(broken.state(), tmp_path))
    for file in (tmp_path / "checkpoint").iterdir():
        file.write_bytes(bytes(file.stat().st_size))  # what the method keeps is its own
    assert run(resumed) == expected[after:]
    x = next(unbroken.benchmark.evaluation[0].batches(8, None, shuffle=False)).x
    assert torch.equal(resumed.method.predict(x), unbroken.method.predict(x))


@pytest.mark.parametrize("method", ONCE_TORCH_SAVED)
def test_an_old_checkpoint_resumes_to_the_same_numbers(method: str, make: Run, tmp_path: Path) -> None:
    broken = make(method, HYPERPARAMETERS[method])
    broken.run_next_task()
    state = broken.state()
    wanted = {"ita": {"composition", "heads"}, "iel": {"composition", "heads"}}.get(method[:3], {"model", "heads"})
    assert set(nested(state)) == {"method", "accuracies"} and set(nested(state)["method"]) == wanted
    torch.save(nested(state), tmp_path / "state.pt")
    assert check_state(tmp_path)
    found = read_state(tmp_path)
    assert found.values == state.values and found.tensors.keys() == state.tensors.keys()
    resumed = make(method, HYPERPARAMETERS[method])
    resumed.load_state(found)
    assert run(resumed) == run(broken)


@pytest.mark.parametrize("method", METHODS)
def test_what_a_method_calls_constant_never_changes(method: str, make: Run) -> None:
    sequence, seen = make(method, HYPERPARAMETERS[method]), {}
    while not sequence.finished:
        sequence.run_next_task()
        for name, value in sequence.state().constant.items():
            assert torch.equal(seen.setdefault(name, value.clone()), value)


def test_accuracies_are_those_on_the_evaluation_images_of_the_tasks_seen(make: Run) -> None:
    sequence = make("finetune", HYPERPARAMETERS["finetune"])
    for done in (1, 2, 3):
        row = sequence.run_next_task()
        seen = sequence.benchmark.evaluation[:done]
        right = [sequence.method.predict(shown(each)).argmax(1) == each.labels for each in seen]
        wanted = {f"test/accuracy/task_{k}": 100 * float(each.double().mean()) for k, each in enumerate(right, start=1)}
        assert {k: v for k, v in row.items() if "/accuracy/" in k} == pytest.approx(wanted)


def test_the_store_changes_nothing(make: Run) -> None:
    with_store, without = make("ita-lora", ITA), make("ita-lora", ITA, store=None)
    assert run(with_store) == run(without)


@pytest.mark.parametrize("method", ["ita-lora", "iel-fft", "ita-ia3"])
def test_official_formulation_and_ablations_differ(method: str, make: Run) -> None:
    base = HYPERPARAMETERS[method]
    settings: list[dict[str, Any]] = [
        {},
        {"formulation": "official"},
        {"regularise": "head"},
        {"regularise": "none"},
    ]
    losses = [run(make(method, {**base, **setting}))[-1]["train/loss"] for setting in settings]
    assert len(set(losses)) == len(losses)


@pytest.mark.parametrize("method", ["ita-lora", "ita-fft", "iel-ia3"])
def test_no_regularisation_is_zero_strength(method: str, make: Run) -> None:
    base = HYPERPARAMETERS[method]
    zero = {k: 0.0 for k in base if k != "lr"}
    none, zeros = (run(make(method, {**base, **change})) for change in ({"regularise": "none"}, zero))
    for row in zeros:
        row.pop("train/euler_factor", None)  # only known where there is a regulariser
    assert none == zeros


def test_divergence_names_task_and_step(make: Run) -> None:
    with pytest.raises(DivergedError, match=r"not finite at task \d, step \d+"):
        run(make("ita-fft", {**ITA, "lr": 1e30}))


@pytest.mark.parametrize(
    ("method", "change"),
    [("ita-fft", {"alpha": 1e9, "lr": 3e-3}), ("ita-lora", {"alpha": 1e9}), ("finetune", {"lr": 100.0})],
)
def test_a_loss_that_blows_up_is_divergence_though_it_is_finite(
    make: Run, method: str, change: dict[str, float]
) -> None:
    with pytest.raises(DivergedError, match=r"regularised loss of \d.* \(guessing has 0.69\) at task \d"):
        run(make(method, {**HYPERPARAMETERS[method], **change}))


@pytest.mark.parametrize("method", COMPOSABLE)
def test_saved_task_vectors_compose_to_the_model_that_was_evaluated(method: str, make: Run, tmp_path: Path) -> None:
    sequence = make(method, HYPERPARAMETERS[method], artifacts=tmp_path)
    run(sequence)
    learner: Any = sequence.method
    theta_0 = learner.vectors.theta_0
    weights = composed(theta_0, map(read_vector, vector_folders(tmp_path)), [1 / 3] * 3)
    for name, total in learner.composition.sums.items():
        assert torch.equal(weights[name], theta_0[name] + 1 / 3 * total)
    saved = [read_vector(folder) for folder in vector_folders(tmp_path)]
    assert torch.equal(torch.cat([vector.head[0] for vector in saved]), learner.heads.weight)
    assert torch.equal(torch.cat([vector.head[1] for vector in saved]), learner.heads.bias)
    plain = Backbone().load()
    plain.load_state_dict({**plain.state_dict(), **weights})
    x = next(sequence.benchmark.evaluation[0].batches(8, None, shuffle=False)).x
    learner.vectors.disable()
    with torch.inference_mode():
        torch.testing.assert_close(learner.heads.logits(plain(x)), learner.predict(x))


@pytest.mark.parametrize("formulation", ["paper", "official"])
def test_saved_task_vectors_say_where_they_come_from(formulation: str, make: Run, tmp_path: Path) -> None:
    sequence = make("iel-ia3", {**IEL, "formulation": formulation}, artifacts=tmp_path)
    run(sequence)
    assert sequence.preconsolidator is not None
    for t, folder in enumerate(vector_folders(tmp_path), start=1):
        vector = read_vector(folder)
        assert vector.parametrisation == "ia3"
        assert vector.origin == Origin(
            method="iel-ia3",
            task=t,
            classes=range(2 * t - 2, 2 * t),
            backbone=EMBEDDED,
            backbone_digest=Backbone().digest,
            class_names=tuple("0123456789"[2 * t - 2 : 2 * t]),
            transform=described(sequence.benchmark.evaluation[0].transform, 32),
        )
        rows = sequence.preconsolidator.task(t).head  # h0 as it was at task t, not as later tasks move it
        assert vector.anchor is not None
        assert all(torch.equal(a, b[2 * t - 2 : 2 * t]) for a, b in zip(vector.anchor, rows, strict=True))


def test_running_past_the_end_is_refused(make: Run) -> None:
    sequence = make("joint", HYPERPARAMETERS["joint"])
    run(sequence)
    with pytest.raises(RuntimeError, match="finished after 1 tasks"):
        sequence.run_next_task()


@pytest.mark.parametrize(
    ("hyperparameters", "message"),
    [
        ({**ITA, "alhpa": 1}, "unknown hyperparameter 'alhpa'; allowed: lr, "),
        ({k: v for k, v in ITA.items() if k != "lr"}, "hyperparameter 'lr'"),
        ({**ITA, "lr": 0}, "hyperparameter 'lr': .*greater than 0, got 0"),
        ({**ITA, "alpha": float("nan")}, "hyperparameter 'alpha'"),
        ({**ITA, "rank": 0}, "hyperparameter 'rank': .*got 0"),
        ({**ITA, "formulation": "mine"}, "hyperparameter 'formulation': .*'paper' or 'official'"),
    ],
)
def test_wrong_hyperparameters_are_named(hyperparameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        get_method("ita-lora").parse(hyperparameters)


def test_unknown_and_duplicate_methods_are_refused() -> None:
    with pytest.raises(InputError, match="unknown method 'ita'; allowed: ita-fft"):
        get_method("ita")
    with pytest.raises(ValueError, match="registered already"):
        register(METHODS["ita-lora"])


def test_the_line_about_an_unstable_trial() -> None:
    (metric,) = get_method("ita-lora").metrics
    rows = [{"task": float(t), metric.name: value} for t, value in ((1, 1.5), (2, 2.0), (3, 51.74))]
    assert metric.warn(7, [*rows, {"task": 4.0}]) == (
        "trial 7: strength * max Fisher reaches 51.7 (from task 2); decoupled steps are stable below 2"
    )
    assert metric.warn(7, rows[:1]) is None and metric.warn(7, [{"task": 1.0}]) is None
    assert dataclasses.replace(metric, limit=None).warn(7, rows) is None


def test_stability_of_decoupled_steps_is_reported(make: Run, caplog: pytest.LogCaptureFixture) -> None:
    calm, wild = (make("ita-lora", {**ITA, "alpha": alpha}).run_next_task() for alpha in (1e-3, 2e2))
    assert calm["train/euler_factor"] < 2 <= wild["train/euler_factor"]
    assert "decoupled steps need < 2" in caplog.text
    assert wild["train/euler_factor"] / calm["train/euler_factor"] == pytest.approx(2e5, rel=1e-4)
    assert "train/euler_factor" not in make("ita-fft", HYPERPARAMETERS["ita-fft"]).run_next_task()  # coupled


@pytest.mark.timeout(200)
@pytest.mark.parametrize("method", ["ita-lora", "iel-ia3", "ewc"])
def test_a_larger_vit_runs_the_same_code(method: str, tmp_path: Path) -> None:
    import timm

    name = "vit_tiny_patch16_224"
    save_file(timm.create_model(name, num_classes=0).state_dict(), tmp_path / "tiny.safetensors")
    backbone = Backbone(name, tmp_path / "tiny.safetensors")
    assert (backbone.input.channels, backbone.input.size) == (3, 224)

    def load(part: str) -> tuple[Tensor, Tensor]:
        images, labels = few_digits(part)
        rows = torch.cat([(labels == c).nonzero().flatten()[:3] for c in range(2)])
        return images[rows], labels[rows]

    spec = dataclasses.replace(
        get_source("digits"), class_names=("0", "1"), num_tasks=2, epochs=1, batch_size=4, load=load
    )
    benchmark = build_benchmark(spec, "final", reads=backbone.input)
    rows = run(IncrementalSequence(benchmark, method, HYPERPARAMETERS[method], backbone=backbone))
    assert len(rows) == 2 and rows[-1]["train/loss"] >= 0
