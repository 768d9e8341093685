"""Pre-consolidations of tasks in order, and cache hits for equal inputs alone."""

from __future__ import annotations

import dataclasses
import importlib
import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.methods.small_digits import small_digits
from trainables import user_code
from trainables.backbones import Backbone
from trainables.curvature import DiagonalCurvature, Factors, KroneckerCurvature
from trainables.data import Images, Normalise, Task
from trainables.data.transforms.cropping import RandomShift
from trainables.data.transforms.normalisation import Transform
from trainables.preconsolidation import (
    Consolidation,
    PreconsolidationConfig,
    Preconsolidator,
    Preparer,
    cache,
    consolidation,
    preparation,
    provider,
)
from trainables.preconsolidation.mixtures import Mixture
from trainables.preconsolidation.preparation import Basis
from trainables.user_code import allow_code

Make = Callable[..., Preconsolidator[Any]]
CONFIG = PreconsolidationConfig(lr_pre=0.03, epochs_pre=8, components=4, draws=200, fisher_passes=2)


def small(task: Any, previous: Consolidation | None) -> Consolidation:
    """Stand in for minutes of work: a result of the right shape with the number of its task."""
    rows = task.classes.stop
    own = (Mixture(torch.ones(1), torch.full((1, 2), float(task.index)), torch.ones(1, 2)) for _ in task.classes)
    mixtures = (*(previous.mixtures if previous else ()), *own)
    head = (torch.full((rows, 2), float(task.index)), torch.zeros(rows))
    curvature = DiagonalCurvature({"w": torch.eye(2) * rows})
    return Consolidation(task.index, head, mixtures, curvature, 10 * rows, previous)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The arguments of every computation."""
    found: list[dict[str, Any]] = []

    def consolidate(task: Any, previous: Consolidation | None, config: Any, basis: Basis) -> Consolidation:
        found.append({"task": task.index, "previous": previous, "config": config, **vars(basis)})
        result = small(task, previous)
        other = config.curvature == "kronecker"
        return dataclasses.replace(result, curvature=KroneckerCurvature({})) if other else result

    monkeypatch.setattr(consolidation, "consolidate", consolidate)
    monkeypatch.setattr(Backbone, "load", lambda self, device: object())
    return found


@pytest.fixture
def make(tmp_path: Path, computed: list[dict[str, Any]]) -> Make:
    """Make a provider with some arguments changed; all share a cache."""
    benchmark = small_digits()
    given: dict[str, Any] = {
        "tasks": benchmark.tasks,
        "backbone": Backbone(),
        "spec": benchmark.spec,
        "fingerprint": benchmark.fingerprint,
        "purpose": "search",
        "seed": 3,
        "device": torch.device("cpu"),
    }

    def made(preparation: Any = CONFIG, cache: Path | None = tmp_path, **changed: Any) -> Preconsolidator[Any]:
        preparer = Preparer(**{**given, **changed}, cache=cache, cache_bytes=None)
        preparer(preparation)
        return preparer.providers[0]

    return made


def tasks(computed: list[dict[str, Any]]) -> list[int]:
    return [each["task"] for each in computed]


def test_equal_inputs_hit_the_cache(make: Make, computed: list[dict[str, Any]]) -> None:
    first, second = make(), make(purpose="final")  # which trains on the same images, or its fingerprint is another
    assert [(first.task(t).task, first.hit) for t in (1, 2, 3)] == [(1, False), (2, False), (3, False)]
    got = second.task(3)
    assert tasks(computed) == [1, 2, 3] and second.hit
    _, two, three = (small(task, None) for task in small_digits().tasks)
    torch.testing.assert_close(got.curvature.tensors(), three.curvature.tensors())
    torch.testing.assert_close(got.head, three.head)
    assert got.examples == 60
    assert [float(mixture.means[0, 0]) for mixture in got.mixtures] == [1, 1, 2, 2, 3, 3]
    assert got.previous is not None and got.previous.examples == two.examples and got.previous.previous is None


OTHER = SimpleNamespace(name="glyph_vit", digest="0" * 64, own=None, load=lambda device: object())
CHANGES: dict[str, Callable[[pytest.MonkeyPatch], dict[str, Any]]] = {
    "data": lambda patch: {"fingerprint": "0" * 64},
    "batch size": lambda patch: {"spec": dataclasses.replace(small_digits().spec, batch_size=9)},
    "backbone": lambda patch: {"backbone": OTHER},
    "seed": lambda patch: {"seed": 4},
    "device": lambda patch: {"device": torch.device("cuda")},
    "threads": lambda patch: patch.setattr(torch, "get_num_threads", lambda: 7) or {},
    "format": lambda patch: patch.setattr(cache, "FORMAT_VERSION", cache.FORMAT_VERSION + 1) or {},
}


OTHER_CONFIG = {
    "lr_pre": 0.02,
    "epochs_pre": 4,
    "components": 6,
    "draws": 255,
    "fisher_passes": None,
    "curvature": "kronecker",
}


@pytest.mark.parametrize("what", [*CHANGES, *OTHER_CONFIG, "torch", "timm", "scikit-learn"])
def test_whatever_changes_the_numbers_is_computed_anew(
    what: str, make: Make, computed: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    make().task(2)
    if what in OTHER_CONFIG:
        changed = {"preparation": dataclasses.replace(CONFIG, **{what: OTHER_CONFIG[what]})}
    elif what in CHANGES:
        changed = CHANGES[what](monkeypatch)
    else:
        changed, original = {}, provider.version
        monkeypatch.setattr(provider, "version", lambda name: "99" if name == what else original(name))
    make(**changed).task(2)
    assert tasks(computed) == [1, 2, 1, 2]


def test_kronecker_factors_come_back_from_the_cache(
    make: Make, computed: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = torch.rand(1, 3, 3)
    curvature = KroneckerCurvature(
        {"w": Factors(draw, 2 * draw), "v": Factors(3 * draw, 4 * draw)}, shift=0.5, tasks=2.0
    )
    monkeypatch.setattr(
        consolidation,
        "consolidate",
        lambda task, previous, *given: dataclasses.replace(small(task, previous), curvature=curvature),
    )
    config = dataclasses.replace(CONFIG, curvature="kronecker")
    make(preparation=config).task(1)
    again = make(preparation=config)
    got = again.task(1).curvature
    assert again.hit and isinstance(got, KroneckerCurvature) and (got.shift, got.tasks) == (0.5, 2.0)
    assert got.tensors().keys() == curvature.tensors().keys()
    assert all(torch.equal(value, curvature.tensors()[name]) for name, value in got.tensors().items())


def test_the_diagonal_keeps_the_keys_from_before_there_was_a_choice(
    make: Make, computed: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    digested: list[dict[str, Any]] = []
    monkeypatch.setattr(provider, "digest", lambda parts: digested.append(dict(parts)) or "0" * 64)
    make().task(1)
    assert digested[0]["config"].keys() == set(OTHER_CONFIG) - {"curvature"}


def test_all_fields_of_the_config_are_tried_above() -> None:
    assert {field.name for field in dataclasses.fields(PreconsolidationConfig)} == set(OTHER_CONFIG)


def test_each_task_is_handed_the_one_before_it_and_what_it_depends_on(
    make: Make, computed: list[dict[str, Any]]
) -> None:
    made = make(cache=None)
    three = made.task(3)
    assert tasks(computed) == [1, 2, 3] and not made.hit
    assert [each["previous"] and each["previous"].task for each in computed] == [None, 1, 2]
    for each in computed:
        assert (each["config"], each["batch_size"], each["seed"]) == (CONFIG, 8, 3)
        assert each["device"].type == "cpu"
    assert made.task(3) is three and len(computed) == 3
    assert made.task(2).task == 2 and tasks(computed[3:]) == [1, 2]  # who goes back starts anew


def test_a_cache_hit_needs_no_network(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[torch.device] = []
    monkeypatch.setattr(Backbone, "load", lambda self, device: loads.append(device))
    make().task(3)
    assert loads == [torch.device("cpu")]  # once for all tasks
    make().task(3)
    assert len(loads) == 1


def test_an_entry_says_what_it_is_and_is_let_go_of(make: Make, tmp_path: Path) -> None:
    made = make(purpose="final")
    made.task(2)
    entries = cache.Cache(tmp_path).entries()
    about = {entry.about["task"]: entry.about for entry in entries}
    assert set(about) == {"1", "2"} and all(entry.in_use for entry in entries)
    assert {"benchmark": "digits", "purpose": "final", "seed": "3", "epochs_pre": "8"}.items() <= about["2"].items()
    made.close()
    assert not any(entry.in_use for entry in entries)


def test_the_text_of_a_curvature_of_the_user_is_in_the_key(
    make: Make, computed: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digested: list[dict[str, Any]] = []
    monkeypatch.setattr(provider, "digest", lambda parts: digested.append(dict(parts)) or f"{len(digested):064}")
    monkeypatch.setattr(user_code, "_allowed", {})
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    allow_code("own_hessian:Mine", tmp_path)
    text = "from trainables.curvature import DiagonalCurvature\n\nclass Mine(DiagonalCurvature):\n    pass\n"
    for each in (text, text, f"{text}\n"):
        (tmp_path / "own_hessian.py").write_text(each)
        monkeypatch.delitem(sys.modules, "own_hessian", raising=False)
        linecache.clearcache()
        make(preparation=dataclasses.replace(CONFIG, curvature="own_hessian:Mine")).task(1)
    make().task(1)
    first, again, changed, ours = (parts.get("code") for parts in digested)
    assert first == again != changed and first[0]["class"] == "own_hessian:Mine" and ours is None


def test_the_text_of_a_backbone_of_the_user_is_in_the_key(
    make: Make, computed: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_code, "_allowed", {})
    monkeypatch.setattr("trainables.backbones._digest", lambda *_: "of the weights, which stay")
    allow_code("own_net:NET", tmp_path)
    text = (
        "from trainables.backbones import Backbone, OwnBackbone\n\n"
        "NET = OwnBackbone(build=Backbone().load, input=Backbone().input)\n"
    )
    hits = []
    for each in (text, text, f"{text}\n"):
        (tmp_path / "own_net.py").write_text(each)
        monkeypatch.delitem(sys.modules, "own_net", raising=False)
        provided = make(backbone=Backbone("own_net:NET"))
        provided.task(1)
        hits.append(provided.hit)
    assert hits == [False, True, False]


@dataclasses.dataclass(frozen=True)
class Unaugmented:
    """A preparation that reads images as they are evaluated."""

    def prepare(self, task: Task, previous: float | None, basis: Basis) -> dict[str, Tensor]:
        return {"sum": next(task.unaugmented.batches(99, None, shuffle=False, device=basis.device)).x.sum()}

    def read(self, tensors: dict[str, Tensor], task: Task, previous: float | None) -> float:
        return float(tensors["sum"])


def darker(images: Images, generator: torch.Generator | None = None) -> Tensor:
    return Normalise()(images) - 1


class Shade:
    """Transforms that are methods."""

    def dark(self, images: Images, generator: torch.Generator | None = None) -> Tensor:
        return darker(images)

    @classmethod
    def light(cls, images: Images, generator: torch.Generator | None = None) -> Tensor:
        return Normalise()(images)


@pytest.mark.parametrize(("preparation", "shared"), [(Unaugmented(), False), (CONFIG, True)])
def test_how_images_are_evaluated_is_in_the_keys_of_what_may_read_it(
    preparation: Any, shared: bool, make: Make, tmp_path: Path
) -> None:
    def changed(transform: Transform) -> tuple[Any, bool]:
        (task, *rest) = small_digits().tasks
        other = dataclasses.replace(task, unaugmented=dataclasses.replace(task.unaugmented, transform=transform))
        provided = make(preparation=preparation, tasks=[other, *rest])
        return provided.task(1), provided.hit

    first, _ = changed(Normalise())
    other, hit = changed(darker)
    assert hit == shared
    if not shared:
        assert first - other == pytest.approx(small_digits().tasks[0].train.labels.numel() * 32 * 32)
        assert changed(darker) == (other, True), "a function is known by its name and the text of its module"


def held(value: float) -> Transform:
    return lambda images, generator=None: Normalise()(images) - value


def test_the_text_of_a_transform_of_the_user_is_in_the_key(
    make: Make, computed: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def train_by(transform: Transform) -> bool:
        (task, *rest) = small_digits().tasks
        own = dataclasses.replace(task, train=dataclasses.replace(task.train, transform=transform))
        provided = make(tasks=[own, *rest])
        provided.task(1)
        return provided.hit

    own = (darker, Shade().dark)
    assert [(train_by(each), train_by(each)) for each in own] == [(False, True)] * 2
    first, second = (held(each) for each in (1.0, 2.0))  # what they hold is in no text
    assert [train_by(each) for each in (first, second, first)] == [False, False, True]
    assert [train_by(Shade.light), train_by(Shade.light)] == [False, True]
    monkeypatch.setattr(preparation, "digest_at_import", lambda module: "changed")
    assert not any(map(train_by, own))
    train_by(Normalise())
    assert train_by(RandomShift(2)), "ours are in the benchmark's digest"


OWN = """\
from dataclasses import dataclass
import torch
@dataclass(frozen=True)
class Own:
    scale: float = 1.0
    def prepare(self, task, previous, basis):
        calls.append(task.index)
        before = 0 if previous is None else previous
        return {"sum": torch.tensor(before + self.scale * len(task.train) + basis.seed)}
    def read(self, tensors, task, previous):
        return float(tensors["sum"])
"""


def test_a_preparation_of_the_user_is_shared_until_its_settings_or_its_module_change(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def own(text: str, scale: float = 1.0) -> Any:
        (tmp_path / "own_prepared.py").write_text(text)
        monkeypatch.delitem(sys.modules, "own_prepared", raising=False)
        linecache.clearcache()
        module: Any = importlib.import_module("own_prepared")
        module.calls = calls
        return module.Own(scale)

    calls: list[int] = []
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    first, again = make(preparation=own(OWN)), make(preparation=own(OWN))
    assert [first.task(t) for t in (1, 2)] == [27, 54] and not first.hit  # 24 images and the seed 3, then their sum
    assert again.task(2) == 54 and again.hit and calls == [1, 2]
    assert make(preparation=own(OWN, scale=2.0)).task(1) == 51 and calls == [1, 2, 1]
    assert make(preparation=own(OWN.replace("len(task.train)", "(1 + len(task.train))"))).task(1) == 28
    assert make(preparation=own(OWN), cache=None).task(2) == 54 and calls == [1, 2, 1, 1, 1, 2]
