"""Compositions of saved task vectors: what they must equal, what they leave, and what is refused."""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from tausearch import compose, draw, evaluate
from tausearch.api import ComposeRequest, EvaluateRequest, analysis, composition
from tausearch.api.benchmarks import OpenBenchmark, open_benchmark
from tausearch.api.composition import open_pools
from tausearch.models import (
    UNLEARNING_MODES,
    CompositionResult,
    EvaluationResult,
    VectorSource,
    find_source,
    read_compositions,
    read_evaluation,
)
from tausearch.runs import Record, RunDirectory, Storage, read_spec
from tests.support.command_line import Command
from tests.support.runs.composable_runs import pool_of, small_benchmark
from tests.tausearch.models.test_removal_report import report
from trainables.backbones import Backbone
from trainables.composition import ComposedNetwork
from trainables.errors import InputError
from trainables.evaluation import accuracies

Patch = pytest.MonkeyPatch


def accuracies_of(directory: RunDirectory) -> list[list[float]]:
    """What the trials of a run reached on each task at their end."""
    rows = [trial.final for trial in Record(directory.record).trials() if trial.status == "complete"]
    return [[row[f"test/accuracy/task_{task}"] for task in (1, 2, 3)] for row in rows]


@pytest.mark.parametrize("name", ["ita", "iel", "full", "ia3", "tmc", "tak"])
def test_the_uniform_composition_is_what_the_run_evaluated_at_its_end(name: str, made: Storage) -> None:
    done = compose([name], storage=made.root)
    assert [list(row) for row in done.result.accuracies] == accuracies_of(made.run(name))
    assert done.result.weights == (1 / 3,) * 3 and done.result.seeds == (0, 1)


@pytest.mark.parametrize("name", ["ita", "ia3"])
def test_weights_e_t_are_the_t_th_model(name: str, made: Storage) -> None:
    network, pool = ComposedNetwork(Backbone(), torch.device("cpu")), pool_of(made, name, 0)
    for task, vector in enumerate(pool):
        done = compose([name], weights=[float(t == task) for t in range(3)], seeds=[0], storage=made.root)
        alone = Backbone().load()
        tuned = {key: weight + vector.dense(key, weight) for key, weight in network.theta_0.items()}
        alone.load_state_dict({**alone.state_dict(), **tuned})
        weight, bias = pool.head()

        @torch.inference_mode()
        def predict(x: torch.Tensor) -> torch.Tensor:
            return alone(x) @ weight.T + bias  # noqa: B023  # called in this round alone

        assert list(done.result.accuracies[0]) == accuracies(predict, small_benchmark().evaluation, "cpu")


def test_a_composition_of_some_seeds_leaves_that_of_all_where_it_is(made: Storage) -> None:
    asked: list[dict[str, list[int]]] = [{}, {"seeds": [1]}, {"seeds": [1], "drop": [2]}]
    found = [compose(["ia3"], storage=made.root, **options).result for options in asked]  # type: ignore[arg-type]
    assert [each.label for each in found] == ["uniform", "uniform-seeds-1", "drop-2-seeds-1"]
    assert found[2].title == "drop 2 (2, 3), seeds 1"
    kept = {each.label: each.seeds for each in read_compositions(made.run("ia3"))}
    assert kept["uniform"] == (0, 1) and kept["uniform-seeds-1"] == (1,)


def test_tasks_are_named_by_their_classes(made: Storage) -> None:
    numbered = compose(["tmc"], drop=[1], seeds=[0], storage=made.root).result
    named = compose(["tmc"], drop=["0, 1"], seeds=[0], storage=made.root).result
    assert named == numbered and numbered.task_names == ("0, 1", "2, 3", "4, 5")


def test_dropping_all_but_one_is_keeping_it_and_heads_stay(made: Storage) -> None:
    kept = compose(["ita"], keep=[2], storage=made.root).result
    dropped = compose(["ita"], drop=[3, 1], storage=made.root).result
    assert kept.weights == dropped.weights == (0.0, 1.0, 0.0) and kept.accuracies == dropped.accuracies
    assert kept.accuracies != compose(["ita"], storage=made.root).result.accuracies
    network = ComposedNetwork(Backbone(), torch.device("cpu"))
    pool = pool_of(made, "ita", 0)
    network.compose(pool, kept.weights, pool.head())
    assert network.predict(torch.zeros(1, 1, 32, 32)).shape == (1, 6)


@pytest.mark.parametrize(
    ("options", "label", "weights"),
    [
        ({}, "uniform", (1 / 3, 1 / 3, 1 / 3)),
        ({"keep": [3, 1]}, "keep-1,3", (0.5, 0.0, 0.5)),
        ({"drop": [2]}, "drop-2", (0.5, 0.0, 0.5)),
        ({"drop": [2], "coefficient": "negate"}, "drop-2-negate", (1 / 3, -1 / 3, 1 / 3)),
        ({"drop": [2], "coefficient": "subtract"}, "drop-2-subtract", (1 / 3, 1 / 3 - 1, 1 / 3)),
        ({"weights": [0.5, -1.0, 2.0]}, "weights-0.5,-1,2", (0.5, -1.0, 2.0)),
        ({"weights": [0.12345671, 0.5, 1 / 3]}, f"weights-0.12345671,0.5,{1 / 3}", (0.12345671, 0.5, 1 / 3)),
        ({"keep": [3, 1], "weights": [2, -1]}, "weights--1,2-of-1,3", (-1.0, 0.0, 2.0)),
        ({"rule": "ties"}, "uniform-ties-0.2", (1 / 3, 1 / 3, 1 / 3)),
    ],
)
def test_weights_and_labels(options: dict, label: str, weights: tuple[float, ...], made: Storage) -> None:
    done = compose(["ita"], seeds=[0], storage=made.root, **options)
    label = f"{label}-seeds-0"
    assert (done.result.label, done.result.weights) == (label, weights)
    assert done.file == made.run("ita").compositions / f"{label}.json"
    assert done.result in read_compositions(made.run("ita"))


def test_seeds_are_summed_up_as_a_final_run_sums_them(made: Storage) -> None:
    content = json.loads((compose(["ita"], storage=made.root).file or Path()).read_text(encoding="utf-8"))
    wanted = json.loads(made.run("ita").results_file.read_text(encoding="utf-8"))["summary"]["test/final_accuracy"]
    assert content["summary"]["test/final_accuracy"] == pytest.approx(wanted)


def test_vectors_of_two_runs(made: Storage) -> None:
    both = compose(["ita:1,3", "iel:2"], storage=made.root).result
    swapped = compose(["iel:2", "ita:3,1"], storage=made.root).result
    assert both.accuracies == swapped.accuracies and both.runs == ("ita:1,3", "iel:2")
    assert both.label == "uniform-of-ita:1,3+iel:2"
    assert [(made.run(name).compositions / "uniform-of-ita=1,3+iel=2.json").exists() for name in ("ita", "iel")] == [
        1,
        0,
    ]
    assert both.accuracies not in {compose([name], storage=made.root).result.accuracies for name in ("ita", "iel")}


def test_vectors_of_two_runs_have_no_run_beside_which_they_stand(made: Storage) -> None:
    weights = [0.5, 0.25, 0.25]
    assert compose(["ita"], weights=weights, storage=made.root).trained is not None
    assert compose(["ita:1,3", "iel:2"], weights=weights, storage=made.root).trained is None


def test_images_are_read_where_the_command_says_else_where_the_run_read_them(
    made: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []

    def opening(text: str, data_root: object) -> OpenBenchmark:
        read.append(data_root)
        return open_benchmark(text, None)

    monkeypatch.setattr(composition, "open_benchmark", opening)
    source = find_source(made, "ita")
    assert source.spec is not None
    there = replace(source, spec=source.spec.model_copy(update={"data_root": "/there"}))
    for asked in ("/here", None):
        composition._benchmark([there], EvaluateRequest(["ita"], data_root=asked), "final", Backbone())
    assert read == ["/here", "/there"]


def test_what_is_wrong_with_any_run_is_said_before_images_are_read_or_the_first_is_evaluated(
    made: Storage, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(composition, "_evaluate", lambda *_: pytest.fail("one was evaluated"))
    with pytest.raises(InputError, match="'gone': no run of that name"):
        evaluate(["ita", "gone"], storage=made.root)
    reduced = replace(find_source(made, "iel"), reduced=True)
    found = {"ita": find_source(made, "ita"), "iel": reduced}
    monkeypatch.setattr(composition.models, "find_source", lambda _, name: found[name])
    with pytest.raises(InputError, match="iel: was exported with --forget"):
        evaluate(["ita", "iel"], storage=made.root)
    monkeypatch.setattr(composition, "_benchmark", lambda *_: pytest.fail("images were read"))
    with pytest.raises(InputError, match="--device must be cpu or cuda, got 'gpu'"):
        compose(["ita"], device="gpu", storage=made.root)
    with pytest.raises(InputError, match="iel: was exported with --forget"):
        compose(["ita", "iel"], storage=made.root)


def test_a_command_asks_once_whether_code_has_changed_and_not_where_it_opens_what_it_has_trained(
    made: Storage, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(composition, "_evaluate", lambda *_: None)
    monkeypatch.setattr(analysis, "_draw_figures", lambda *_: {})
    asked: list[list[str]] = []
    monkeypatch.setattr(composition, "require_current", lambda names: asked.append(list(names)))
    for command in (evaluate, draw):
        command(["ita", "iel"], storage=made.root)
        assert asked.pop() == [name for run in ("ita", "iel") for name in _code_of(made, run)] and not asked
    monkeypatch.setattr(composition, "_merge", Mock(side_effect=InputError("vectors are open")))
    find = Mock(side_effect=find_source)
    monkeypatch.setattr(composition.models, "find_source", find)
    with pytest.raises(InputError, match="are open"):
        compose(["ita"], storage=made.root)
    assert asked.pop() == _code_of(made, "ita") and not asked and find.call_count == 1
    open_pools([find_source(made, "ita")], EvaluateRequest(["ita"]))
    assert not asked


def _code_of(made: Storage, run: str) -> list[str]:
    spec = read_spec(made.run(run))
    return [spec.benchmark, spec.protocol.backbone]


@dataclass
class Opened:
    """Task vectors that were opened, and how."""

    how: object
    network: str = "its own"


def test_what_was_trained_again_is_opened_as_the_call_says(made: Storage, monkeypatch: Patch) -> None:
    monkeypatch.setattr(composition, "open_pools", lambda sources, request: Opened((sources[0].name, request)))
    monkeypatch.setattr(composition.models, "find_source", lambda storage, text: SimpleNamespace(name=text))
    before = SimpleNamespace(by_seed={1: None}, network="in memory")
    plan: Any = SimpleNamespace(run=lambda: "again", before=before, spec=SimpleNamespace(seeds=(0, 1)))
    asked = ComposeRequest(["ita"], backbone_weights="w", data_root="d", device="cpu", retrain_later=True)
    found: Any = composition._trained_again(plan, asked, made)
    wanted = EvaluateRequest(["again"], seeds=(1,), backbone_weights="w", data_root="d", device="cpu")
    assert found == Opened(("again", wanted), "in memory")
    planned: list[object] = []
    monkeypatch.setattr(composition, "plan_retraining", lambda *_, on_cpu: planned.append(on_cpu))
    for device in ("cpu", "cuda", None):
        composition._retraining(replace(asked, device=device), plan, "removal", made)  # type: ignore[arg-type]
    assert planned == [True, False, False]


def test_the_accuracies_as_trained_are_those_of_the_composed_seeds_where_they_can_be_compared(
    made: Storage, monkeypatch: Patch
) -> None:
    rows = {seed: {"test/accuracy/task_1": 10.0 * seed, "test/accuracy/task_2": seed} for seed in (7, 5)}
    trials = [SimpleNamespace(number=n, seed=seed, final=row) for n, (seed, row) in enumerate(rows.items())]
    monkeypatch.setattr(composition, "read_trials", lambda *_: trials)
    run = find_source(made, "ita")
    about = {"label": "l", "runs": ("r",), "benchmark": "digits", "weights": (1.0, 0.0), "accuracies": ((60.0, 1.0),)}

    def trained(*sources: VectorSource, **more: Any) -> CompositionResult | None:
        result = CompositionResult(**{**about, "seeds": (5,), **more})
        return composition._trained(SimpleNamespace(sources=sources, tasks=2), result)  # type: ignore[arg-type]

    found = trained(run)
    assert found is not None and (found.weights, found.accuracies) == ((0.5, 0.5), ((50.0, 5.0),))
    orders = replace(run, protocol=run.protocol.model_copy(update={"class_orders": (1, 2)}))
    folder = replace(run, spec=None, directory=None)
    assert [trained(*sources) for sources in ((run, run), (orders,), (folder,))] == [None] * 3
    assert trained(run, seeds=(5, 6)) is None and trained(run, removal=report()) is None

    def damaged(*_: object) -> None:
        raise InputError("damaged")

    monkeypatch.setattr(composition, "read_trials", damaged)
    assert trained(run) is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"search_seed": 0}, "--search-seed: goes with --search N alone"),
        ({"forget": ["3"], "keep": [1]}, "--forget and --keep: choose one of them"),
        ({"forget": ["3"], "drop": [1]}, "--forget and --drop: choose one of them"),
        ({"forget": ["3"], "weights": [1, 1, 1]}, "--forget and --weights: choose one of them"),
        ({"forget": ["3"], "coefficient": "drop"}, "--coefficient: says how to unlearn"),
        ({"drop": []}, "--drop must be"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], said: str, made: Storage) -> None:
    with pytest.raises(InputError, match=said):
        compose(["ita"], seeds=[0], storage=made.root, **options)


def test_results_are_kept_with_the_first_source_that_is_a_run(made: Storage) -> None:
    folder, ita, iel = SimpleNamespace(spec=None, directory=None), find_source(made, "ita"), find_source(made, "iel")
    for sources, wanted in (([folder, iel, ita], iel), ([ita, iel], ita)):
        found = composition._run_of(SimpleNamespace(sources=sources))  # type: ignore[arg-type]
        assert found == (wanted.spec, wanted.directory)
    assert composition._run_of(SimpleNamespace(sources=[folder])) is None  # type: ignore[arg-type]


class TestEvaluate:
    def test_the_protocol_by_hand(self, made: Storage) -> None:
        ((done,), whole) = evaluate(["ita"], storage=made.root), accuracies_of(made.run("ita"))
        assert done.result.kept == (1, 2, 3) and [list(each.whole) for each in done.result.seeds] == whole
        for coefficient in UNLEARNING_MODES:
            found, targets, controls = done.result.unlearning(coefficient), [], []
            for seed in (0, 1):
                rows = [
                    compose(["ita"], drop=[u], coefficient=coefficient, seeds=[seed], storage=made.root).result
                    for u in (1, 2, 3)
                ]
                targets.append(sum(row.accuracies[0][u] for u, row in enumerate(rows)) / 3)
                controls.append(sum(sum(row.accuracies[0]) - row.accuracies[0][u] for u, row in enumerate(rows)) / 6)
            final = sum(map(sum, whole)) / 6
            assert found["target"].mean == pytest.approx(sum(targets) / 2)
            assert found["control"].mean == pytest.approx(sum(controls) / 2)
            assert found["target_gain"].mean == pytest.approx(sum(targets) / 2 - final)
            assert found["control_gain"].mean == pytest.approx(sum(controls) / 2 - final)

    def test_specialisation_by_hand(self, made: Storage) -> None:
        (done,) = evaluate(["iel"], seeds=[1], storage=made.root)
        result = done.result.model_copy(
            update={
                "kept": (1, 3),
                "seeds": (
                    done.result.seeds[0].model_copy(
                        update={"whole": (10.0, 20.0, 40.0), "specialised": (30.0, 5.0, 80.0)}
                    ),
                ),
            }
        )
        found = {name: score.mean for name, score in result.specialisation().items()}
        assert found == {"target": 55.0, "target_gain": 30.0, "control": 5.0}

    def test_it_is_kept_and_read_back(self, made: Storage) -> None:
        (done,) = evaluate(["full"], storage=made.root)
        assert read_evaluation(made.run("full")) == done.result and read_evaluation(made.run("ia3")) is None
        assert "evaluation" not in {result.label for result in read_compositions(made.run("full"))}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plain"], "run 'plain': its method 'finetune' leaves no task vectors; ita-fft"),
        (["half"], "half: seed 1 has no result (failed); compose those that have with --seeds 0"),
        (["ita", "--seeds", ""], "--seeds must be whole numbers"),
        (["ita", "--seeds", "7"], "ita: has no seed 7; compose those that have with --seeds 0,1"),
        (["gone"], "'gone': no run of that name in "),
        (["ita", "--seeds", "0,0"], "--seeds must be 1 to 1000 different numbers, got [0, 0]"),
        (["ita", "--weights", "0.5,0.5"], "--weights: needs one for each of 3 task vectors, got 2"),
        (["ita", "--keep", "1,2", "--weights", "1"], "one for each of 2 tasks of --keep, got 1"),
        (["ita", "--weights", "a"], "--weights must be numbers with commas between them, got 'a'"),
        (["ita", "--weights", "nan,1,1"], "--weights must be a number from -1000000 to 1000000, got nan"),
        (["ita", "--keep", "4"], "--keep: there is no task 4; allowed: 1 to 3"),
        (["ita", "--drop", "0"], "--drop must be a whole number from 1 to 100000, got 0"),
        (["ita", "--keep", "1,1"], "--keep must be different tasks, got '1,1'"),
        (["ita", "--keep", ""], "--keep must be tasks, numbers or names, with commas between them, got"),
        (["ita", "--drop", "zebra"], "--drop: there is no task 'zebra'; tasks are '0, 1', '2, 3', '4, 5'"),
        (["ita", "--drop", "1,2,3"], "--drop 1,2,3: leaves no task of 3"),
        (["ita", "--drop", "1", "--keep", "2"], "--drop and --keep: choose one of them"),
        (["ita", "--drop", "1", "--coefficient", "halve"], "unknown coefficient 'halve'; allowed: drop, negate, subtr"),
        (["ita", "--coefficient", "drop"], "--coefficient: says how to unlearn"),
        (["ita", "--rule", "mine"], "unknown rule 'mine'; allowed: linear, ties, magnitude, dare, dare-ties"),
        (["ita", "--rule", "ties", "--density", "0"], "rule 'ties': density must be above 0 and at most 1"),
        (["ita", "--density", "0.5"], "--density: says what a merging rule keeps"),
        (
            ["ita", "--rule", "ties", "--density", "0.5", "--set", "density=0.4"],
            "--density and --set density",
        ),
        (["ita", "--rule", "ties", "--set", "share=0.4"], "rule 'ties': unknown parameter 'share'; allowed: density"),
        (["ita", "--rule", "nowhere:Rule"], "rule 'nowhere:Rule': module 'nowhere' cannot be imported"),
        (["ita", "--forms", "timm"], "--forms: says what to export, so it goes with --export"),
        (["ita", "--export", "full-folder"], "--export full-folder: is not empty; name another folder"),
        (["ita", "--export", "new", "--forms", "onnx"], "unknown form 'onnx'; allowed: adapter, timm, models, vectors"),
        (
            ["full", "--export", "new", "--forms", "adapter"],
            "--forms adapter: needs task vectors of LoRA, these are full",
        ),
        (["ita", "iel"], "task 1 is in ita and in iel; take each task from one of them, as in ita:1,2 iel:3"),
        (["ita:1,2"], "ita:1,2: name the whole run, ita; of some tasks alone: `"),
        (["ita:3"], "tausearch compose ita --storage /"),
        (["ita:3"], " --keep 3`"),
        (["ita:1,2,5"], "ita: seed 0 has no task vector of task 5"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], words: str, made: Storage, tmp_path: Path, shown: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full-folder").mkdir()
    (tmp_path / "full-folder" / "mine").touch()
    before = sorted(made.root.rglob("*"))
    out, err = shown("compose", *arguments, code=2)
    assert out == "" and err.count("\n") == 1 and words in err, err
    assert sorted(made.root.rglob("*")) == before and not (tmp_path / "new").exists()


class TestPrinted:
    def test_it_shows_itself_in_a_line(self, made: Storage) -> None:
        done = compose(["ita"], keep=[1, 3], storage=made.root)
        accuracy = done.result.summary()["test/final_accuracy"].text()
        assert repr(done) == f"<Composed keep-1,3 of ita: {accuracy} %; {done.file}>"

    def test_what_is_known_as_before_although_it_was_left_out_is_said(
        self, shown: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for moved, said in ((-1000.0, False), (1000.0, True)):
            monkeypatch.setattr("tausearch.cli.output.compositions._MOVED", moved)
            out, _ = shown("compose", "ita", "--keep", "1,3")
            assert "as trained" in out and ("What was left out is known as before" in out) == said
        assert "known as before" not in shown("compose", "ita")[0]

    def test_a_task_that_was_left_out_is_still_answered_above_chance_alone(self, made: Storage) -> None:
        result = CompositionResult.model_validate({**compose(["ita"], storage=made.root).result.model_dump()})
        rows = {"weights": (0.5, 0.0, -0.5), "accuracies": ((90.0, 16.0, 17.0), (90.0, 17.0, 17.0))}
        assert result.test_images == (8, 8, 8)
        known = result.model_copy(update=rows).still_answered
        assert [each.task for each in known] == [3]  # chance is 16.67 %, and of task 2 it is 16.5 % in the mean

    def test_it_is_shown_where_it_cannot_be_kept(self, shown: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr(CompositionResult, "save", refuse)
        monkeypatch.setattr(EvaluationResult, "save", refuse)
        out, err = shown("compose", "ita", "--keep", "1")
        assert "keep-1: ita on" in out and "results" not in out
        assert err.count("\n") == 1 and "cannot be written (Read-only file system); what is shown is not kept" in err
        out, err = shown("evaluate", "ita", "--seeds", "0")
        assert "specialisation" in out and "compare" not in out and "what is shown is not kept" in err
        assert "--register: needs a run that can be written" in shown("compose", "ita", "--register", code=2)[1]
