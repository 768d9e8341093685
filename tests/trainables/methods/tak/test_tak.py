"""TAK: two tasks against plain loops over Jacobians, its penalty, its references, and what it composes and writes."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from tausearch.testing.recording import shown
from tests.support.methods.tiny_trials import TinyBackbone, learn, tiny_context, tiny_tasks
from tests.support.tiny_vit import make_tiny_vit
from trainables import user_code
from trainables.backbones import Backbone, InputSpec
from trainables.backbones.linearised.network import Vector, tangent_weights
from trainables.composition import Origin, VectorPool, network_for, write_vector
from trainables.curvature import Factors, FeatureCurvature, feature_curvature
from trainables.data import BENCHMARKS, Task
from trainables.errors import DivergedError, InputError
from trainables.heads import Head
from trainables.methods import Context
from trainables.methods.tak import make_generic
from trainables.methods.tak.config import TAKConfig, validate
from trainables.methods.tak.generic import read_generic, write_generic
from trainables.methods.tak.learner import TAK
from trainables.methods.tak.make_generic import main
from trainables.methods.tak.penalty import FeaturePenalty
from trainables.methods.training import shuffled_batches, warm_cosine
from trainables.preconsolidation import PreconsolidationConfig
from trainables.preconsolidation.consolidation import Consolidation
from trainables.preconsolidation.preparation import Basis
from trainables.state import State

pytestmark = pytest.mark.usefixtures("float64")
EXACT = {"rtol": 1e-9, "atol": 1e-11}


class Prepared:
    """Prepares task by task as a trial does, but for the heads, whose rows are given."""

    def __init__(self, seed: int = 0) -> None:
        self.head, self.seed, self.last = random_head(), seed, None

    def __call__(self, preparation: Any, before: bool = False) -> Any:
        if isinstance(preparation, PreconsolidationConfig):
            return lambda task: Consolidation(task.index, self.head, (), None, 0, None)  # type: ignore[arg-type]
        results: list[Any] = []

        def prepared(task: Task) -> Any:
            assert before  # the curvature on a task's own images holds the next task
            if self.last is not None:
                basis = Basis(make_tiny_vit(), 3, self.seed, torch.device("cpu"))
                previous = results[-1] if results else None
                results.append(preparation.read(preparation.prepare(self.last, previous, basis), self.last, previous))
            self.last = task
            return results[-1] if results else None

        return prepared


def random_head() -> Head:
    generator = torch.Generator().manual_seed(7)
    return torch.randn(5, 8, generator=generator).double(), torch.randn(5, generator=generator).double()


def of(tasks: tuple[Task, ...], **changes: Any) -> TAK:
    context = replace(tiny_context(tasks, batch_size=3), prepare=Prepared())
    given = {"lr": 0.01, "strength": 0.3, "affine": 4.0, "draws": "all", "warm_up": 0.4, **changes}
    return TAK(context, TAKConfig(**given))


class Plain:
    """TAK by one backward pass per image and feature, the penalty's formula, and AdamW by hand."""

    def __init__(self, context: Context, config: TAKConfig, head: Head) -> None:
        self.context, self.config, self.head, self.net = context, config, head, make_tiny_vit()
        self.theta_0 = {n: p.detach() for n, p in tangent_weights(self.net, class_token=True).items()}
        self.learned: list[Vector] = []
        self.done: list[Task] = []

    def rows(self, x: Tensor) -> list[dict[str, Tensor]]:
        """The derivative of all features of each image by each weight, `(d, ...)`."""
        found = []
        for image in x:
            leaves = {name: value.clone().requires_grad_() for name, value in self.theta_0.items()}
            phi = functional_call(self.net, leaves, (image[None],))[0]
            parts = [torch.autograd.grad(each, list(leaves.values()), retain_graph=True) for each in phi]
            found.append({n: torch.stack([p[k] for p in parts]) for k, n in enumerate(leaves)})
        return found

    def features(self, tau: Vector, x: Tensor) -> Tensor:
        along = [
            sum((row[name].flatten(1) @ tau[name].flatten() for name in tau), torch.zeros(8)) for row in self.rows(x)
        ]
        return self.net(x).detach() + torch.stack(along)

    def penalty(self, tau: Vector, factors: list[FeatureCurvature]) -> Tensor:
        """The sum of equation (8), layer by layer."""
        total, count = torch.zeros(()), sum(each.examples for each in factors)
        for name in factors[0].layers.factors if factors else ():
            a = sum(each.layers.factors[name].inputs[0] for each in factors) / count
            g = sum(each.layers.factors[name].outputs[0] for each in factors)
            delta = torch.cat([tau[f"{name}.weight"], tau[f"{name}.bias"][:, None]], 1)
            total = total + torch.trace(g @ delta @ a @ delta.T)
        for name in factors[0].affine.factors if factors else ():
            f = sum(each.affine.factors[name].inputs[0] for each in factors) / count
            total = total + self.config.affine * tau[name].flatten() @ f @ tau[name].flatten()
        return self.config.strength * total

    def learn(self, task: Task) -> None:
        factors = [
            feature_curvature(make_tiny_vit(), [shown(each.unaugmented)], draws=None, generator=torch.Generator())
            for each in self.done
        ]
        tau = {name: torch.zeros_like(value) for name, value in self.theta_0.items()}
        first, second = ({n: torch.zeros_like(v) for n, v in tau.items()} for _ in range(2))
        batches, step = shuffled_batches(task, self.context), 0
        steps = self.context.epochs * math.ceil(len(task.train) / self.context.batch_size)
        weight, bias = (part[task.rows] for part in self.head)
        for epoch in range(self.context.epochs):
            for batch in batches(epoch):
                leaves = {name: value.clone().requires_grad_() for name, value in tau.items()}
                logits = self.features(leaves, batch.x) @ weight.T + bias
                loss = F.cross_entropy(logits, batch.y - task.classes.start) + self.penalty(leaves, factors)
                gradients = torch.autograd.grad(loss, list(leaves.values()))
                rise = round(self.config.warm_up * steps)
                at = (step - rise) / (steps - rise)
                rate = self.config.lr * ((step + 1) / rise if step < rise else (1 + math.cos(math.pi * at)) / 2)
                step += 1
                for (name, value), g in zip(tau.items(), gradients, strict=True):
                    first[name] = 0.9 * first[name] + 0.1 * g
                    second[name] = 0.999 * second[name] + 0.001 * g * g
                    moved = first[name] / (1 - 0.9**step) / ((second[name] / (1 - 0.999**step)).sqrt() + 1e-8)
                    tau[name] = value * (1 - rate * self.config.decay) - rate * moved
        self.learned.append(tau)
        self.done.append(task)


def test_two_uneven_tasks_are_those_of_plain_loops() -> None:
    tasks = tiny_tasks((2, 3), per_class=3)
    method = of(tasks, alpha=0.7)
    plain = Plain(method.context, method.config, random_head())
    for task in tasks:
        method.begin_task(task)
        assert (method._penalty is None) == (task.index == 1)
        method.train_task(task)
        method.end_task(task)
        plain.learn(task)
        for name, part in method.tau.items():
            # A bias of keys moves no feature. Its gradient is rounding alone, which Adam makes larger.
            counts = slice(0, 8) if name.endswith("qkv.bias") else slice(None)
            torch.testing.assert_close(part.detach()[counts], plain.learned[-1][name][counts], rtol=0, atol=1e-8)
        x = shown(task.unaugmented)[:6]
        total = {name: 0.7 * sum(tau[name] for tau in plain.learned) for name in plain.theta_0}
        wanted = plain.features(total, x) @ random_head()[0][: task.classes.stop].T  # type: ignore[arg-type]
        torch.testing.assert_close(method.predict(x), wanted + random_head()[1][: task.classes.stop], rtol=0, atol=1e-7)


def two_curvatures() -> list[FeatureCurvature]:
    images = torch.randn(7, 1, 8, 8, generator=torch.Generator().manual_seed(5))
    draw = torch.Generator()
    parts = (images[:3], images[3:])
    return [feature_curvature(make_tiny_vit(), [x], draws=None, generator=draw) for x in parts]


def a_tau() -> Vector:
    generator = torch.Generator().manual_seed(6)
    weights = tangent_weights(make_tiny_vit(), class_token=True)
    return {name: torch.randn(weight.shape, generator=generator) for name, weight in weights.items()}


def test_the_penalty_is_the_papers_and_its_gradient_autograds() -> None:
    one, two = two_curvatures()
    penalty, tau = FeaturePenalty(one.plus(two), 0.3, 4.0), a_tau()
    plain = Plain(tiny_context((2, 3)), TAKConfig(lr=1, strength=0.3, affine=4.0), random_head())
    leaves = {name: value.clone().requires_grad_() for name, value in tau.items()}
    value = plain.penalty(leaves, [one, two])
    assert penalty.value(tau) == pytest.approx(float(value.detach()), rel=1e-12)
    gradients = penalty.gradients(tau)
    assert gradients.keys() == tau.keys()
    for name, gradient in zip(leaves, torch.autograd.grad(value, list(leaves.values())), strict=True):
        torch.testing.assert_close(gradients[name], gradient, **EXACT)


def test_the_penalty_of_an_affine_part_is_its_exact_drift() -> None:
    """What it stands for: the mean squared move of the features, where the factors are exact."""
    one, _ = two_curvatures()
    images = torch.randn(7, 1, 8, 8, generator=torch.Generator().manual_seed(5))[:3]
    plain = Plain(tiny_context((2, 3)), TAKConfig(lr=1, strength=1), random_head())
    tau = {name: part if name == "norm.weight" else torch.zeros_like(part) for name, part in a_tau().items()}
    drift = (plain.features(tau, images) - plain.net(images).detach()).square().sum(1).mean()
    assert FeaturePenalty(one, 1.0, 1.0).value(tau) == pytest.approx(float(drift), rel=1e-9)


def test_the_rate_rises_and_falls() -> None:
    factors = [warm_cosine(step, 10, 0.2) for step in range(10)]
    assert factors[:3] == [0.5, 1.0, 1.0] and factors[2:] == sorted(factors[2:], reverse=True) and factors[-1] > 0
    assert warm_cosine(0, 3, 0.0) == 1 and warm_cosine(2, 3, 1.0) == 1
    assert warm_cosine(9, 10, 0.2) == pytest.approx((1 + math.cos(math.pi * 7 / 8)) / 2)


def test_a_trained_head_moves_and_a_frozen_one_stays() -> None:
    tasks = tiny_tasks((2, 3), per_class=3)
    for head, moves in (("frozen", False), ("trained", True)):
        method = of(tasks, head=head)
        learn(method, *tasks)
        assert torch.equal(method.heads.weight, random_head()[0]) != moves


def test_tau_decays_and_a_trained_head_does_not() -> None:
    tasks, learned = tiny_tasks((2,), per_class=1), list[TAK]()
    for decay in (0.0, 10.0):
        learned.append(of(tasks, head="trained", decay=decay, warm_up=0.0))
        learn(learned[-1], *tasks)
    without, with_decay = learned  # in two steps: tau begins at 0, so its decay reaches no gradient yet
    assert torch.equal(without.heads.weight, with_decay.heads.weight)
    assert not all(torch.equal(part, with_decay.sums[name]) for name, part in without.sums.items())


def test_without_a_regulariser_nothing_is_prepared_but_heads() -> None:
    tasks = tiny_tasks((2, 3), per_class=3)
    for changes in ({"regularise": "none"}, {"regularise": "none", "references": "generic"}):
        method = of(tasks, **changes)
        learn(method, *tasks)
        assert method.past is None and method.generic is None


def test_a_penalty_that_blows_up_is_divergence_with_task_and_step() -> None:
    tasks = tiny_tasks((2, 3), per_class=3)
    method = of(tasks, strength=1e9)
    learn(method, tasks[0])
    method.begin_task(tasks[1])
    with pytest.raises(DivergedError, match=r"regularised loss of .* at task 2, step 6"):
        method.train_task(tasks[1])


def saved(method: TAK, tasks: tuple[Task, ...], folder: Path) -> VectorPool:
    for task in tasks:
        learn(method, task)
        origin = Origin(
            method="tak", task=task.index, classes=task.classes, backbone="tiny", backbone_digest="none"
        )  # fmt: skip
        write_vector(folder, method.vector(origin))
    return VectorPool(tuple(folder / f"task_{task.index}" for task in tasks))


def test_what_it_writes_composes_to_its_predictions_and_goes_on(tmp_path: Path) -> None:
    tasks = tiny_tasks((2, 2, 1), per_class=3)
    method = of(tasks, alpha=0.7)
    pool = saved(method, tasks, tmp_path)
    x = shown(tasks[0].unaugmented)[:4]
    assert {each.parametrisation for each in pool} == {"feature-tangent"} and {each.scale for each in pool} == {0.7}
    network = network_for(pool, TinyBackbone(), torch.device("cpu"))
    pool.require_fit([task.classes for task in tasks], network.theta_0, 8, "none", [()] * 3)
    network.compose(pool, [1 / 3] * 3, pool.head())
    assert not network.displaces_weights and torch.equal(network.predict(x), method.predict(x))
    vectors = list(pool)
    with method.composed(vectors, [0.5, 0.0, 0.5]):  # the others alone: they add up as before
        without = method.predict(x)
    kept = [vectors[0].parameters, vectors[2].parameters]
    total = {name: 0.7 * (kept[0][name]["tau"] + kept[1][name]["tau"]) for name in method.sums}
    torch.testing.assert_close(without, method.heads.logits(method.model.features(x, total)))
    network.compose(pool, [0.5, 0.0, 0.5], pool.head())
    torch.testing.assert_close(network.predict(x), without)
    again = of(tasks, alpha=0.7)
    again.continue_after(vectors)
    assert torch.equal(again.predict(x), method.predict(x)) and again.state().values == method.state().values


# Generic references.


def context_of(backbone: Backbone) -> Any:
    return replace(tiny_context((2, 3)), backbone=backbone)


class Tiny(TinyBackbone):
    """The tiny network with what a file of factors is made of."""

    @property
    def digest(self) -> str:
        return "d" * 64

    @property
    def input(self) -> InputSpec:
        return InputSpec(channels=1, size=8, mean=(0.5,), std=(0.5,))


def test_generic_references_hold_the_first_task_too(tmp_path: Path) -> None:
    file, tasks = tmp_path / "factors.safetensors", tiny_tasks((2, 3), per_class=3)
    one, _ = two_curvatures()
    write_generic(file, one, Tiny(), "random")
    context = replace(tiny_context(tasks, batch_size=3, backbone=Tiny()), prepare=Prepared())
    config = TAKConfig(lr=0.01, strength=0.3, references="generic", factors=str(file))
    validate(config, context)
    method = TAK(context, config)
    method.begin_task(tasks[0])
    assert method.past is None and method._penalty is not None
    assert method._penalty.value(a_tau()) == pytest.approx(FeaturePenalty(one, 0.3, 10.0).value(a_tau()), rel=1e-12)
    method.train_task(tasks[0])
    method.end_task(tasks[0])
    state = method.state()
    TAK(context, config).load_state(state)
    changed = State(state.tensors, values={**state.values, "factors": "other"})
    with pytest.raises(InputError, match="other factors than those that the trial began with"):
        TAK(context, config).load_state(changed)


@pytest.mark.parametrize(
    ("change", "message"), [("less", "has no factors of"), ("more", "has factors of other.weight")]
)
def test_generic_factors_of_other_layers_are_refused(change: str, message: str, tmp_path: Path) -> None:
    one, _ = two_curvatures()
    factors = dict(one.layers.factors)
    first = next(iter(factors))
    if change == "less":
        del factors[first]
    else:
        factors["other"] = Factors(*(part.clone() for part in (factors[first].inputs, factors[first].outputs)))
    write_generic(tmp_path / "f", replace(one, layers=replace(one.layers, factors=factors)), Tiny(), "random")
    context = replace(tiny_context((2, 3), backbone=Tiny()), prepare=Prepared())
    with pytest.raises(InputError, match=f"^tak: factors=.*: {message}"):
        TAK(context, TAKConfig(lr=1, strength=1, references="generic", factors=str(tmp_path / "f")))


def test_generic_references_without_their_file_or_of_another_backbone_are_refused(tmp_path: Path) -> None:
    one, _ = two_curvatures()
    good, other, torn = (tmp_path / name for name in ("good", "other", "torn"))
    write_generic(good, one, Tiny(), "random")
    write_generic(other, one, replace(Tiny(), name="other"), "random")
    torn.write_bytes(good.read_bytes()[:-8] + b"12345678")
    cases = {
        "": "needs its factors: make them once with `python -m trainables.methods.tak.make_generic FILE`",
        "factors.safetensors": "must be an absolute path, such as /",
        str(tmp_path / "none"): "cannot be read",
        str(tmp_path): "cannot be read",
        str(torn): "cannot be read .its content is not what was written",
    }
    for factors, message in cases.items():
        with pytest.raises(InputError, match=f"^tak: .*{message}"):
            validate(TAKConfig(lr=1, strength=1, references="generic", factors=factors), context_of(Tiny()))
    with pytest.raises(InputError, match=r"is of the backbone .* with digest d{12}; must be that of glyph_vit"):
        validate(TAKConfig(lr=1, strength=1, references="generic", factors=str(good)), context_of(Backbone()))
    with pytest.raises(InputError, match="is for references=generic, got past"):
        validate(TAKConfig(lr=1, strength=1, factors=str(good)), context_of(Tiny()))


def test_the_command_makes_the_factors_of_the_embedded_backbone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.set_default_dtype(torch.float32)  # of the embedded network; the fixture sets it back
    found = []
    for name, images in (("drawn", []), ("digits", ["--images", "digits"])):
        file = tmp_path / name
        monkeypatch.setattr("sys.argv", ["make_generic", str(file), "--count", "70", *images])
        main()
        found.append(read_generic(str(file), Backbone()))
    (drawn, digest), (digits, other) = found
    assert digest != other and (drawn.examples, digits.examples) == (70, 128)  # whole batches of digits
    assert "curvature of glyph_vit on 70 images" in capsys.readouterr().out
    for arguments, message in (
        (["--backbone", "vit_tiny_patch16_224"], "--images: needed for vit_tiny_patch16_224"),
        (["--images", "nothing"], "nothing"),
        ([str(tmp_path)], "must be a file, not a folder"),
        ([str(tmp_path / "x" / "y")], "cannot be written (No such file or directory)"),
    ):
        place = [] if Path(arguments[0]).is_absolute() else [str(tmp_path / "x")]
        monkeypatch.setattr("sys.argv", ["make_generic", *place, *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2 and message in capsys.readouterr().err and not (tmp_path / "x").exists()


def test_the_command_takes_code_that_is_typed_and_says_that_a_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.set_default_dtype(torch.float32)  # of the embedded network; the fixture sets it back
    monkeypatch.setattr(user_code, "_allowed", {})
    made = replace(BENCHMARKS["digits"], name="own")
    monkeypatch.setitem(sys.modules, "own_images", SimpleNamespace(OWN=made))
    file = tmp_path / "own"
    monkeypatch.setattr("sys.argv", ["make_generic", str(file), "--count", "1", "--images", "own_images:OWN?tasks=1"])
    main()
    assert read_generic(str(file), Backbone())[0].examples == 64

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(make_generic, "write_generic", full)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"{file}: cannot be written (No space left on device)\n"
