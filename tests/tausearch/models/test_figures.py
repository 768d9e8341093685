"""The paper's figures from saved vectors and records: their numbers by hand, and that each is drawn."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from tausearch import draw
from tausearch.api import analysis
from tausearch.api.analysis import _distinct
from tausearch.presentation import save
from tausearch.presentation.figures.composition import theorem_figure
from tausearch.runs import Record, Storage, read_spec
from tests.support.command_line import Command
from tests.support.runs.composable_runs import pool_of, small_benchmark
from trainables.backbones import Backbone
from trainables.composition import ComposedNetwork, VectorPool
from trainables.errors import InputError

CPU = torch.device("cpu")
Rows = dict[str, list[dict[str, str]]]  # of each figure


@pytest.fixture(scope="module")
def titles() -> dict[str, str]:
    """Name of each figure to its title, once all are `drawn`."""
    return {}


@pytest.fixture(scope="module")
def drawn(made: Storage, titles: dict[str, str]) -> Rows:
    """Name of each figure to its numbers."""

    def save_with_title(figure: Figure, path: Path) -> Path:
        titles[path.stem] = figure.get_suptitle()
        return save(figure, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tausearch.presentation.save", save_with_title)
        found = draw(["ita", "full", "plain"], storage=made.root)
    assert found.left_out == (
        "run 'plain': its method 'finetune' leaves no task vectors; ita-fft, ita-lora, ita-ia3, iel-fft, iel-lora,"
        " iel-ia3, tmc, tak do",
    )
    for name, path in found.pictures.items():
        assert path == made.run("ita").figures / f"{name}.png"
        with Image.open(path) as picture:
            assert min(picture.size) > 200
    return {name: read(path.with_suffix(".csv")) for name, path in found.pictures.items()}


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def mean_loss(weights: list[float], pool: VectorPool, head: tuple[Tensor, Tensor]) -> float:
    network = ComposedNetwork(Backbone(), CPU)
    network.compose(pool, weights, head)
    x = torch.cat([next(iter(s.batches(256, None, shuffle=False))).x for s in small_benchmark().evaluation])
    y = torch.cat([s.labels for s in small_benchmark().evaluation])
    return float(F.cross_entropy(network.predict(x), y))


def test_there_is_every_figure(drawn: Rows) -> None:
    assert set(drawn) == {"time", "risk", "theorem1", "cosines-ita", "cosines-full", "alignment"}


def test_risk_against_its_bound(drawn: Rows, made: Storage) -> None:
    assert [(row["run"], row["seed"]) for row in drawn["risk"]] == [(n, s) for n in ("ita", "full") for s in "01"]
    row, pool = drawn["risk"][3], pool_of(made, "full", 1)
    assert float(row["composed"]) == pytest.approx(mean_loss([1 / 3] * 3, pool, pool.head()), rel=1e-5)
    alone = [mean_loss([float(s == t) for s in range(3)], pool, pool.head()) for t in range(3)]
    assert float(row["individuals"]) == pytest.approx(sum(alone) / 3, rel=1e-5)
    assert float(row["pretrained"]) == pytest.approx(mean_loss([0.0] * 3, pool, pool.anchor()), rel=1e-5)
    (learned,) = [r for r in drawn["theorem1"] if (r["run"], r["scale"]) == ("ita", "1.0")]
    assert float(learned["composed"]) == pytest.approx(float(drawn["risk"][0]["composed"]), rel=1e-4)
    assert float(learned["bound"]) == pytest.approx(float(drawn["risk"][0]["individuals"]), rel=1e-4)
    assert float(learned["gap"]) == pytest.approx(float(learned["composed"]) - float(learned["second_order"]))


def test_alignment_and_cosines(drawn: Rows, made: Storage) -> None:
    network = ComposedNetwork(Backbone(), CPU)

    def flat(name: str) -> list[Tensor]:
        return [
            torch.cat([vector.dense(key, weight).flatten() for key, weight in network.theta_0.items()])
            for vector in pool_of(made, name, 1)
        ]

    ita, full = flat("ita"), flat("full")
    found = {int(row["task"]): float(row["cosine"]) for row in drawn["alignment"] if row["seed"] == "1"}
    wanted = [F.cosine_similarity(sum(ita), sum(full), dim=0)]  # type: ignore[arg-type]
    wanted += [F.cosine_similarity(a, b, dim=0) for a, b in zip(ita, full, strict=True)]
    assert found == pytest.approx({task: float(value) for task, value in enumerate(wanted)}, abs=1e-5)
    (one,) = [r for r in drawn["cosines-ita"] if (r["seed"], r["task"], r["other"]) == ("1", "1", "3")]
    assert float(one["cosine"]) == pytest.approx(float(F.cosine_similarity(ita[0], ita[2], dim=0)), abs=1e-5)


def test_time_is_that_of_the_record(drawn: Rows, made: Storage) -> None:
    assert len(drawn["time"]) == 3 * 2 * 3 * 2  # runs, seeds, tasks, stages
    keys = ("run", "seed", "task", "stage")
    (row,) = [row for row in drawn["time"] if [row[key] for key in keys] == ["full", "1", "2", "preconsolidation"]]
    trial = Record(made.run("full").record).trials()[1]
    assert float(row["seconds"]) == trial.rows[1]["seconds/preconsolidation"] > 0 and row["method"] == "iel-fft"


def test_bad_input(made: Storage, tmp_path: Path, shown: Command) -> None:
    out, err = shown("figures", "gone", code=2)
    assert out == "" and err.count("\n") == 1 and "'gone': no run of that name" in err
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="--output .*file: cannot be written"):
        draw(["plain"], output=tmp_path / "file", storage=made.root)


def test_every_figure_says_what_it_is_of(drawn: Rows, titles: dict[str, str], made: Storage) -> None:
    titles = {name: title.replace(" ", "").replace("\n", "") for name, title in titles.items()}  # a line ends anywhere
    where = f"on {read_spec(made.run('ita')).benchmark}"
    both = f"ita-lora {where}; iel-fft {where}"
    wanted = {
        "time": f"time per task: {both}; finetune {where}",
        "risk": f"risk of the composed model: {both}, test images",
        "cosines-ita": f"task vectors: ita-lora {where}",
        "alignment": f"task vectors: {both}",
    }
    assert {name: titles[name] for name in wanted} == {name: text.replace(" ", "") for name, text in wanted.items()}
    assert both.replace(" ", "") in titles["theorem1"] and set(titles) == set(drawn)


@pytest.mark.parametrize("factor", [1.0, -60.0])  # of the far vectors' bound: near, and far below 0
def test_theorem_1_has_numbers_beside_both_axes(factor: float) -> None:
    sides = [{"composed": 0.5 - 0.02 * n, "second_order": (0.5 - 0.021 * n) * factor**n} for n in range(3)]
    points = [{"run": "f", "scale": 0.5 + n / 2, "size": 0.12 * 2**n, "gap": 1e-3 * 2**n} for n in range(3)]
    figure = theorem_figure([point | side for point, side in zip(points, sides, strict=True)])
    figure.savefig(io.BytesIO())
    risks, gaps = figure.axes
    for axis in (risks.yaxis, gaps.xaxis, gaps.yaxis):
        low, high = axis.get_view_interval()
        places = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False)
        assert 2 <= len([where for where, label in places if low <= where <= high and label.get_text()]) <= 9
    assert risks.get_yscale() == ("linear" if factor == 1 else "symlog")


@pytest.mark.parametrize(
    ("changes", "alike"),
    [
        ({}, True),
        ({"method": "ita-lora"}, False),
        ({"keys": ["weight", "bias"]}, False),
        ({"seeds": [2, 3]}, False),
        ({"fault": InputError("other tasks")}, False),
    ],
)
def test_runs_are_aligned_if_only_their_methods_differ(
    changes: dict[str, Any], alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pools(method: str, seeds: list[int], keys: list[str]) -> Any:
        return SimpleNamespace(
            sources=[SimpleNamespace(methods=(method,))],
            network=SimpleNamespace(theta_0=dict.fromkeys(keys)),
            by_seed=dict.fromkeys(seeds),
        )

    def require(sources: object) -> None:
        if "fault" in changes:
            raise changes["fault"]

    monkeypatch.setattr(analysis.models, "require_alike", require)
    other = pools(changes.get("method", "iel-lora"), changes.get("seeds", [1, 2]), changes.get("keys", ["weight"]))
    assert analysis._alike(pools("ita-lora", [0, 1], ["weight"]), other) == alike


def test_folders_of_one_name_get_figures_of_their_own() -> None:
    assert _distinct([Path("exp/0/vectors"), Path("ita"), Path("exp/5/vectors")]) == ["0-vectors", "ita", "5-vectors"]
    assert _distinct([Path("a/0/vectors"), Path("b/0/vectors")]) == ["0-vectors-1", "0-vectors-2"]
