"""The contract tests of samplers, rules and backbones: they accept the example package, and notice what breaks."""

from __future__ import annotations

import dataclasses
import random
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import BasePruner, HyperbandPruner
from optuna.samplers import BruteForceSampler, RandomSampler, TPESampler
from torch import nn

from tausearch.api import SearchRequest, plan_search
from tausearch.runs import SCHEDULERS
from tausearch.studies import algorithm_named
from tausearch.studies.schedulers import pruner_named
from tausearch.testing import (
    check_backbone,
    check_benchmark,
    check_callback,
    check_estimate,
    check_method,
    check_pruner,
    check_rule,
    check_sampler,
)
from tausearch.testing.benchmark_sources import _same
from tausearch.testing.benchmarks import SOURCE, few_digits
from tests.support.packages import install_example
from trainables.backbones import Backbone, InputSpec, OwnBackbone
from trainables.composition import RULES, Merging, Parameter, choose_rule
from trainables.composition.chosen_rules import rule_called
from trainables.data.from_module import source_in_code
from trainables.errors import InputError


@pytest.fixture(scope="module", autouse=True)
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The example package, installed for these tests."""
    site = install_example(tmp_path_factory.mktemp("site"))
    sys.path.insert(0, str(site))
    yield site
    sys.path.remove(str(site))
    for name in [each for each in sys.modules if each.startswith("tausearch_example")]:
        del sys.modules[name]


_NUMBERS = count()


def annealing() -> Any:
    return algorithm_named("annealing").sampler(5)


def test_a_search_is_planned_with_all_that_the_package_brings(tmp_path: Path) -> None:
    request = SearchRequest(
        "stripes",
        "finetune",
        algorithm="annealing",
        sampler_options={"cooling": 0.5},
        scheduler="far-behind",
        pruner_options={"points": 5},
        backbone="mixer",
        storage=tmp_path / "runs",
    )
    spec = plan_search(request).spec
    assert (spec.algorithm, spec.scheduler, spec.protocol.backbone) == ("annealing", "far-behind", "mixer")
    assert (spec.benchmark, spec.steps) == ("stripes", 4)
    assert spec.code == ()  # the user installed it: no permission is needed
    assert choose_rule("largest", {}).parameters == {"share": 0.2}
    sampler: Any = algorithm_named("annealing", {"cooling": 0.5}).sampler(1)
    pruner: Any = pruner_named("far-behind", {"points": 5})
    assert (sampler.cooling, pruner.points) == (0.5, 5)


def test_the_package_keeps_the_contracts() -> None:
    check_sampler(annealing)
    check_rule(lambda: rule_called("largest"))
    own = Backbone("mixer").own
    assert own is not None
    check_backbone(own)
    check_pruner(lambda: pruner_named("far-behind"))
    check_benchmark(source_in_code("stripes"))


@pytest.mark.parametrize("name", SCHEDULERS)
def test_our_pruners_keep_the_contract(name: str) -> None:
    check_pruner(lambda: pruner_named(name))


def test_a_pruner_that_goes_by_the_name_of_the_study_keeps_the_contract() -> None:
    check_pruner(HyperbandPruner)


class Answering(BasePruner):
    def __init__(self, answer: Callable[[int], Any]) -> None:
        self.answer, self.asked = answer, 0

    def prune(self, study: object, trial: object) -> Any:
        self.asked += 1
        return self.answer(self.asked)


def _of_the_process() -> Callable[[int], Any]:
    """Answers that depend on which of this process's pruners it is, from the eighth trial on."""
    own = next(_NUMBERS)
    return lambda asked: asked > 7 * 6 and own % 2 == 0


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda: lambda asked: "no", "prune must return True or False, got 'no'"),
        (lambda: lambda asked: 0, "prune must return True or False, got 0"),
        (lambda: lambda asked: random.random() < 0.5, "answers otherwise when it is asked again for the same trials"),
        (_of_the_process, "answers otherwise after a kill"),
    ],
)
def test_a_broken_pruner_is_noticed(answer: Callable[[], Callable[[int], Any]], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_pruner(lambda: Answering(answer()))


def _other_each_time(part: str) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = few_digits(part)
    return torch.randint(0, 255, images.shape, dtype=torch.uint8), labels


def _without_a_class(part: str) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = few_digits(part)
    kept = labels != (5 if part == "test" else 6)
    return images[kept], labels[kept]


def _drawn(part: str) -> tuple[torch.Tensor, torch.Tensor]:
    torch.rand(1)
    return few_digits(part)


def _two_of_a_class(part: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the digits with two training images of the class 5. A search takes one of these for validation."""
    images, labels = few_digits(part)
    kept = labels != 5 if part == "train" else torch.ones(len(labels), dtype=torch.bool)
    kept[(labels == 5).nonzero()[:2]] = True
    return images[kept], labels[kept]


_ORDERS = count()


def _turned(part: str) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = few_digits(part)
    return images, labels.roll(next(_ORDERS))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"load": _other_each_time}, r"load\('train'\) gives other images each time"),
        ({"load": _turned}, r"load\('train'\) gives other labels each time"),
        ({"load": _without_a_class}, r"load\('test'\) has no image of '5'"),
        ({"load": _two_of_a_class}, "class '5' has 1 training images beside those that validate, needs 2"),
        ({"load": _drawn}, "draws from torch's global generator"),
        ({"load": lambda part: few_digits("train")}, "load returns the same images for both parts"),
        ({"load": lambda part: None}, r"load\('train'\) must return images and labels, got NoneType"),
        (
            {"transforms": lambda reads: (lambda images, generator: images,) * 2},
            r"must give finite floats \(2, 1, 32, 32\) for the backbone, got torch.uint8 \(2, 1",
        ),
        ({"num_tasks": 9}, "num_tasks must be"),
    ],
)
def test_a_broken_benchmark_is_noticed(changes: dict[str, Any], words: str) -> None:
    check_benchmark(SOURCE)
    with pytest.raises((AssertionError, InputError), match=words):
        check_benchmark(dataclasses.replace(SOURCE, **changes))


def test_images_on_disk_are_the_same_by_their_digest() -> None:
    one, other, held = SimpleNamespace(digest="a"), SimpleNamespace(digest="b"), torch.zeros(1, 1, 2, 2)
    pairs: list[Any] = [(one, one), (one, other), (one, held), (held, held.clone()), (held, held + 1)]
    assert [_same(*pair) for pair in pairs] == [True, False, False, True, False]


@pytest.mark.parametrize("name", RULES)
def test_our_rules_keep_the_contract(name: str) -> None:
    check_rule(RULES[name])


def _unseeded() -> Any:
    sampler = annealing()
    sampler.random = random.Random()
    return sampler


def _forgetful() -> Any:
    """Its last draws depend on which of this process's samplers it is."""
    sampler = annealing()
    told: list[int] = []
    own = next(_NUMBERS)
    ask = sampler.sample_independent

    def sample(study: Any, trial: Any, name: str, distribution: Any) -> Any:
        told.append(trial.number)
        value = ask(study, trial, name, distribution)
        return value if len(told) < 2 * 12 else distribution.low + 1e-6 * own

    sampler.sample_independent = sample
    return sampler


def _raising(*given: Any) -> Any:
    raise KeyError("no")


def _constant() -> Any:
    sampler = annealing()
    sampler.sample_independent = lambda study, trial, name, distribution: distribution.low
    return sampler


def _outside() -> Any:
    sampler = annealing()
    sampler.sample_independent = lambda study, trial, name, distribution: distribution.high * 2
    return sampler


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_outside, "sampler: proposed 20.0 for 'alpha', which must be a number from 0.1 to 10"),
        (_unseeded, "its draws need a seed"),
        (_forgetful, "proposes other points after a kill"),
        (_constant, "proposes the same point again and again"),
    ],
)
def test_a_broken_sampler_is_noticed(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_sampler(make)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize(
    ("sampler", "space"),
    [
        (TPESampler, {"kind": CategoricalDistribution(["a", "b", "c"]), "lr": FloatDistribution(0.1, 1.0)}),
        (BruteForceSampler, {"rank": IntDistribution(1, 3)}),  # fewer points than trials, as in a search
    ],
)
def test_a_space_may_have_choices_of_text_and_few_points(
    sampler: Callable[..., Any], space: dict[str, BaseDistribution]
) -> None:
    check_sampler(lambda: sampler(seed=0), space)


def test_a_sampler_is_asked_for_points_of_the_given_space() -> None:
    asked: set[str] = set()

    def make() -> Any:
        sampler = annealing()
        ask = sampler.sample_independent

        def sample(study: Any, trial: Any, name: str, distribution: Any) -> Any:
            asked.add(name)
            return ask(study, trial, name, distribution)

        sampler.sample_independent = sample
        return sampler

    check_sampler(make, {"rank": FloatDistribution(1.0, 2.0)})
    assert asked == {"rank"}


@pytest.mark.parametrize(
    ("check", "given", "said"),
    [
        (check_backbone, ["mixer"], "backbone must be an OwnBackbone, got 'mixer'"),
        (check_benchmark, ["stripes"], "source must be a BenchmarkSource, got 'stripes'"),
        (check_method, [None, {}], "method must be a class, or a name, got None"),
        (check_method, ["finetune", ["lr"]], "hyperparameters must be a mapping, got ['lr']"),
        (check_estimate, [None], "kind must be a class with `estimate`, got None"),
        (check_pruner, [None], "make must be a function that makes the pruner, got None"),
        (check_pruner, [lambda: "asha"], "what make returns must be a pruner of Optuna, got 'asha'"),
        (check_sampler, [RandomSampler()], "make must be a function that makes the sampler, got <optuna.samplers."),
        (check_sampler, [str], "what make returns must be a sampler of Optuna, got ''"),
        (check_rule, ["largest"], "make must be the rule's class, or a function that makes the rule, got 'largest'"),
        (check_callback, ["tally", "new"], "make must be a function that makes the callback, got 'tally'"),
        (check_callback, [dict, ".."], "folder must be an empty or new folder, got '..'"),
    ],
)
def test_what_is_none_of_a_kind_is_named(
    check: Callable[..., None], given: list[Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    with pytest.raises(InputError, match=f"^{re.escape(said)}"):
        check(*given)


class Sum:
    """A rule that a test breaks."""

    parameters = {"factor": Parameter(1, low=0, high=2)}

    def __init__(self, merge: Callable[[Merging], Any]) -> None:
        self.merged = merge

    def merge(self, merging: Merging) -> Any:
        return self.merged(merging)


def _sum(merging: Merging) -> dict[str, Any]:
    pairs = list(zip(merging.taus, merging.weights, strict=True))
    return {name: sum(weight * tau[name] for tau, weight in pairs) for name in merging.names}


def _changing(merging: Merging) -> dict[str, Any]:
    found = _sum(merging)
    merging.taus[0][merging.names[0]].mul_(1.0).add_(0.0)
    merging.taus[-1][merging.names[0]].zero_()
    return {name: torch.zeros_like(value) for name, value in found.items()}


def _changing_the_last(merging: Merging) -> dict[str, Any]:
    """Change the last layer of the last task alone, where there are several tasks."""
    found = {name: torch.zeros_like(value) for name, value in _sum(merging).items()}
    if len(merging.taus) > 1:
        merging.taus[-1][merging.names[-1]].zero_()
    return found


def _refusing_conflicts(merging: Merging) -> dict[str, Any] | None:
    """Give up where two tasks pull a number to different sides."""
    signs = [torch.cat([tau[name].sign().flatten() for name in merging.names]) for tau in merging.taus]
    return _sum(merging) if all(torch.equal(each, signs[0]) for each in signs) else None


@pytest.mark.parametrize(
    ("merge", "words"),
    [
        (lambda merging: dict(list(_sum(merging).items())[:1]), "merge must return each tuned weight once; 'blocks."),
        (lambda merging: {n: value.T for n, value in _sum(merging).items()}, "merge must return (12, 4) for 'blocks.0"),
        (
            lambda merging: {n: value / (merging.parameters["factor"] - 2) for n, value in _sum(merging).items()},
            "merge returned numbers for 'blocks.0.attn.qkv.weight' that are not finite",
        ),
        (
            lambda merging: {n: value / merging.parameters["factor"] for n, value in _sum(merging).items()},
            "merge returned numbers for 'blocks.0.attn.qkv.weight' that are not finite",
        ),
        (lambda merging: None, "merge must return a mapping of tensors, got NoneType"),
        (lambda merging: _sum(merging) if len(merging.taus) > 1 else None, "a mapping of tensors, got NoneType"),
        (lambda merging: _sum(merging) if min(merging.weights) > 0 else None, "a mapping of tensors, got NoneType"),
        (lambda merging: {n: value.numpy() for n, value in _sum(merging).items()}, "'blocks.0.attn.qkv.weight', got n"),
        (lambda merging: 1 / 0, "failed (ZeroDivisionError"),
        (lambda merging: {n: torch.rand_like(value) for n, value in _sum(merging).items()}, "global generator"),
        (
            lambda merging: {n: value + id(object()) * random.random() for n, value in _sum(merging).items()},
            "asked again",
        ),
        (_refusing_conflicts, "a mapping of tensors, got NoneType"),
        (lambda merging: merging.taus[0].copy(), "'DenseVector' object has no attribute 'copy'"),  # a mapping, no dict
        (lambda merging: merging.taus[0] | {}, "unsupported operand type(s) for |: 'DenseVector' and 'dict'"),
        (_changing, "changes the task vectors"),
        (_changing_the_last, "changes the task vectors"),
    ],
)
def test_a_broken_rule_is_noticed(merge: Callable[[Merging], Any], words: str) -> None:
    check_rule(lambda: Sum(_sum))
    with pytest.raises(AssertionError, match=re.escape(words)):
        check_rule(lambda: Sum(merge))


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"parameters": {}}, "rule 'Own': the class Own lacks merge() of the protocol MergingRule"),
        ({"merge": lambda self, merging: {}}, "rule 'Own': parameters is missing; write {} for none"),
        ({"merge": lambda self: {}, "parameters": {}}, "Own.merge must take (merging)"),
    ],
)
def test_a_rule_that_lacks_what_it_must_have_is_noticed(members: dict[str, Any], words: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(words)):
        check_rule(type("Own", (), members))


class Weighed(Sum):
    """A rule that reads a diagonal, and that a test breaks."""

    curvatures = ("diagonal",)


def _by_fisher(merging: Merging, damping: float = 1.0) -> dict[str, Any]:
    found = {}
    for name in merging.names:
        shares = [each.mean.tensors()[name] + damping for each in merging.curvatures]
        pairs = zip(merging.taus, shares, strict=True)
        found[name] = sum(tau[name] * share for tau, share in pairs) / torch.stack(shares).sum(0)
    return found


def _scaling(merging: Merging) -> dict[str, Any]:
    merging.curvatures[0].mean.tensors()[merging.names[0]].mul_(2)
    return _sum(merging)


def _scaling_the_last(merging: Merging) -> dict[str, Any]:
    if len(merging.curvatures) > 1:
        merging.curvatures[-1].mean.tensors()[merging.names[-1]].mul_(2)
    return _sum(merging)


def test_a_broken_rule_that_reads_curvature_is_noticed() -> None:
    check_rule(lambda: Weighed(_by_fisher))
    with pytest.raises(AssertionError, match="that are not finite"):
        check_rule(lambda: Weighed(lambda merging: _by_fisher(merging, 0.0)))
    with pytest.raises(AssertionError, match="changes the curvatures|returns something else"):
        check_rule(lambda: Weighed(_scaling))
    with pytest.raises(AssertionError, match="changes the curvatures"):
        check_rule(lambda: Weighed(_scaling_the_last))
    with pytest.raises(AssertionError, match="must declare their kinds"):
        check_rule(lambda: Sum(_by_fisher))
    both = type("Both", (Weighed,), {"curvatures": ("diagonal", "kronecker")})  # it reads the first alone
    with pytest.raises(AssertionError, match="KeyError"):
        check_rule(lambda: both(_by_fisher))
    for kinds in (("exact",), ["diagonal"]):
        wrong = type("Wrong", (Sum,), {"curvatures": kinds})
        with pytest.raises(AssertionError, match="curvatures must be a tuple of 'diagonal' or 'kronecker', got"):
            check_rule(lambda wrong=wrong: wrong(_sum))


class Normed(nn.Module):
    """The features of an image depend on those of the others."""

    num_features = 4

    def __init__(self, std: float) -> None:
        super().__init__()
        self.first = nn.Linear(8, 4)
        nn.init.normal_(self.first.weight, std=std, generator=torch.Generator().manual_seed(1))
        nn.init.zeros_(self.first.bias)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.first(images[:, 0]).mean(1)
        return found - found.mean(0)


class Drawing(Normed):
    """It draws a number for nothing."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        torch.rand(1)
        found: torch.Tensor = self.first(images[:, 0]).mean(1)
        return found


class Darkening(Drawing):
    """It changes its input."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward(images.mul_(0.5))


class Noting(Drawing):
    """It keeps notes beside its weights."""

    def get_extra_state(self) -> dict[str, int]:
        return {"seen": 1}


class Seeing(Normed):
    """Its features of images that are not black are changed."""

    def __init__(self, change: Callable[[torch.Tensor], Any]) -> None:
        super().__init__(1.0)
        self.change = change

    def forward(self, images: torch.Tensor) -> Any:
        found: torch.Tensor = self.first(images[:, 0]).mean(1)
        return self.change(found) if images.any() else found


class Later(Normed):
    """Each image is seen by itself; a later weight is the given one, and training drops features."""

    def __init__(self, later: float) -> None:
        super().__init__(1.0)
        self.second = nn.Linear(4, 4)
        nn.init.constant_(self.second.weight, later)
        nn.init.zeros_(self.second.bias)
        self.drop = nn.Dropout()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.drop(self.second(self.first(images[:, 0]).mean(1)))
        return found


class Beside(Normed):
    """The features of the first of several images depend on the one beside it, and no others do."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.first(images[:, 0]).mean(1)
        return torch.cat([found[:2].sum(0, keepdim=True), found[1:]])


def test_a_backbone_without_the_layers_that_it_names_is_noticed() -> None:
    own = OwnBackbone(build=lambda: Later(1.0), input=InputSpec(1, 8, (0.5,), (0.5,)), tuned=("third",))
    with pytest.raises(InputError, match="third"):
        check_backbone(own)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"input": InputSpec(1, 8, (0.5,), (0.0,))}, "input: std must be above 0, got (0.0,)"),
        ({"tuned": "first"}, "tuned must be a tuple of ends of names of layers, got 'first'"),
        ({"tuned": ["first"]}, "tuned must be a tuple of ends of names of layers, got ['first']"),
        ({"build": None}, "build must be a function, got nothing"),
        ({"initial_head": 3}, "initial_head must be a function, got int"),
    ],
)
def test_a_field_of_a_backbone_is_refused_as_in_a_run(changes: dict[str, Any], said: str) -> None:
    given = {"build": lambda: Later(1.0), "input": InputSpec(1, 8, (0.5,), (0.5,)), "tuned": ("first",), **changes}
    with pytest.raises(InputError, match=re.escape(f"backbone 'under test': {said}")):
        check_backbone(OwnBackbone(**given))


def test_transforms_are_checked_with_what_the_benchmarks_own_backbone_reads() -> None:
    seen: list[InputSpec] = []
    benchmark = dataclasses.replace(SOURCE, backbone="vit_tiny_patch16_224", transforms=seen.append)  # type: ignore
    with pytest.raises((InputError, TypeError)):
        check_benchmark(benchmark)
    assert {(each.channels, each.size) for each in seen} == {(3, 224)}


def with_noise(network: nn.Module) -> nn.Module:
    network.register_buffer("noise", torch.tensor(random.random()))
    return network


def with_one_of_two(network: nn.Module) -> nn.Module:
    network.register_buffer(f"extra_{next(_NUMBERS)}", torch.zeros(1))
    return network


def test_a_backbone_that_raises_at_other_images_is_refused_with_its_place() -> None:
    def refuse(found: torch.Tensor) -> None:
        raise ValueError("too bright")

    own = OwnBackbone(build=lambda: Seeing(refuse), input=InputSpec(1, 8, (0.5,), (0.5,)), tuned=("first",))
    said = rf"^backbone 'under test' failed \(ValueError: too bright in {re.escape(__file__)}, line \d+\)$"
    with pytest.raises(InputError, match=said):
        check_backbone(own)


@pytest.mark.parametrize(("check", "base"), [(check_sampler, annealing), (check_pruner, lambda: Answering(_raising))])
def test_what_raises_is_said_with_its_place(check: Callable[..., None], base: Callable[[], Any]) -> None:
    def make() -> Any:
        found = base()
        found.sample_independent = _raising
        return found

    for each in (make, _raising):
        with pytest.raises(AssertionError, match=rf"KeyError: 'no' in {re.escape(__file__)}, line"):
            check(each)


@pytest.mark.parametrize(
    ("head", "error", "said"),
    [
        (lambda names: torch.eye(2, 4)[[["cat", "star"].index(name) for name in names]], None, ""),
        (lambda names: torch.rand(2, 4), AssertionError, "initial_head gives other embeddings each time"),
        (lambda names: 1 / 0, InputError, "backbone 'under test': initial_head failed (ZeroDivisionError"),
        (lambda names: "rows", InputError, "initial_head must return a tensor (2, d), got str"),
        (lambda names: torch.ones(2, 5), InputError, "its embeddings have 5 numbers; the features have 4"),
        (lambda names: torch.zeros(2, 4), InputError, "has an embedding that is zero or not finite"),
    ],
)
def test_an_initial_head_is_asked_for_embeddings(
    head: Callable[[Any], Any], error: type[Exception] | None, said: str
) -> None:
    reads = InputSpec(1, 8, (0.5,), (0.5,))
    own = OwnBackbone(build=lambda: Later(1.0), input=reads, tuned=("first",), initial_head=head)
    with nullcontext() if error is None else pytest.raises(error, match=re.escape(said)):
        check_backbone(own, ["cat", "star"])
    check_backbone(own)  # it may know other names alone


def test_a_backbone_that_drops_features_in_training_alone_passes() -> None:
    check_backbone(OwnBackbone(build=lambda: Later(1.0), input=InputSpec(1, 8, (0.5,), (0.5,)), tuned=("first",)))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Later(random.random()), "build gives other weights each time, as in 'second.weight'"),
        (lambda: with_noise(Later(1.0)), "build gives other weights each time, as in 'noise'"),
        (lambda: Drawing(1.0), "draws from torch's global generator while it computes"),
        (lambda: Normed(1.0), "the features of an image depend on others"),
        (lambda: Darkening(1.0), "changes the images that it is given"),
        (lambda: Noting(1.0), "its state_dict has '_extra_state', which is no tensor but dict"),
        (lambda: Beside(1.0), "the features of an image depend on others"),
        (lambda: Normed(random.random()), "build gives other weights each time, as in 'first.weight'"),
        (lambda: with_one_of_two(Later(1.0)), "build gives other weights each time, as in 'extra_"),
        (lambda: Seeing(lambda found: found / 0), "features are not finite"),
        (lambda: Seeing(lambda found: found[:1]), r"gives features \(1, 4\) of 3 images, not \(3, 4\)"),
        (lambda: Seeing(lambda found: None), r"gives features nothing of 3 images, not \(3, 4\)"),
    ],
)
def test_a_broken_backbone_is_noticed(build: Callable[[], nn.Module], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_backbone(OwnBackbone(build=build, input=InputSpec(1, 8, (0.5,), (0.5,)), tuned=("first",)))
