"""The paper's figures from saved vectors and records: their numbers by hand, and that each is drawn."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from tausearch import draw
from tausearch.api import FiguresRequest, analysis
from tausearch.api.analysis import _distinct
from tausearch.models import (
    Pools,
    analysis as numbers,
    find_source,
    make_pools,
    n_measurements,
    risk_rows,
    theorem_rows,
)
from tausearch.presentation import save
from tausearch.presentation.figures.composition import theorem_figure
from tausearch.runs import Record, SearchSpec, Storage, read_spec
from tausearch.runs.creation import make_run_directory
from tests.support.command_line import Command
from tests.support.runs.composable_runs import pool_of, small_benchmark
from tests.support.runs.trials import final_spec, make_trial
from tests.tausearch.several.made import several_spec
from trainables.backbones import Backbone
from trainables.composition import ComposedNetwork, VectorPool
from trainables.errors import InputError
from trainables.task_names import NamedTask

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


def test_theorem_1_of_one_task_has_no_gap_and_no_logarithmic_axis_for_it() -> None:
    point = {"run": "f", "scale": 1, "size": 0.1, "gap": 0.0, "composed": 0.5, "second_order": 0.5}
    _, gaps = theorem_figure([point]).axes
    assert (gaps.get_xscale(), gaps.get_yscale()) == ("log", "linear")


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


def test_a_folder_is_told_by_the_one_above_it_even_of_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    assert _distinct([Path("vectors"), Path("x/vectors")]) == ["there-vectors", "x-vectors"]
    assert _distinct([Path("a/v"), Path("a/v"), Path("b/v")]) == ["a-v-1", "a-v-2", "b-v"]


@pytest.fixture
def finals(spec: SearchSpec, tmp_path: Path) -> Storage:
    """Two final runs of one method; the second one has a failed trial."""
    storage = Storage(tmp_path / "runs")
    for name in ("r", "s"):
        make_run_directory(final_spec(spec, name=name, seeds=(7,)), storage)
    trial = replace(make_trial(3, tasks=2), status="failed", seed=7)
    trial.rows[1] |= {"seconds/preconsolidation": 4.0, "cache/hit": 1.0}
    Record(storage.run("s").record).write(trial)
    return storage


def test_times_are_of_every_finished_task_even_of_a_trial_that_failed(finals: Storage) -> None:
    about = {"run": "s", "method": "ita-lora", "benchmark": "digits", "trial": 3, "seed": 7}
    assert analysis._times(finals, "s") == [
        {**about, "task": 1, "stage": "training", "seconds": 1.5, "cache": None},
        {**about, "task": 2, "stage": "preconsolidation", "seconds": 4.0, "cache": 1.0},
        {**about, "task": 2, "stage": "training", "seconds": 1.5, "cache": None},
    ]
    assert analysis._times(finals, "folder") == []


def test_times_of_a_final_run_are_of_the_seeds_that_were_asked_for(finals: Storage, spec: SearchSpec) -> None:
    assert len(analysis._times(finals, "s", [7])) == len(analysis._times(finals, "s", [0, 7])) == 3
    with pytest.raises(InputError, match="--seeds 0,1: run 's' has none of them; it has 7"):
        analysis._times(finals, "s", [0, 1])
    make_run_directory(spec.model_copy(update={"name": "search"}), finals)
    Record(finals.run("search").record).write(make_trial(0))
    assert len(analysis._times(finals, "search", [7])) == len(analysis._times(finals, "search")) > 0  # it has no seeds


def test_times_on_several_benchmarks_are_of_each_in_the_trials_of_the_search(tmp_path: Path) -> None:
    several, storage = several_spec(), Storage(tmp_path)
    make_run_directory(several, storage)
    for number in range(3):
        Record(storage.run(several.name).record).write(make_trial(number, tasks=1))
    rows = analysis._times(storage, several.name)
    assert [(row["trial"], row["benchmark"]) for row in rows] == [(0, "digits"), (0, "glyphs"), (1, "digits")]


def test_every_run_and_every_pair_has_its_figures(finals: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    def pools(text: str, *methods: str, benchmark: str = "digits") -> Any:
        named = SimpleNamespace(spec=SimpleNamespace(named_tasks=(NamedTask((text,)),)))
        return SimpleNamespace(
            sources=[SimpleNamespace(text=text, methods=methods, benchmark=benchmark)], benchmark=named
        )

    added: dict[str, tuple[Any, ...]] = {}
    monkeypatch.setattr(analysis._Tables, "add", lambda _, name, *rest: added.update({name: rest}))
    monkeypatch.setattr(analysis, "_alike", lambda first, second: True)
    monkeypatch.setattr(analysis.models, "n_measurements", lambda pools: len(pools))
    for table in ("risk_rows", "theorem_rows"):
        monkeypatch.setattr(analysis.models, table, lambda each, tick: [each.sources[0].text])
    monkeypatch.setattr(analysis.models, "cosine_rows", lambda each: [each.sources[0].text])
    monkeypatch.setattr(analysis.models, "alignment_rows", lambda *pair: [tuple(e.sources[0].text for e in pair)])
    on_disk = pools("c", "tmc", benchmark="folder:/data/birds?tasks=2")
    runs = [pools("x/a", "ita-lora", "iel-lora"), pools("b", "tmc"), on_disk]
    analysis._draw_figures(finals, FiguresRequest(["s", "r"]), runs, finals.root)
    assert list(added) == ["time", "risk", "theorem1", "cosines-a", "cosines-b", "cosines-c", "alignment"]
    assert added["risk"][0] == added["theorem1"][0] == ["x/a", "b", "c"]
    assert added["alignment"][0] == [("x/a", "b"), ("x/a", "c"), ("b", "c")]
    assert [added[f"cosines-{name}"][1].keywords for name in "abc"] == [
        {"labels": [text]} for text in ("x/a", "b", "c")
    ]
    assert added["cosines-a"][2] == "task vectors: ita-lora and iel-lora on digits"
    assert added["cosines-c"][2] == "task vectors: tmc on folder:birds?tasks=2", "without the path"
    both = "ita-lora and iel-lora on digits; tmc on digits; tmc on folder:birds?tasks=2"
    assert added["alignment"][2] == f"task vectors: {both}"
    assert (
        added["time"][2] == "time per task: ita-lora on digits"
        and [row["run"] for row in added["time"][0]] == ["s"] * 3
    )
    analysis._draw_figures(finals, FiguresRequest(["r"]), [pools("x/a", "tmc"), pools("y/a", "tmc")], finals.root)
    assert {"cosines-x-a", "cosines-y-a"} <= set(added)
    assert added["alignment"][2] == "task vectors: tmc on digits", "what several runs share is said once"
    folders = [f"folder:/{place}/birds?tasks=2" for place in ("data", "other")]
    apart = [pools(f"d{number}", "tmc", benchmark=folder) for number, folder in enumerate(folders)]
    analysis._draw_figures(finals, FiguresRequest(["r"]), apart, finals.root)
    assert added["alignment"][2] == f"task vectors: tmc on {folders[0]}; tmc on {folders[1]}"
    analysis._draw_figures(finals, FiguresRequest(["r", "s"]), [], finals.root)
    assert [row["run"] for row in added["time"][0]] == ["s"] * 3  # of every run, not of the first alone


def test_figures_lie_where_they_are_asked_for_or_beside_the_first_run(finals: Storage, tmp_path: Path) -> None:
    pools = cast("list[Pools]", [SimpleNamespace(sources=[SimpleNamespace(text="x/a")])])

    def output(*runs: str, to: Path | None = None) -> Path:
        return analysis._output(finals, FiguresRequest(list(runs), output=to), pools)

    assert output("folder", "s", "r") == finals.run("s").figures and output("s", to=tmp_path / "o") == tmp_path / "o"
    with pytest.raises(InputError, match="--output: name a folder, as no run has one"):
        output("folder")
    with pytest.raises(InputError, match="--output .* lies among the files of the run"):
        output("s", to=finals.run("r").path / "mine")
    for name in ("time", "risk", "theorem1", "alignment", "cosines-a"):
        (tmp_path / f"{name}.png").write_text("my own")
        with pytest.raises(InputError, match=f"--output .*{name}.png: exists and was not written by tausearch"):
            output("s", to=tmp_path)
        (tmp_path / f"{name}.png").unlink()


def test_a_drawing_that_fails_leaves_nothing_and_one_that_does_not_makes_its_folders(
    finals: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tausearch.presentation.save", lambda figure, path: path)
    output = tmp_path / "new" / "figures.v2"
    asked: dict[str, Any] = {"output": output, "storage": finals.root}
    drawn = draw(["s"], **asked)
    assert drawn.pictures == {"time": output / "time.png"} and len(drawn.left_out) == 1
    assert [path.name for path in output.parent.iterdir()] == ["figures.v2"]

    def fails(rows: object) -> None:
        raise RuntimeError("a picture fails")

    monkeypatch.setattr("tausearch.presentation.time_figure", fails)
    with pytest.raises(RuntimeError):
        draw(["s"], **{**asked, "output": tmp_path / "other"})
    assert not (tmp_path / "other").exists()
    finals.run("r").spec_file.write_text("{")
    with pytest.raises(InputError, match="run.yaml"):  # it is not left out as one without vectors
        draw(["s", "r"], **asked)


def test_after_a_kill_figures_are_drawn_where_the_first_attempt_wrote(
    finals: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.txt").touch()  # so that nothing is removed, as by a kill

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for name in ("presentation.entitle", "api.analysis.as_csv"):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(f"tausearch.{name}", killed)
            draw(["s"], output=tmp_path, storage=finals.root)
    assert draw(["s"], output=tmp_path, storage=finals.root).pictures


def test_as_many_risks_are_counted_as_are_announced(made: Storage) -> None:
    pools, counts = make_pools([find_source(made, "ita")], small_benchmark(), Backbone(), None), list[int]()
    risk_rows(pools, counts.append)
    (*_, last) = theorem_rows(pools, counts.append)
    assert sum(counts) == n_measurements([pools])
    norms = [
        sum(float(vector.dense(key, weight).square().sum()) for key, weight in pools.network.theta_0.items()) ** 0.5
        for vector in pool_of(made, "ita", 0)
    ]
    assert (last["seed"], last["scale"]) == (0, 2.0) and last["size"] == pytest.approx(2 * sum(norms) / 3, rel=1e-5)
    pools, of_tmc = make_pools([find_source(made, "tmc")], small_benchmark(), Backbone(), None), list[int]()
    risk_rows(pools, of_tmc.append)
    assert theorem_rows(pools, of_tmc.append) == [] and sum(of_tmc) == n_measurements([pools])


def test_theorem_1_is_computed_in_fp32_whatever_the_run_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its differences are too small for bf16; the gradients that it needs go through plain attention."""
    made: list[tuple[Any, ...]] = []

    class Network:
        """A network of weights, which notes how it was made."""

        displaces_weights, precision = True, "bf16"

        def __init__(self, *arguments: Any) -> None:
            made.append(arguments)
            self.theta_0: dict[str, Tensor] = {}

    network: Any = Network("backbone", CPU, "bf16", "fused")
    values = {"composed": 1.0, "bound": 2.0, "omega": 3.0, "second_order": 4.0, "gap": 5.0}
    monkeypatch.setattr(numbers, "inner_products", lambda _, vectors: torch.diag(torch.tensor([9.0, 1.0])))
    monkeypatch.setattr(numbers, "theorem_1", lambda *given: [SimpleNamespace(scale=s, **values) for s in given[3]])
    about = {"backbone": "backbone", "device": CPU, "threads": 1, "benchmark": SimpleNamespace(evaluation=[])}
    pools: Any = SimpleNamespace(network=network, by_seed={4: [], 2: []}, sources=[SimpleNamespace(text="a")], **about)
    first, *_ = theorem_rows(pools, lambda count: None)
    assert made[1:] == [("backbone", CPU, "fp32", "plain")]
    assert first == {"run": "a", "seed": 4, "scale": 0.25, "size": 0.25 * 2, **values}
