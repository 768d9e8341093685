"""Curvatures of the user, named by `--set curvature=NAME`: found, checked and planned like ours."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tausearch.api import SearchRequest, TrainRequest, plan_search, plan_training
from tausearch.api.requests import allow_named
from tausearch.studies import BestFile, load_best, unsearched_best_file
from tests.support.packages import install_example
from trainables import user_code
from trainables.errors import InputError

MODULE = """\
from trainables.curvature import DiagonalCurvature

class Mine(DiagonalCurvature):
    pass

class Lacking:
    plus = scaled = mean_over = shifted = to = form = tensors = from_tensors = print
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder with `own_curvature.py`, of which nothing is allowed yet."""
    monkeypatch.setattr(user_code, "_allowed", {})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_curvature.py").write_text(MODULE)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(("own_curvature", "tausearch_example")):
            del sys.modules[name]


def request(curvature: str) -> SearchRequest:
    asked = SearchRequest("digits", "ita-lora", set={"curvature": curvature}, storage="runs")
    allow_named(asked)
    return asked


def best_of(curvature: str) -> BestFile:
    return unsearched_best_file(plan_search(request(curvature)).spec)


@pytest.mark.parametrize(
    ("curvature", "fault"),
    [
        ("kroneker", "unknown curvature 'kroneker'; allowed: diagonal, kronecker, MODULE:NAME"),
        ("own_curvature:Other", "'Other' must be a class, got nothing of that name"),
        ("own_curvature:Lacking", "the class Lacking lacks estimate() of the protocol EstimatedCurvature"),
    ],
)
def test_a_wrong_curvature_is_refused_before_any_work(curvature: str, fault: str) -> None:
    with pytest.raises(InputError) as error:
        plan_search(request(curvature))
    assert fault in str(error.value)


def test_what_the_user_names_is_allowed_and_what_only_a_file_names_is_not(folder: Path) -> None:
    best = best_of("own_curvature:Mine")
    assert plan_search(request("own_curvature:Mine")).spec.code == ("own_curvature:Mine",)
    best.save(folder / "best.yaml")
    user_code._allowed.clear()
    with pytest.raises(InputError, match="curvature 'own_curvature:Mine': a file names this code, you did not"):
        plan_training(TrainRequest(load_best("best.yaml"), storage="runs"))


def test_an_installed_package_brings_one_under_a_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(install_example(folder / "site"))
    spec = plan_search(request("per-layer")).spec
    assert (spec.fixed["curvature"], spec.code) == ("per-layer", ())
    with pytest.raises(
        InputError, match="--save-curvature: saves a curvature of diagonal or kronecker alone, .*'per-layer'"
    ):
        plan_training(TrainRequest(best_of("per-layer"), save_curvature=True, storage="runs"))
