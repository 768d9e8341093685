"""The curvature of a task beside its vector: its file, and the rules that read it, in float64 against brute force."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.tiny_vit import float64, make_tiny_vit
from tests.trainables.test_composition import learn
from trainables.composition import (
    CURVATURE_FILE,
    Merging,
    SavedVector,
    choose_rule,
    copy_vector,
    curvatures,
    read_curvature,
    read_vector,
    write_vector,
)
from trainables.composition.curvature_rules import Fisher, RegMean
from trainables.curvature import CurvatureKind, DiagonalCurvature, Factors, KroneckerCurvature, TaskCurvature
from trainables.errors import InputError
from trainables.task_vectors import FullTaskVectors
from trainables.tensor_files import read_sealed, save_tensors, sealed

KINDS: tuple[CurvatureKind, ...] = ("diagonal", "kronecker")
WEIGHTS = (0.5, -0.25, 1.5)


@pytest.fixture(scope="module")
def vectors() -> Iterator[FullTaskVectors]:
    with float64():
        yield FullTaskVectors(make_tiny_vit())


def drawn(shape: tuple[int, ...], seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def curvature_of(vectors: FullTaskVectors, kind: CurvatureKind, seed: int) -> TaskCurvature:
    """Return the curvature that a batch of 5 inputs and gradients of each layer gives."""
    if kind == "diagonal":
        return TaskCurvature(DiagonalCurvature({n: drawn(w.shape, seed) ** 2 for n, w in vectors.theta_0.items()}), 5)
    pairs = {n: (drawn((5, w.shape[1]), seed), drawn((5, len(w)), seed + 9)) for n, w in vectors.theta_0.items()}
    factors = {n: Factors((a.T @ a)[None], (g.T @ g)[None]) for n, (a, g) in pairs.items()}
    return TaskCurvature(KroneckerCurvature(factors), 5)


def saved(vectors: FullTaskVectors, folder: Path, kind: CurvatureKind = "diagonal") -> list[SavedVector]:
    """Write three vectors with their curvatures; return them as they are read."""
    for seed in range(3):
        write_vector(folder, learn(vectors, seed), curvature=curvature_of(vectors, kind, seed))
    return [read_vector(folder / f"task_{task}") for task in (1, 2, 3)]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_read_back_and_copied(kind: CurvatureKind, vectors: FullTaskVectors, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        vector = saved(vectors, tmp_path / "a", kind)[1]
    finally:
        os.umask(before)
    copy_vector(tmp_path / "a" / "task_2", tmp_path / "b" / "task_2")
    assert vector.curvature_file is not None and stat.S_IMODE(vector.curvature_file.stat().st_mode) == 0o640
    for each in (vector, read_vector(tmp_path / "b" / "task_2")):
        found, wanted = read_curvature(each, vectors.theta_0), curvature_of(vectors, kind, 1)
        assert found.examples == 5 and type(found.mean) is type(wanted.mean)
        tensors = wanted.mean.tensors()
        assert list(found.mean.tensors()) == list(tensors)
        assert all(torch.equal(value, tensors[name]) for name, value in found.mean.tensors().items())


def rewritten(**header: str) -> Callable[[Path, FullTaskVectors], None]:
    def rewrite(path: Path, vectors: FullTaskVectors) -> None:
        tensors, before = read_sealed(path)
        save_tensors(path, {n: value.clone() for n, value in tensors.items()}, sealed({**before, **header}, tensors))

    return rewrite


def changed(change: Callable[[dict[str, Tensor]], Any]) -> Callable[[Path, FullTaskVectors], None]:
    def rewrite(path: Path, vectors: FullTaskVectors) -> None:
        tensors, header = read_sealed(path)
        copies = {name: value.clone() for name, value in tensors.items()}
        change(copies)
        save_tensors(path, copies, sealed(header, copies))

    return rewrite


def flipped(path: Path, vectors: FullTaskVectors) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda path, vectors: path.unlink(), "task 2 was saved without its curvature; train with --save-curvature"),
        (lambda path, vectors: path.write_bytes(b"nothing"), "cannot be read as a curvature"),
        (flipped, "cannot be read as a curvature (its content is not what was written)"),
        (rewritten(kind="kronecker"), "is a curvature of the kind kronecker, must be diagonal"),
        (rewritten(kind="code"), "is not a curvature that this version reads"),
        (rewritten(version="2"), "is not a curvature that this version reads"),
        (rewritten(task="3"), "is of task 3, but the vector beside it of task 2"),
        (rewritten(backbone_digest="0123"), "was estimated on another backbone"),
        (rewritten(examples="0"), "it is over 0 images"),
        (changed(lambda tensors: tensors.popitem()), "is missing"),
        (changed(lambda tensors: tensors.update(more=torch.ones(1))), "'more' is not a part of it"),
        (changed(lambda tensors: [each.neg_() for each in tensors.values()]), "a diagonal has no negative entries"),
        (changed(lambda tensors: [each.fill_(torch.nan) for each in tensors.values()]), "not finite"),
        (changed(lambda tensors: tensors.update({n: v[:1].clone() for n, v in tensors.items()})), "must be ("),
    ],
)
def test_a_curvature_that_is_not_that_of_its_vector_is_refused_in_a_line(
    damage: Callable[[Path, FullTaskVectors], None], fault: str, vectors: FullTaskVectors, tmp_path: Path
) -> None:
    saved(vectors, tmp_path)
    damage(tmp_path / "task_2" / CURVATURE_FILE, vectors)
    pool = [read_vector(tmp_path / f"task_{task}") for task in (1, 2, 3)]
    with pytest.raises(InputError, match=re.escape(fault)) as caught:
        choose_rule("fisher", {}).merge(vectors.theta_0, pool, WEIGHTS)
    assert "\n" not in str(caught.value) and str(caught.value).startswith(("rule 'fisher'", str(tmp_path)))


def test_a_rule_that_does_not_ask_for_curvature_does_not_read_it(
    vectors: FullTaskVectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, read = saved(vectors, tmp_path), list[Path]()
    original = curvatures.read_weights
    monkeypatch.setattr(curvatures, "read_weights", lambda path, shapes: read.append(path) or original(path, shapes))
    choose_rule("ties", {}).merge(vectors.theta_0, pool, WEIGHTS)
    choose_rule("linear", {}).merge(vectors.theta_0, pool, WEIGHTS)
    assert not read
    choose_rule("fisher", {}).merge(vectors.theta_0, pool, WEIGHTS)
    assert len(read) == len(pool)  # once each, however many weights there are


def merging(vectors: FullTaskVectors, kind: CurvatureKind, alike: bool = False, **parameters: float) -> Merging:
    taus = []
    for seed in range(3):
        vector = learn(vectors, seed)
        taus.append({name: vector.dense(name, weight) for name, weight in vectors.theta_0.items()})
    found = [curvature_of(vectors, kind, 0 if alike else seed) for seed in range(3)]
    return Merging(taus=taus, weights=WEIGHTS, curvatures=found, parameters=parameters)


def least_squares(pairs: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the x that minimises sum |M x - M y|^2 over pairs of M and y."""
    return torch.linalg.lstsq(torch.cat([m for m, _ in pairs]), torch.cat([m @ y for m, y in pairs])).solution


def test_fisher_merging_minimises_the_sum_of_the_tasks_quadratics(vectors: FullTaskVectors) -> None:
    damping = 0.3
    given = merging(vectors, "diagonal", damping=damping)
    for name, merged in Fisher().merge(given).items():
        fishers = [curvature_of(vectors, "diagonal", seed).mean.tensors()[name] for seed in range(3)]
        shift = damping * torch.stack(fishers).mean()
        pairs = [
            (torch.diag((abs(w) * (fisher + shift)).flatten().sqrt()), tau[name].flatten() * (-1 if w < 0 else 1))
            for fisher, tau, w in zip(fishers, given.taus, WEIGHTS, strict=True)
        ]
        wanted = least_squares([(m, y[:, None]) for m, y in pairs]).view_as(merged) * sum(map(abs, WEIGHTS))
        torch.testing.assert_close(merged, wanted)


def test_regmean_keeps_the_outputs_of_each_layer_near_those_of_the_tasks(vectors: FullTaskVectors) -> None:
    shrinkage = 0.2
    given = merging(vectors, "kronecker", shrinkage=shrinkage)
    for name, merged in RegMean().merge(given).items():
        pairs = []
        for seed, (tau, w) in enumerate(zip(given.taus, WEIGHTS, strict=True)):
            inputs = drawn((5, merged.shape[1]), seed)
            apart = torch.diag(inputs.square().sum(0).sqrt())  # the squares of its rows are the diagonal of A
            rows = torch.cat([(1 - shrinkage) ** 0.5 * inputs, shrinkage**0.5 * apart])
            pairs.append((abs(w) ** 0.5 * rows, tau[name].T * (-1 if w < 0 else 1)))
        torch.testing.assert_close(merged, least_squares(pairs).T * sum(map(abs, WEIGHTS)), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("rule", "kind", "parameters"),
    [(Fisher(), "diagonal", {"damping": 1e-3}), (RegMean(), "kronecker", {"shrinkage": 0.1})],
)
def test_equal_curvatures_give_the_weighted_sum(
    rule: Fisher | RegMean, kind: CurvatureKind, parameters: dict[str, float], vectors: FullTaskVectors
) -> None:
    given = merging(vectors, kind, alike=True, **parameters)
    for name, merged in rule.merge(given).items():
        torch.testing.assert_close(merged, sum(w * tau[name] for tau, w in zip(given.taus, WEIGHTS, strict=True)))


def test_a_file_of_another_kind_of_curvature_cannot_be_written(vectors: FullTaskVectors, tmp_path: Path) -> None:
    other: Any = object()
    with pytest.raises(TypeError, match="a curvature of diagonal or kronecker can be saved, got object"):
        write_vector(tmp_path, learn(vectors, 0), curvature=TaskCurvature(other, 1))
    assert not list(tmp_path.iterdir())
