"""Task vectors of TMC and TAK in compose, evaluate, export and figures: what they can do, and what they are refused."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from tausearch import compose, draw, evaluate
from tausearch.models.classifiers import FeatureTangentClassifier, TangentClassifier
from tausearch.runs import Storage
from trainables.errors import InputError


def test_a_task_that_is_left_out_is_forgotten(made: Storage) -> None:
    whole, without = (compose(["tmc"], drop=drop, storage=made.root).result for drop in (None, [2]))
    for before, after in zip(whole.accuracies, without.accuracies, strict=True):
        assert after[1] < before[1] - 50  # its rows of the classifier go with it


def test_the_protocol_runs(made: Storage) -> None:
    (evaluated,) = evaluate(["tmc"], storage=made.root)
    for coefficient in ("drop", "negate", "subtract"):
        assert evaluated.result.unlearning(coefficient)["target_gain"].mean < -50
    assert evaluated.result.specialisation().keys() == {"target"}  # on all three tasks there is nothing to gain


@pytest.mark.parametrize(("name", "weights"), [("tmc", (1 / 3, 1 / 3 - 1, 1 / 3)), ("tak", (0.5, 0.0, 0.5))])
def test_the_whole_vector_is_subtracted_once(name: str, weights: tuple[float, ...], made: Storage) -> None:
    """A mean has a share of a vector, so subtracting the whole takes more than it has. A sum has the whole vector."""
    done = compose([name], drop=[2], coefficient="subtract", storage=made.root).result
    assert (done.label, done.weights) == ("drop-2-subtract", weights)
    (evaluated,) = evaluate([name], storage=made.root)
    seed, *_ = evaluated.result.seeds
    assert (seed.unlearned["subtract"] == seed.unlearned["drop"]) == (name == "tak")
    assert seed.unlearned["subtract"][1] == done.accuracies[0]


@pytest.mark.parametrize("name", ["tmc", "tak"])
def test_only_the_vectors_are_exported_and_they_compose_again(name: str, made: Storage, tmp_path: Path) -> None:
    done = compose([name], export=tmp_path / "out", storage=made.root)
    assert done.exported.keys() == {"vectors"}
    again = compose([str(tmp_path / "out" / "vectors")], storage=tmp_path / "elsewhere")
    assert again.result.accuracies == done.result.accuracies


def test_its_vectors_are_registered(made: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    registered, folders = [], list[list[str]]()

    def register(*arguments: Any) -> None:
        folders.append(sorted(path.name for path in arguments[-1].iterdir()))

    monkeypatch.setattr("tausearch.api.composition.register_model", register)
    for name, forms in (("tmc", None), ("full", None), ("full", ["timm", "vectors"])):
        done = compose([name], keep=[1], register=True, forms=forms, seeds=[0], storage=made.root)
        registered.append((done.result.registered, folders.pop()))
    both = ("timm", "vectors")
    assert registered == [(("vectors",), ["vectors"]), (("timm",), ["timm"]), (both, list(both))]


def test_a_linearised_model_of_some_tasks_answers_with_their_classes() -> None:
    linearised: Any = SimpleNamespace(vit=nn.Identity(), device="cpu", logits=lambda images, tau: images + tau)
    model = TangentClassifier(linearised, 1.0, torch.tensor([2, 0]))  # type: ignore[arg-type]
    assert model(torch.tensor([[10.0, 20.0, 30.0]])).tolist() == [[31.0, 11.0]]


def test_features_are_linearised_along_the_whole_task_vector() -> None:
    tau = {"weight": torch.eye(2), "bias": torch.tensor([10.0, 20.0])}
    features = lambda images, tau: images @ tau["weight"] + tau["bias"]  # noqa: E731
    linearised: Any = SimpleNamespace(vit=nn.Identity(), features=features)
    model = FeatureTangentClassifier(linearised, tau, (torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([0.5, 0])))
    assert model(torch.tensor([[1.0, 2.0]])).tolist() == [[11.5, 33.0]]


@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        (["tmc"], {"rule": "ties"}, "--rule ties: of tangents only weighted sums have a meaning; allowed: linear"),
        (["tmc"], {"forms": ["timm"], "export": "out"}, "--forms timm: a model linearised at theta_0 is no set of"),
        (["tmc"], {"forms": ["models"], "export": "out"}, "--forms models: a model linearised"),
        (["tmc"], {"forms": ["adapter"], "export": "out"}, "--forms adapter: needs task vectors of LoRA"),
        (["tak"], {"rule": "ties"}, "--rule ties: of tangents only weighted sums have a meaning; allowed: linear"),
        (["tak"], {"forms": ["timm"], "export": "out"}, "--forms timm: a model linearised at theta_0 is no set of"),
        (["tmc:1,2", "tak:3"], {}, "of the kinds tangent, feature-tangent cannot be composed with each other"),
        (["tmc:1,2", "full:3"], {}, "of the kinds tangent, full cannot be composed with each other"),
    ],
)
def test_what_has_no_meaning_is_refused(
    runs: list[str], options: dict[str, str], message: str, made: Storage, tmp_path: Path
) -> None:
    if "export" in options:
        options = {**options, "export": str(tmp_path / "out")}
    with pytest.raises(InputError, match=message):
        compose(runs, storage=made.root, **options)  # type: ignore[call-arg]
    assert list(tmp_path.iterdir()) == []


def test_a_rule_is_refused_before_tasks_are_trained_again(made: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tausearch.api.composition._retraining", lambda *_: "a plan")
    monkeypatch.setattr("tausearch.api.composition._trained_again", lambda *_: pytest.fail("trained"))
    with pytest.raises(InputError, match="--rule ties: of tangents only"):
        compose(["tmc"], rule="ties", forget=["task:2"], retrain_later=True, seeds=[0], storage=made.root)


def test_figures_have_what_there_is_of_it(made: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tausearch.presentation.save", lambda figure, path: path)  # test_figures.py saves each of them
    drawn = draw(["tmc", "full"], output=tmp_path / "figures", seeds=[0], storage=made.root)
    assert drawn.pictures.keys() == {"time", "risk", "theorem1", "cosines-tmc", "cosines-full"}
    with (tmp_path / "figures" / "theorem1.csv").open(encoding="utf-8", newline="") as file:
        assert {row["run"] for row in csv.DictReader(file)} == {"full"}
