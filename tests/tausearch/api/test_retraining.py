"""`compose --forget --retrain-later`: which tasks are learned again, their price, and that no other number changes."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from safetensors.torch import load_file

from tausearch import compose
from tausearch.api import FinalRun, StoppedError, open_benchmark, retraining
from tausearch.api.retraining import RetrainingPlan, _reference
from tausearch.execution import DriveOptions, record_of
from tausearch.models import CompositionResult, read_compositions
from tausearch.models.descriptions import read_description
from tausearch.runs import (
    FinalSpec,
    Resources,
    Retraining,
    RunDirectory,
    SearchSpec,
    Storage,
    TrialSummary,
    open_storage,
    read_spec,
    read_trials,
)
from tests.support.command_line import Command
from tests.support.runs.composable_runs import SMALL, make_composable_run
from tests.support.runs.letter_images import draw_letters
from tests.support.runs.trials import final_spec
from trainables.composition import VECTOR_FILE
from trainables.data import Removal, get_source
from trainables.errors import InputError
from trainables.metrics import repeatable
from trainables.sequence import IncrementalSequence
from trainables.state import Checkpoints
from trainables.trial import build_sequence

pytestmark = pytest.mark.usefixtures("no_mlflow")


class Trainings:
    """Trains final runs in this process in place of Ray, and notes the tasks that it has trained."""

    def __init__(self) -> None:
        self.done: list[tuple[int, int]] = []  # seed and task
        self.stop_after: int | None = None
        self.status = "complete"

    def __call__(self, run: FinalRun, options: DriveOptions) -> SimpleNamespace:
        assert options.progress_to == "stderr" and run.time_said  # stdout holds the result, and there is one price
        while (next_trial := run.next_trial()) is not None:
            if self.stop_after is not None and len(self.done) >= self.stop_after:
                return SimpleNamespace(name=run.spec.name, signal=signal.SIGINT)
            config = run.config(*next_trial)
            sequence = build_sequence(replace(config, cache=None))
            if (state := Checkpoints(Path(config.checkpoints or "")).read(config.tasks_done)) is not None:
                sequence.load_state(state)
            before = run.trials.get(config.trial)
            rows = [] if before is None else before.rows[: sequence.tasks_done]
            while not sequence.finished:
                rows = [*rows, sequence.run_next_task()]
                self.done.append((config.seed, sequence.tasks_done))
            summary = run.summary(config.trial, config.seed, config.hyperparameters)
            value = rows[-1]["test/final_accuracy"]
            record_of(run.spec, run.directory).write(replace(summary, rows=rows, status=self.status, value=value))
        return SimpleNamespace(name=run.spec.name, signal=None)


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> Trainings:
    found = Trainings()
    monkeypatch.setattr("tausearch.api.retraining.run_training", found)
    return found


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    storage = open_storage(tmp_path / "runs", write=True)
    make_composable_run(storage, "ita")
    return storage


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def tensors(folder: Path) -> dict[str, dict[str, bytes]]:
    """The numbers of all files; the order of a header's fields differs from file to file."""
    files = sorted(folder.rglob("*.safetensors"))
    return {
        str(path.relative_to(folder)): {name: value.numpy().tobytes() for name, value in load_file(path).items()}
        for path in files
    }


def from_the_start(spec: FinalSpec, benchmark: str, seed: int, folder: Path) -> list[dict[str, float]]:
    """Train a seed on a benchmark that never had the classes; returns its rows."""
    config = spec.trial_config(spec.seeds.index(seed), {}, cache=None)
    sequence = build_sequence(replace(config, benchmark=benchmark, artifacts=str(folder)))
    return [repeatable(sequence.run_next_task()) for _ in sequence.tasks]


def retrained(storage: Storage, *forget: str, name: str = "ita", **options: Any) -> CompositionResult:
    return compose([name], forget=forget, retrain_later=True, storage=storage.root, **options).result


CASES = {  # benchmark, class or task, what is left, number of tasks that are taken over
    "a whole task": (SMALL, "task:2", f"{SMALL}?task=0,1&task=4,5", 1),
    "a class of the last task": (f"{SMALL}?task=0,1&task=2,3,4", "3", f"{SMALL}?task=0,1&task=2,4", 1),
    "a class of the first task": (f"{SMALL}?task=a=0,1,2&task=b=3,4,5", "class:1", f"{SMALL}?task=0,2&task=b=3,4,5", 0),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("method", ["ita-lora", "iel-fft"])
def test_the_new_run_equals_one_that_never_had_the_classes(
    method: str, case: str, trainings: Trainings, tmp_path: Path
) -> None:
    """To the bit: all draws depend on the seed, and on the numbers of task and class in the new order."""
    benchmark, forget, left, kept = CASES[case]
    storage = open_storage(tmp_path / "runs", write=True)
    make_composable_run(storage, "r", method, source=None if benchmark == SMALL else get_source(benchmark))
    before = digests(storage.run("r").path)
    result = retrained(storage, forget, name="r")
    assert trainings.done == [(seed, task) for seed in (0, 1) for task in (1, 2) if task > kept]
    assert digests(storage.run("r").path) == before and result.runs == ("r-retrained-1",)
    directory = storage.run("r-retrained-1")
    spec = read_spec(directory)
    assert isinstance(spec, FinalSpec) and spec.retrained is not None and spec.benchmark == left
    assert (spec.retrained.run, spec.retrained.kept, result.weights) == ("r", kept, (0.5, 0.5))
    for trial, accuracies in zip(read_trials(spec, directory), result.accuracies, strict=True):
        there = tmp_path / f"anew-{trial.seed}"
        assert [repeatable(row) for row in trial.rows] == from_the_start(spec, left, trial.seed, there)
        assert tensors(directory.artifacts / f"seed_{trial.seed}") == tensors(there)
        assert accuracies == tuple(trial.final[f"test/accuracy/task_{task}"] for task in (1, 2))


@pytest.mark.parametrize(("method", "forget"), [("ita-lora", "task:3"), ("tmc", "task:1")])
def test_without_a_task_that_learned_from_the_images_nothing_is_trained(
    method: str, forget: str, trainings: Trainings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = open_storage(tmp_path, write=True)
    make_composable_run(storage, "r", method)
    result = retrained(storage, forget, name="r")
    assert "no task that is left has learned from the forgotten images: nothing is trained" in capsys.readouterr().err
    assert result.runs == ("r",) and trainings.done == [] and len(storage.runs()) == 1
    assert result.removal is not None and result.removal.retrained is None


def test_tangents_are_all_trained_again_since_each_has_a_row_of_every_class(
    trainings: Trainings, tmp_path: Path
) -> None:
    storage = open_storage(tmp_path, write=True)
    make_composable_run(storage, "r", "tmc", seeds=[0], source=get_source(CASES["a class of the last task"][0]))
    result = retrained(storage, "3", name="r")
    assert trainings.done == [(0, 1), (0, 2)] and result.removal is not None and result.weights == (0.5, 0.5)
    assert result.removal.remains[0].startswith("No part of this model was learned from images of the forgotten")


def test_a_single_task_that_is_left_is_not_measured_without_its_vector(trainings: Trainings, tmp_path: Path) -> None:
    storage = open_storage(tmp_path, write=True)
    directory = make_composable_run(storage, "r", seeds=[0], source=get_source(f"{SMALL}?task=0,1,2&task=3,4,5"))
    read_spec(directory).model_copy(update={"measure_removability": True}).save(directory)
    assert retrained(storage, "task:1", name="r").weights == (1.0,) and trainings.done == [(0, 1)]
    assert not read_spec(storage.run("r-retrained-1")).removability


class TestTheNewRun:
    def test_a_seed_without_a_result_ends_the_call(self, storage: Storage, trainings: Trainings) -> None:
        retrained(storage, "task:2")
        spec, directory = spec_of(storage)
        failed = replace(read_trials(spec, directory)[1], status="failed", error="out of memory")
        record_of(spec, directory).write(failed)
        with pytest.raises(
            InputError, match=r"seed 1 of ita-retrained-1 .* \(failed: out of memory\); .* delete ita-retr"
        ):
            retrained(storage, "task:2")
        assert retrained(storage, "task:2", seeds=[0]).seeds == (0,)
        record_of(spec, directory).write(replace(failed, status="diverged", error="the loss is nan"))
        with pytest.raises(InputError, match=r"seed 1 .* \(diverged: the loss is nan\)"):
            retrained(storage, "task:2")

    def test_a_seed_that_fails_now_ends_the_call(self, storage: Storage, trainings: Trainings) -> None:
        trainings.status = "failed"
        with pytest.raises(InputError, match="seed 0 of ita-retrained-1 ended without a result"):
            retrained(storage, "task:2", seeds=[0])

    def test_what_is_reported_kept_and_exported(self, storage: Storage, trainings: Trainings, tmp_path: Path) -> None:
        result = retrained(storage, "task:2", export=tmp_path / "out")
        report = result.removal
        assert report is not None and (report.tasks, report.retrained) == ((1, 3), "ita")
        plain = compose(["ita"], forget=["task:2"], storage=storage.root).result.removal
        assert plain is not None and (report.before, report.classes[0].itself) == (
            plain.before,
            plain.classes[0].itself,
        )
        assert "task 3: learned again without these images (new vector, h0, mixtures, Fisher)" in report.left_out
        assert not any("h0" in line or "Fisher" in line for line in report.remains)
        (kept,) = read_compositions(storage.run("ita-retrained-1"))
        assert kept == result and kept.label == "forget-class-3,4-retrained"
        about = read_description(tmp_path / "out" / "timm" / "seed_0")
        assert about.class_names == ("0", "1", "4", "5") and about.runs == ("ita-retrained-1",)
        assert (tmp_path / "out" / "vectors" / "seed_1" / "task_2" / VECTOR_FILE).is_file()

    def test_it_is_registered_as_it_is(
        self, storage: Storage, trainings: Trainings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = []
        monkeypatch.setattr(
            "tausearch.api.composition.register_model",
            lambda spec, *rest: found.append((spec.name, read_description(rest[-1] / "timm" / "seed_0").class_names)),
        )
        retrained(storage, "task:2", register=True)
        assert found == [("ita-retrained-1", ("0", "1", "4", "5"))]

    def test_the_same_call_again_trains_nothing(
        self, storage: Storage, trainings: Trainings, capsys: pytest.CaptureFixture[str]
    ) -> None:
        first, count = retrained(storage, "task:2"), len(trainings.done)
        capsys.readouterr()
        assert retrained(storage, "task:2") == first and len(trainings.done) == count
        assert "already, as ita-retrained-1: nothing is trained" in capsys.readouterr().err
        assert retrained(storage, "task:2", seeds=[1]).accuracies == first.accuracies[1:]
        retrained(storage, "task:1")
        assert [run.name for run in storage.runs()] == ["ita", "ita-retrained-1", "ita-retrained-2"]

    def test_a_call_that_was_stopped_goes_on(
        self, storage: Storage, trainings: Trainings, capsys: pytest.CaptureFixture[str]
    ) -> None:
        trainings.stop_after = 1
        with pytest.raises(StoppedError, match="the training of ita-retrained-1 was stopped; the same call"):
            retrained(storage, "task:2")
        trainings.stop_after = None
        stopped = digests(storage.run("ita-retrained-1").artifacts / "seed_0")
        result = retrained(storage, "task:2")
        assert trainings.done == [(0, 2), (1, 2)] and result.seeds == (0, 1)
        assert "; continued run ita-retrained-1\n" in capsys.readouterr().err
        assert digests(storage.run("ita-retrained-1").artifacts / "seed_0") == stopped

    def test_fewer_seeds_go_on_with_a_run_that_was_killed_before_it_had_taken_over_all(
        self, storage: Storage, trainings: Trainings
    ) -> None:
        trainings.stop_after = 0
        with pytest.raises(StoppedError):
            retrained(storage, "task:2")
        shutil.rmtree(storage.run("ita-retrained-1").record)
        trainings.stop_after = None
        assert retrained(storage, "task:2", seeds=[0]).seeds == (0,)
        assert trainings.done == [(0, 2), (1, 2)]

    def test_a_seed_that_was_interrupted_has_the_tasks_left_that_it_has_not_learned(
        self, storage: Storage, trainings: Trainings, capsys: pytest.CaptureFixture[str]
    ) -> None:
        retrained(storage, "task:1")  # both tasks that are left are trained
        assert ", for seeds 0, 1: 4 trainings, " in capsys.readouterr().err
        spec, directory = spec_of(storage)
        begun = read_trials(spec, directory)[0]
        record_of(spec, directory).write(replace(begun, status="running", rows=begun.rows[:1], value=None))
        trainings.stop_after = 0
        with pytest.raises(StoppedError):
            retrained(storage, "task:1")
        assert ", for seeds 0, 1: 1 training, " in capsys.readouterr().err.splitlines()[-1]

    @pytest.mark.parametrize("lost", ["record", "state"])
    def test_without_what_was_taken_over_all_tasks_are_trained_to_the_same_end(
        self, lost: str, storage: Storage, trainings: Trainings
    ) -> None:
        """As after a kill before the first trial, and `resume` in place of the same call."""
        first = retrained(storage, "task:2", seeds=[0])
        vectors = tensors(storage.run("ita-retrained-1").artifacts)
        rows = read_trials(*spec_of(storage))[0].rows
        remove(storage.run("ita-retrained-1"), lost, rows[:1])
        trainings.done.clear()
        run = FinalRun(spec_of(storage)[0], storage, storage.run("ita-retrained-1"))
        run.time_said = True
        trainings(run, DriveOptions(progress_to="stderr"))
        assert trainings.done == [(0, 1), (0, 2)] and tensors(storage.run("ita-retrained-1").artifacts) == vectors
        assert retrained(storage, "task:2", seeds=[0]).accuracies == first.accuracies


def spec_of(storage: Storage) -> tuple[FinalSpec, RunDirectory]:
    directory = storage.run("ita-retrained-1")
    spec = read_spec(directory)
    assert isinstance(spec, FinalSpec)
    return spec, directory


def remove(directory: RunDirectory, lost: str, rows: list[dict[str, float]]) -> None:
    shutil.rmtree(directory.path / lost)
    if lost == "state":
        spec = read_spec(directory)
        record_of(spec, directory).write(TrialSummary(0, 0, "running", spec.fixed, rows))


@pytest.mark.parametrize(("gpus", "device"), [(0, "cpu"), (0.5, "cuda")])
def test_tasks_are_taken_over_on_the_device_of_the_trials(
    gpus: float, device: str, storage: Storage, trainings: Trainings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product of LoRA's factors rounds otherwise on another device."""
    take_over, found = RetrainingPlan._take_over, []

    def planned(plan: RetrainingPlan, spec: FinalSpec, directory: RunDirectory) -> None:
        before: Any = SimpleNamespace(device="cuda", backbone=plan.before.backbone, sources=plan.before.sources)
        spec = spec.model_copy(update={"resources": Resources(gpus_per_trial=gpus)})
        take_over(replace(plan, before=before), spec, directory)

    def noted(*given: Any, **options: Any) -> IncrementalSequence:
        found.append(options.pop("device"))
        return IncrementalSequence(*given, **options)

    monkeypatch.setattr(RetrainingPlan, "_take_over", planned)
    monkeypatch.setattr(retraining, "IncrementalSequence", noted)
    retrained(storage, "task:2")
    assert set(found) == {device}


class TestThePrice:
    def test_it_is_said_before_anything_is_trained(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("tausearch.api.retraining.run_training", refuse)
        with pytest.raises(KeyboardInterrupt):
            retrained(storage, "task:2")
        lines = capsys.readouterr().err.splitlines()[1:]
        assert re.fullmatch(
            r"tausearch: task 3 of ita is trained without the forgotten images, for seeds 0, 1: 2 trainings,"
            r" about 0:0\d, after Ray has started; new run ita-retrained-1",
            lines[0],
        )
        assert lines[1:] == ["tausearch: task 1 is taken over: no forgotten image has reached it"]

    def test_on_the_cpu_no_seed_takes_a_gpu(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch, gpus: Callable[[int], None]
    ) -> None:
        found: list[float] = []

        def refuse(run: FinalRun, *_: Any) -> None:
            found.append(run.spec.resources.gpus_per_trial)
            raise KeyboardInterrupt

        gpus(1)
        spec = read_spec(storage.run("ita"))
        spec.model_copy(update={"resources": Resources(gpus_per_trial=1)}).save(storage.run("ita"))
        monkeypatch.setattr("tausearch.api.retraining.run_training", refuse)
        with pytest.raises(KeyboardInterrupt):
            retrained(storage, "task:2", device="cpu")
        assert found == [0]

    @pytest.mark.parametrize(
        ("at_once", "hit", "words"), [(1, 0.0, "about 0:42,"), (2, 1.0, "about 0:21, and the pre-")]
    )
    def test_it_is_that_of_the_tasks_which_are_trained(
        self, at_once: int, hit: float, words: str, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Pre-consolidation is computed for the tasks that are taken over, too: the next one needs its mixtures."""
        spec = read_spec(storage.run("ita"))
        for number, trial in enumerate(read_trials(spec, storage.run("ita"))):
            times = [{"seconds/training": 100.0 * k, "seconds/preconsolidation": 1.0} for k in (1, 2)]
            times[0]["cache/hit"] = hit * (number == 0)  # of one seed, in a task that is taken over
            times.append({"seconds/training": 20.0 if number else 19.0, "seconds/preconsolidation": 0.5})
            rows = [
                {**{k: v for k, v in row.items() if not k.startswith("seconds/")}, **time}
                for row, time in zip(trial.rows, times, strict=True)
            ]
            record_of(spec, storage.run("ita")).write(replace(trial, rows=rows))
        monkeypatch.setattr("tausearch.execution.previews.known_concurrent_trials", lambda *_, **__: at_once)
        said: list[str] = []
        monkeypatch.setattr("tausearch.api.retraining.print_notices", lambda *lines: said.extend(lines))
        monkeypatch.setattr("tausearch.api.retraining.run_training", Trainings())
        retrained(storage, "task:2")
        assert words in said[0]

    def test_three_seeds_two_at_a_time_take_the_time_of_two(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        storage = open_storage(tmp_path, write=True)
        directory = make_composable_run(storage, "three", seeds=[0, 1, 2])
        spec = read_spec(directory)
        for trial in read_trials(spec, directory):
            rows = [{k: v for k, v in row.items() if not k.startswith("seconds/")} for row in trial.rows]
            record_of(spec, directory).write(replace(trial, rows=[{**row, "seconds/training": 20.0} for row in rows]))
        monkeypatch.setattr("tausearch.execution.previews.known_concurrent_trials", lambda *_, **__: 2)
        said: list[str] = []
        monkeypatch.setattr("tausearch.api.retraining.print_notices", lambda *lines: said.extend(lines))
        monkeypatch.setattr("tausearch.api.retraining.run_training", Trainings())
        retrained(storage, "task:2", name="three")
        assert "3 trainings, about 0:40" in said[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ita"], "--retrain-later: goes with --forget, which says without which classes"),
        (["ita", "--forget", "class:3"], "--retrain-later: task 2 would have the class 2 alone, and a task needs at"),
        (["ita:1,3", "other:2", "--forget", "task:1"], "--retrain-later: needs one final run of this storage"),
        (["ita", "--forget", "task:1", "--forms", "timm"], "--forms: says what to export"),
    ],
)
def test_bad_input_is_one_line(words: list[str], message: str, storage: Storage, command: Command) -> None:
    make_composable_run(storage, "other", seeds=[0, 1])
    before = sorted(storage.root.rglob("*"))
    out, err = command("compose", *words, "--retrain-later", "--storage", storage.root, code=2)
    assert out == "" and err.count("\n") == 1 and message in err, err
    assert sorted(storage.root.rglob("*")) == before


def test_a_signal_ends_the_command_with_the_way_to_go_on(
    storage: Storage, trainings: Trainings, command: Command
) -> None:
    trainings.stop_after = 0
    words = ("compose", "ita", "--forget", "task:2", "--retrain-later", "--storage", storage.root)
    out, err = command(*words, code=130)
    assert out == "" and err.endswith("interrupted; continue with: the same command\n")
    trainings.stop_after = None
    out, err = command(*words, "--format", "json")
    assert json.loads(out)["removal"]["retrained"] == "ita" and "continued run ita-retrained-1" in err


def test_a_removal_from_the_new_run_is_another_and_names_the_run_it_took_vectors_from(
    storage: Storage, trainings: Trainings
) -> None:
    result = retrained(storage, "task:2")
    again = compose(["ita-retrained-1"], forget=["task:2"], storage=storage.root).result  # the third task of ita
    assert [result.label, again.label] == ["forget-class-3,4-retrained", "forget-class-3,4"]
    kept = read_compositions(storage.run("ita-retrained-1"))
    assert [each.title for each in kept] == ["forget 2, 3, retrained", "forget 4, 5"]
    assert again.removal is not None
    assert any("is still in ita-retrained-1, ita," in line for line in again.removal.remains)


def test_images_that_have_moved_are_read_where_the_call_says(
    storage: Storage, trainings: Trainings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = read_spec(storage.run("ita"))
    elsewhere = {"data_root": "/gone", "address": "host:6379", "with_bounds": True}
    spec.model_copy(update=elsewhere).save(storage.run("ita"))
    asked: list[object] = []

    def opening(text: str, data_root: object) -> Any:
        asked.append(data_root)
        return open_benchmark(text, None)

    monkeypatch.setattr("tausearch.api.retraining.open_benchmark", opening)
    retrained(storage, "task:2", data_root=tmp_path)
    assert asked == [tmp_path]
    new, _ = spec_of(storage)  # it is trained here and alone
    assert (new.address, new.with_bounds, new.removability) == (None, False, False)


def test_a_run_is_used_again_if_it_left_out_the_same_and_has_all_the_seeds(
    spec: SearchSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = {"run": "r", "run_id": "1", "kept": 1}
    wanted = final_spec(spec, seeds=(1, 0), trials=2, retrained=Retraining(**how, forgotten=(3,)))
    others = {
        "not retrained": {"retrained": None},
        "a seed less": {"seeds": (0,), "trials": 1},
        "other classes": {"retrained": Retraining(**how, forgotten=(4,))},
        "more seeds": {"seeds": (0, 1, 2), "trials": 3},
    }
    there = [wanted.model_copy(update={"name": name, **changes}) for name, changes in others.items()]
    monkeypatch.setattr(retraining, "read_spec", lambda directory: directory)
    monkeypatch.setattr(retraining, "new_run", lambda root, name, stem: (root, f"{stem}-1"))

    def planned(*runs: FinalSpec) -> FinalSpec:
        storage: Any = SimpleNamespace(root="root", read_each=lambda read: ([read(each) for each in runs], []))
        return retraining._plan(wanted, storage).spec

    assert (planned(*there).name, planned(*there).seeds) == ("more seeds", (0, 1, 2))
    new = planned(*there[:3])
    assert (new.name, new.seeds) == ("r-retrained-1", (1, 0)) and new.id != wanted.id


def test_epochs_and_batches_of_images_on_disk_stay_as_they_were(tmp_path: Path) -> None:
    """Both follow from the number of images, and fewer are left."""
    source = get_source(f"folder:{draw_letters(tmp_path / 'letters')}?tasks=3")
    removal = Removal(source.task_classes, frozenset({0, 1}))
    text = _reference(source.name, source.spec, removal)
    left = get_source(text)
    assert f"epochs={source.epochs}&" in f"{text}&" and f"batch_size={source.batch_size}&" in f"{text}&"
    assert left.task_classes == (range(2), range(2, 4)) and left.class_names == source.class_names[2:]
    digits = get_source("digits?class_order=3&tasks=5")
    removal = Removal(digits.task_classes, frozenset({0, 1}))
    names = digits.class_names
    assert _reference(digits.name, digits.spec, removal) == "digits?" + "&".join(
        f"task={names[k]},{names[k + 1]}" for k in (2, 4, 6, 8)
    )
