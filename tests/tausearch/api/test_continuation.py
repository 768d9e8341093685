"""A run continues, or is trained, under the protocol of its start; what is not asked for anew stays as it was."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tausearch.api import (
    FinalRun,
    SearchRequest,
    TrainRequest,
    continuation,
    final_runs,
    plan_search,
    plan_training,
    resume,
    sync_run,
)
from tausearch.api.plans.final_runs import _require_same_protocol
from tausearch.execution import DriveOptions, Run
from tausearch.runs import (
    KnownPoint,
    Record,
    ReevaluationSpec,
    RunResult,
    SearchSpec,
    Storage,
    StorageError,
    TrialSummary,
    changed_fields,
    read_spec,
)
from tausearch.runs.creation import make_run_directory
from tausearch.studies.best_file import BestFile, load_best, make_best_file
from tausearch.tracking import Event, ResultsWritten
from tests.support.layouts import mit67
from tests.support.runs.final_runs import make_final_run
from tests.support.runs.trials import make_trial
from trainables.backbones import EMBEDDED, Backbone, glyph_vit
from trainables.data import BenchmarkRef
from trainables.errors import InputError

# What a change of the code, the data or the weights can change under a run. The other fields of a protocol are what a
# run asks for: they are taken from it, and cannot be found to differ.
CHANGES: dict[str, Any] = {
    "tasks": 4,
    "epochs": 7,
    "batch_size": 33,
    "weights_digest": "0" * 64,
    "initial_head_digest": "1" * 64,
}
URI = "http://localhost:5000"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[SearchSpec]:
    """The searches that came as far as being run."""
    found: list[SearchSpec] = []
    monkeypatch.setattr(continuation, "run_search", lambda run, *_: found.append(run.spec))
    for name in ("local_cpus", "cpus_to_run_on"):
        monkeypatch.setattr(f"tausearch.cluster.resources.{name}", lambda: 4)
    return found


class TestProtocol:
    @pytest.fixture
    def asked(self, tmp_path: Path) -> SearchRequest:
        """A search in which nothing that can be asked for is left at its default."""
        weights = tmp_path / "weights.safetensors"
        weights.write_bytes(glyph_vit.WEIGHTS.read_bytes())
        return SearchRequest(
            "digits?tasks=3",
            "ita-lora",
            name="s",
            storage=tmp_path / "storage",
            seed=4,
            precision="bf16",
            epochs=2,
            backbone=EMBEDDED,
            backbone_weights=weights,
        )

    @pytest.fixture
    def spec(self, asked: SearchRequest) -> SearchSpec:
        return plan_search(asked).spec

    @pytest.fixture
    def storage(self, asked: SearchRequest, spec: SearchSpec) -> Storage:
        storage = Storage(Path(asked.storage))
        make_run_directory(spec, storage)
        return storage

    def changed(self, spec: SearchSpec, key: str) -> SearchSpec:
        return spec.model_copy(update={"protocol": spec.protocol.model_copy(update={key: CHANGES[key]})})

    def best_of(self, spec: SearchSpec) -> BestFile:
        hyperparameters = {**{name: 0.1 for name in ("alpha", "alpha_cls", "alpha_cls_prior", "lr")}, "rank": 4}
        return make_best_file(spec, TrialSummary(1, 4, "complete", hyperparameters, [], 90.0), 3)

    def test_what_was_asked_for_is_the_protocol(self, asked: SearchRequest, spec: SearchSpec) -> None:
        assert spec.protocol.model_dump() == {
            "tasks": 3,
            "epochs": 2,
            "batch_size": 32,
            "split_seed": 4,
            "backbone": EMBEDDED,
            "backbone_weights": str(asked.backbone_weights),
            "weights_digest": Backbone().digest,
            "precision": "bf16",
            "class_orders": None,
            "initial_head": None,
            "initial_head_digest": None,
        }
        assert spec.seed == 4 and spec.steps == 3

    @pytest.mark.parametrize("key", CHANGES)
    def test_a_run_whose_protocol_has_changed_does_not_go_on(
        self, key: str, spec: SearchSpec, storage: Storage, ran: list[SearchSpec]
    ) -> None:
        final = plan_training(TrainRequest(self.best_of(spec), storage=storage.root, name="f")).spec
        make_run_directory(self.changed(final, key), storage)
        self.changed(spec, key).save(storage.run("s"))
        for name in ("s", "f"):
            with pytest.raises(InputError, match=rf"run '{name}': protocol.{key} was {CHANGES[key]}, is now \w+"):
                resume(name, storage=storage.root)
        assert not ran and getattr(read_spec(storage.run("s")).protocol, key) == CHANGES[key]

    def test_a_run_whose_protocol_is_what_it_was_goes_on(
        self, spec: SearchSpec, storage: Storage, ran: list[SearchSpec]
    ) -> None:
        resume("s", storage=storage.root)
        resume("s", storage=storage.root, trials=spec.trials + 3)
        assert [each.trials for each in ran] == [spec.trials, spec.trials + 3]
        assert all(each.protocol == spec.protocol for each in ran)
        assert read_spec(storage.run("s")).trials == spec.trials + 3
        message = f"--trials {spec.trials}: the search is planned with {spec.trials + 3} trials; it cannot have fewer"
        with pytest.raises(InputError, match=message):
            resume("s", storage=storage.root, trials=spec.trials)

    def test_a_search_gets_another_end(self, spec: SearchSpec, storage: Storage, ran: list[SearchSpec]) -> None:
        resume("s", storage=storage.root, patience=3)
        resume("s", storage=storage.root, target=90)
        resume("s", storage=storage.root, trials=spec.trials + 1, patience=5)
        rules = [(each.stop.patience, each.stop.target) for each in ran]
        assert rules == [(3, None), (3, 90), (5, 90)] and read_spec(storage.run("s")) == ran[-1]
        final = plan_training(TrainRequest(self.best_of(spec), storage=storage.root, name="f")).spec
        make_run_directory(final, storage)
        with pytest.raises(InputError, match="run 'f' is a final run, which runs all seeds; only searches end early"):
            resume("f", storage=storage.root, patience=3)
        with pytest.raises(InputError, match="--patience 99: cannot end a search of "):
            resume("s", storage=storage.root, patience=99)
        with pytest.raises(InputError, match="--patience must be a whole number from 1 to 100000, got 0"):
            resume("s", storage=storage.root, patience=0)

    def test_the_same_extension_again_does_not_begin_to_count_anew(
        self, spec: SearchSpec, storage: Storage, ran: list[SearchSpec]
    ) -> None:
        resume("s", storage=storage.root, patience=2)
        for number in range(2):
            Record(storage.run("s").record, tasks=3).write(replace(make_trial(number, 3, 60.0 - number), seed=4))
        resume("s", storage=storage.root, trials=spec.trials + 1)
        Record(storage.run("s").record, tasks=3).write(replace(make_trial(2, 3, 70.0), seed=4))
        resume("s", storage=storage.root, trials=spec.trials + 1)
        assert ran[1].stop.since is not None and ran[2].stop == ran[1].stop
        left = spec.trials + 1 - 2  # trials that count
        resume("s", storage=storage.root, patience=left)
        with pytest.raises(InputError, match=f"cannot end a search of .* trials, of which the last {left} count; name"):
            resume("s", storage=storage.root, patience=left + 1)

    @pytest.mark.parametrize("part", ["train", "evaluation"])
    def test_a_run_whose_images_are_more_or_fewer_does_not_go_on(
        self, part: str, spec: SearchSpec, storage: Storage, asked: SearchRequest, ran: list[SearchSpec]
    ) -> None:
        assert spec.data is not None
        had = spec.data.model_copy(update={part: getattr(spec.data, part) + 1})
        spec.model_copy(update={"data": had}).save(storage.run("s"))
        now = f"data.{part} was {getattr(had, part)} images, is now {getattr(spec.data, part)}"
        with pytest.raises(InputError, match=rf"^run 's': {now}; bring back the images .*, or make a new run$"):
            resume("s", storage=storage.root)
        with pytest.raises(InputError, match=rf"^run 's': {now}; .* --name; in a campaign --redo\)$"):
            plan_search(replace(asked, resume_if_exists=True))
        assert not ran

    @pytest.mark.parametrize("key", CHANGES)
    def test_a_best_file_whose_protocol_has_changed_is_not_trained(
        self, key: str, spec: SearchSpec, storage: Storage
    ) -> None:
        request = TrainRequest(self.best_of(self.changed(spec, key)), storage=storage.root)
        of = f"{EMBEDDED} on this benchmark" if key.endswith("digest") else re.escape(spec.benchmark)
        message = rf"best file: protocol.{key} is {CHANGES[key]}, but {of} has \w+"
        with pytest.raises(InputError, match=message):
            plan_training(request)

    def test_all_that_differs_in_a_protocol_is_said_with_the_benchmark_that_has_it(
        self, spec: SearchSpec, storage: Storage
    ) -> None:
        made = self.best_of(spec.model_copy(update={"protocol": spec.protocol.model_copy(update=CHANGES)}))
        with pytest.raises(InputError) as refused:
            plan_training(TrainRequest(made, storage=storage.root))
        said = refused.value.args
        assert [each.partition("protocol.")[2].split()[0] for each in said] == list(CHANGES)
        hints = [each for each in said if "write `benchmark: " in each]
        assert len(hints) == 1 and "`benchmark: digits?tasks=4&epochs=7&batch_size=33`" in hints[0]
        assert "name another benchmark by --benchmark" in hints[0]
        named = BenchmarkRef.parse("digits?task=0,1&task=2,3,4")
        with pytest.raises(InputError, match="; name its tasks in `benchmark` as they were, or leave the file"):
            _require_same_protocol(made, spec.protocol, named, same_benchmark=True)

    @pytest.mark.parametrize(
        ("changes", "said"),
        [({"epochs": 9}, "protocol.epochs is 9, but"), ({"backbone": "nope"}, "protocol.backbone: unknown backbone")],
    )
    def test_a_fault_of_a_protocol_names_the_best_file(
        self, changes: dict[str, Any], said: str, spec: SearchSpec, storage: Storage
    ) -> None:
        made = self.best_of(spec)
        made = made.model_copy(update={"protocol": made.protocol.model_copy(update=changes)})
        made.save(file := storage.root / "other.yaml")
        best = load_best(file)
        assert best == made  # wherever it was read
        with pytest.raises(InputError, match=f"^best file {file}: {said}"):
            plan_training(TrainRequest(best, storage=storage.root))

    def test_a_best_file_is_trained_under_its_protocol(self, spec: SearchSpec, storage: Storage) -> None:
        request = TrainRequest(self.best_of(spec), storage=storage.root, seeds=(7, 8), set={"lr": 0.2})
        final = plan_training(request).spec
        assert final.protocol == spec.protocol
        assert (final.purpose, final.seeds, final.trials) == ("final", (7, 8), 2)
        assert final.fixed["lr"] == 0.2 and final.fixed["alpha"] == 0.1
        assert (final.source, final.tuned_on, final.overrides) == ("s", spec.benchmark, {"lr": 0.2})

    def test_a_final_run_saves_curvature_if_it_is_asked_to(self, spec: SearchSpec, storage: Storage) -> None:
        best = self.best_of(spec)
        root = storage.root
        options = [plan_training(TrainRequest(best, storage=root, save_curvature=on)).spec for on in (True, False)]
        directory = storage.run("f")
        saved = [each.trial_config(0, {}, cache=None, directory=directory).save_curvature for each in options]
        assert saved == [True, False] and changed_fields(*options) == ["save_curvature was True, is now False"]
        without = best.model_copy(update={"method": "finetune", "hyperparameters": {"lr": 0.1}})
        of_ours = best.model_copy(update={"hyperparameters": {**best.hyperparameters, "curvature": "diagonal"}})
        for request, words in (
            (TrainRequest(of_ours, save_curvature=True, set={"curvature": "m:K"}), "this run's is 'm:K'"),
            (TrainRequest(without, save_curvature=True), "--save-curvature: finetune has no curvature of its tasks;"),
            (
                TrainRequest(best, save_curvature=True, class_orders=[1]),
                "--save-curvature: with --class-orders no",
            ),
        ):
            with pytest.raises(InputError, match=words):
                plan_training(replace(request, storage=root))

    def test_on_another_benchmark_only_theta_0_must_be_the_same(self, spec: SearchSpec, storage: Storage) -> None:
        there = {"benchmark": "glyphs", "storage": storage.root}
        for key in ("tasks", "epochs", "batch_size"):
            protocol = plan_training(TrainRequest(self.best_of(self.changed(spec, key)), **there)).spec.protocol
            assert getattr(protocol, key) != CHANGES[key]  # the benchmark's own
            assert (protocol.split_seed, protocol.precision, protocol.backbone_weights) == (
                4,
                "bf16",
                spec.protocol.backbone_weights,
            )
        with pytest.raises(InputError, match="protocol.weights_digest"):
            plan_training(TrainRequest(self.best_of(self.changed(spec, "weights_digest")), **there))


class TestSearch:
    def begin(self, storage: Path, benchmark: str = "digits", **more: Any) -> SearchSpec:
        request = SearchRequest(benchmark, "finetune", name="s", storage=storage, **more)
        return make_run_directory(plan_search(request).spec, Storage(storage))[0]

    def test_what_is_not_asked_for_stays_as_it_was(self, tmp_path: Path, ran: list[SearchSpec]) -> None:
        spec = self.begin(tmp_path, max_concurrent_trials=2, tracking_uri=URI, cpus_per_trial=2, with_bounds=True)
        resume("s", storage=tmp_path)
        assert ran == [spec] and read_spec(Storage(tmp_path).run("s")) == spec and spec.with_bounds
        assert (spec.resources.cpus_per_trial, spec.resources.max_concurrent_trials, spec.tracking_uri) == (2, 2, URI)

    def test_what_is_asked_for_is_what_it_is_from_now_on(self, tmp_path: Path, ran: list[SearchSpec]) -> None:
        spec = self.begin(tmp_path, max_concurrent_trials=2, tracking_uri="http://before:5000")
        resume("s", storage=tmp_path, max_concurrent_trials=3, tracking_uri=URI)
        resources = spec.resources.model_copy(update={"max_concurrent_trials": 3})
        assert ran == [spec.model_copy(update={"resources": resources, "tracking_uri": URI})]
        assert read_spec(Storage(tmp_path).run("s")) == ran[0]

    def test_the_number_of_fresh_runs_and_of_their_trials_stay_where_the_other_is_asked_for(
        self, tmp_path: Path, ran: list[SearchSpec]
    ) -> None:
        self.begin(tmp_path, trials=6, reevaluate=2, reevaluate_runs=4)
        resume("s", storage=tmp_path, reevaluate=3)
        resume("s", storage=tmp_path, reevaluate_runs=5)
        asked = [(spec.reevaluate.best, spec.reevaluate.runs) for spec in ran if spec.reevaluate is not None]
        assert asked == [(3, 4), (3, 5)]

    def test_bounds_and_trackers_can_be_asked_for_later(
        self, tmp_path: Path, ran: list[SearchSpec], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.begin(tmp_path, tracking="tensorboard")
        installed: list[object] = []
        monkeypatch.setattr(continuation, "require_installed", installed.append)
        resume("s", storage=tmp_path, with_bounds=True)
        resume("s", storage=tmp_path, tracking="none")
        asked = [(spec.with_bounds, spec.tracking) for spec in ran]
        assert asked == [(True, ("tensorboard",)), (True, ())] and installed == [("tensorboard",), ()]

    def test_a_disk_without_space_and_what_no_driver_can_continue_are_refused_first(
        self, tmp_path: Path, ran: list[SearchSpec], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.begin(tmp_path)

        def refuse(what: object) -> None:
            raise InputError(f"refused: {what if isinstance(what, Path) else type(what).__name__}")

        monkeypatch.setattr(continuation, "require_continuable", refuse)
        with pytest.raises(InputError, match="refused: SearchSpec"):
            resume("s", storage=tmp_path)
        monkeypatch.setattr("tausearch.runs.require_space", refuse)
        with pytest.raises(InputError, match=f"refused: {tmp_path}"):
            resume("s", storage=tmp_path)
        assert not ran

    def test_damaged_files_of_fresh_runs_are_set_aside_too(self, tmp_path: Path, ran: list[SearchSpec]) -> None:
        self.begin(tmp_path, trials=6, reevaluate=2)
        record = Storage(tmp_path).run("s").reevaluation.record
        record.mkdir(parents=True)
        (record / "trial-00000.parquet").write_bytes(b"damaged")
        with pytest.raises(InputError, match="trial-00000.parquet"):
            resume("s", storage=tmp_path)
        with pytest.raises(InputError, match="no trial can reach it"):
            resume("s", storage=tmp_path, without_damaged=True, target=101)
        assert [each.name for each in record.iterdir()] == ["trial-00000.parquet"], "a refused request changes nothing"
        resume("s", storage=tmp_path, without_damaged=True)
        assert [each.name for each in record.iterdir()] == [".trial-00000.parquet.damaged"] and len(ran) == 1

    def test_theta_0_is_the_one_of_the_protocol_with_its_head(
        self, tmp_path: Path, ran: list[SearchSpec], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spec = self.begin(tmp_path)
        own = spec.protocol.model_copy(update={"backbone_weights": "/weights", "initial_head": "/head"})
        spec.model_copy(update={"protocol": own}).save(Storage(tmp_path).run("s"))

        def made(*asked: object) -> None:
            raise InputError(f"asked for {asked}")

        monkeypatch.setattr(continuation.Backbone, "of", made)
        with pytest.raises(InputError, match="'glyph_vit', '/weights', '/head'"):
            resume("s", storage=tmp_path)

    def test_the_cluster_is_that_of_the_last_driver(
        self, tmp_path: Path, ran: list[SearchSpec], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tausearch.cluster.resources.require_reachable", lambda address: None)
        self.begin(tmp_path, address="auto", gpus_per_trial=0)
        assert read_spec(Storage(tmp_path).run("s")).address == "auto"
        for address in ("192.0.2.2:7391", None):
            resume("s", storage=tmp_path, address=address)
            assert ran[-1].address == address == read_spec(Storage(tmp_path).run("s")).address

    @pytest.mark.parametrize("begun", [0, 3, 4])
    def test_a_run_that_is_refused_before_it_goes_on_stays_as_it_was(
        self, begun: int, tmp_path: Path, ran: list[SearchSpec], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        directory, before = Storage(tmp_path).run("s"), self.begin(tmp_path, trials=3)

        def refused(*_: object) -> None:
            for number in range(begun):
                Record(directory.record).write(make_trial(number, before.steps, 80.0))
            raise InputError("no Ray")

        monkeypatch.setattr(continuation, "run_search", refused)
        with pytest.raises(InputError, match="^no Ray$"):
            resume("s", storage=tmp_path, trials=before.trials + 1, patience=3)
        after = read_spec(directory)
        gone_on = begun > before.trials
        assert (after == before) is not gone_on and after.trials == before.trials + gone_on

    @pytest.mark.parametrize("begun", [2, 3])
    def test_an_extension_of_a_search_that_ended_early_stays_once_it_has_gone_on(
        self, begun: int, tmp_path: Path, ran: list[SearchSpec], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before, record = self.begin(tmp_path, trials=9, target=90), Record(Storage(tmp_path).run("s").record)
        lr = {"lr": before.space["lr"].low}
        trials = [
            replace(make_trial(k, before.steps, 91.0, hyperparameters=lr), seed=before.seed) for k in range(begun)
        ]
        for trial in trials[:2]:
            record.write(trial)

        def failed(*_: object) -> None:
            for trial in trials[2:]:
                record.write(trial)
            raise InputError("the sampler failed")

        monkeypatch.setattr(continuation, "run_search", failed)
        with pytest.raises(InputError, match="^the sampler failed$"):
            resume("s", storage=tmp_path, trials=9)
        assert read_spec(Storage(tmp_path).run("s")).stop.since == (2 if begun == 3 else 0)

    def test_a_grid_grows_up_to_its_last_point(self, tmp_path: Path, ran: list[SearchSpec]) -> None:
        request = SearchRequest("digits", "ewc", name="s", algorithm="grid", trials=4, storage=tmp_path)
        make_run_directory(plan_search(request).spec, Storage(tmp_path))
        for trials in (4, 18):  # as many as before, and the whole grid
            resume("s", storage=tmp_path, trials=trials)
        with pytest.raises(InputError, match="--trials 19: the grid has 18 points"):
            resume("s", storage=tmp_path, trials=19)
        assert [spec.trials for spec in ran] == [4, 18]

    def test_a_grid_grows_up_to_the_points_of_a_warm_start_beside_it(
        self, tmp_path: Path, ran: list[SearchSpec]
    ) -> None:
        request = SearchRequest("digits", "ewc", name="s", algorithm="grid", trials=4, storage=tmp_path)
        beside = KnownPoint(origin="mine", point={"epsilon": 7.0, "gamma": 0.9, "lr": 0.003})
        make_run_directory(plan_search(request).spec.model_copy(update={"warm_start": (beside,)}), Storage(tmp_path))
        resume("s", storage=tmp_path, trials=19)
        with pytest.raises(InputError, match="--trials 20: the grid has 19 points"):
            resume("s", storage=tmp_path, trials=20)
        assert [spec.trials for spec in ran] == [19]

    def test_an_extension_that_ended_early_ends_its_fresh_runs_before_it_gets_more_trials(
        self, tmp_path: Path, ran: list[SearchSpec]
    ) -> None:
        spec, directory = self.begin(tmp_path, trials=9, target=90, reevaluate=1), Storage(tmp_path).run("s")
        lr = spec.space["lr"].low
        for number in range(2):
            trial = make_trial(number, spec.steps, 91.0 + number, hyperparameters={"lr": lr})
            Record(directory.record).write(replace(trial, seed=spec.seed))
            for _ in range(2):  # the second time after Ctrl-C in the re-evaluation
                resume("s", storage=tmp_path, trials=9)
        again = ReevaluationSpec.of(spec)
        for each in (again.number(1, 0), again.number(1, 1)):
            trial = make_trial(each, spec.steps, 90.0, hyperparameters={"lr": lr})
            Record(directory.reevaluation.record).write(replace(trial, seed=again.seed_of(each)))
        resume("s", storage=tmp_path, trials=9)
        assert [each.stop.since for each in ran] == [1, 1, 1, 1, 2]

    @pytest.mark.parametrize("trials", [3, 5, 12])
    def test_a_search_that_ended_early_gets_more_trials_than_it_had(
        self, trials: int, tmp_path: Path, ran: list[SearchSpec], capsys: pytest.CaptureFixture[str]
    ) -> None:
        request = SearchRequest("digits", "ewc", name="s", trials=12, target=90, storage=tmp_path)
        spec, directory = make_run_directory(plan_search(request).spec, Storage(tmp_path))
        record = Record(directory.record)
        lowest = {name: searched.low for name, searched in spec.space.items()}
        for number, value in enumerate((80.0, 91.0, 70.0)):
            record.write(replace(make_trial(number, spec.steps, value, hyperparameters=lowest), seed=spec.seed))
        with pytest.raises(InputError, match="--trials 2: the search ended after 3 trials; it cannot have fewer"):
            resume("s", storage=tmp_path, trials=2)
        last = record.file_of(2).rename(tmp_path / "lost")
        record.write(replace(make_trial(3, spec.steps, 60.0, hyperparameters=lowest), seed=spec.seed))
        with pytest.raises(InputError, match="--trials 3: the search has a trial 3; ask for at least 4"):
            resume("s", storage=tmp_path, trials=3)
        record.file_of(3).unlink()
        last.rename(record.file_of(2))
        resume("s", storage=tmp_path, trials=trials)  # of the 12 that it asked for it ran three
        assert [(spec.trials, spec.stop.since) for spec in ran] == [(trials, 3)]
        said = f"s: ended after 3 of 12 trials; goes on to {trials} in all"
        assert (said in capsys.readouterr().err) == (trials < 12)

    def test_a_dataset_that_has_moved_is_found_where_it_is_said_to_be(
        self, tmp_path: Path, ran: list[SearchSpec]
    ) -> None:
        storage = tmp_path / "storage"
        mit67(tmp_path / "here" / "mit67", "indoorCVPR_09.tar")
        begun = self.begin(storage, "mit67?partial=yes", backbone=EMBEDDED, data_root=tmp_path / "here")
        assert begun.data is not None and begun.data.evaluation < 100 and begun.reevaluate is None  # it is published
        shutil.move(tmp_path / "here", tmp_path / "there")
        with pytest.raises(InputError, match="here"):
            resume("s", storage=storage)
        resume("s", storage=storage, data_root=tmp_path / "there")
        assert [spec.data_root for spec in ran] == [str(tmp_path / "there")]
        resume("s", storage=storage)
        assert ran[1] == ran[0]

    def test_a_cluster_is_asked_where_it_is_said_to_be(
        self, tmp_path: Path, ran: list[SearchSpec], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.begin(tmp_path)
        asked: list[str] = []
        monkeypatch.setattr("tausearch.cluster.resources.require_reachable", asked.append)
        resume("s", storage=tmp_path, address="host:6379", max_concurrent_trials=99)
        assert asked == ["host:6379"] and ran[0].resources.max_concurrent_trials == 99  # more than fit here


class TestFinalRun:
    @pytest.fixture
    def stopped(self, tmp_path: Path) -> Storage:
        """A final run of three seeds: the first finished, the second failed, the third was running when all ended."""
        storage = Storage(tmp_path)
        make_final_run(storage, "f", [50.0, None, 70.0], benchmark="digits")
        directory = storage.run("f")
        directory.results_file.unlink()
        record = Record(directory.record, metric_names=read_spec(directory).metrics)
        running = record.trials()[2]
        running.status, running.value, running.rows = "running", None, []
        record.write(running)
        return storage

    def test_it_has_no_results_yet(self, stopped: Storage) -> None:
        assert sync_run(stopped, stopped.run("f")).trials == 3
        assert not stopped.run("f").results_file.exists()

    def test_what_a_kill_has_left_beside_a_block_is_removed(
        self, stopped: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tausearch.runs.record.files.BLOCK", 2)
        record = stopped.run("f").record
        whole = Record(record)
        first = whole.trials()[0]
        whole.compact((0, 1), lambda number: True)
        whole.write(first)
        sync_run(stopped, stopped.run("f"), tracking="none")
        assert sorted(path.name for path in record.iterdir()) == ["trial-00002.parquet", "trials-00000-00001.parquet"]

    @pytest.mark.parametrize(
        ("error", "mlflow", "said"),
        [
            (
                OSError(28, "No space left", "/x/best.yaml"),
                True,
                "run 'f': /x/best.yaml cannot be written .No space left.$",
            ),
            (ConnectionError("refused"), True, "run 'f': MLflow at sqlite:.* cannot be written .refused.$"),
            (RuntimeError("odd"), False, "run 'f': .*/f cannot be written .odd.$"),
            (StorageError("the record"), True, "^the record$"),
        ],
    )
    def test_what_cannot_be_brought_up_to_date_is_named(
        self, error: Exception, mlflow: bool, said: str, stopped: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tausearch.api.synchronisation._write", mock.Mock(side_effect=error))
        with pytest.raises((InputError, StorageError), match=said):
            sync_run(stopped, stopped.run("f"), tracking="mlflow" if mlflow else "none")

    def test_it_goes_on_with_the_seeds_that_have_not_ended(
        self, stopped: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        directory, driven = stopped.run("f"), []

        def drive(run: Run, options: DriveOptions) -> RunResult:
            driven.append((run, options))
            trials = list(run.trials)
            return RunResult("f", directory.path, trials, None, False, False, directory.log_file, "sqlite://", None)

        monkeypatch.setattr(final_runs, "drive", drive)
        options = DriveOptions(time_budget=60.0)
        result = final_runs.run_training(FinalRun(read_spec(directory), stopped, directory), options)
        ((run, given),) = driven
        assert given is options
        assert [trial.status for trial in run.trials] == ["complete", "failed", "running"]
        assert [run.searcher.next(), run.searcher.next()] == [(2, {}), None]
        assert run.config(2, {}).seed == 2
        assert result.results_file is None and result.summary["test/final_accuracy"]["seeds"] == 1

    @pytest.mark.parametrize("over", [False, True])
    def test_a_file_of_fewer_seeds_does_not_have_its_results(
        self, over: bool, stopped: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        directory = stopped.run("f")
        directory.results_file.write_text("{}")  # of the seeds that it had before it got more
        ended = RunResult("f", directory.path, [], None, False, over, directory.log_file, None, None)
        monkeypatch.setattr(final_runs, "drive", lambda *_: ended)
        result = final_runs.run_training(FinalRun(read_spec(directory), stopped, directory))
        assert result.results_file == (directory.results_file if over else None)

    def test_results_are_told_only_once_all_seeds_have_ended(self, stopped: Storage, no_insight: None) -> None:
        directory, told = stopped.run("f"), list[Event]()
        run = FinalRun(read_spec(directory), stopped, directory)  # type: ignore[arg-type]
        run.announce = told.append
        run.conclude(list(run.trials))
        assert told == []
        run.conclude([replace(trial, status="failed") if trial.number == 2 else trial for trial in run.trials])
        assert [type(event) for event in told] == [ResultsWritten]

    def test_it_is_resumed_under_the_options_of_the_request(
        self, stopped: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(continuation, "_require_unchanged", lambda spec: None)
        went_on: list[tuple[Any, ...]] = []
        monkeypatch.setattr(continuation, "run_training", lambda run, options: went_on.append((run.spec.name, options)))
        resume("f", storage=stopped.root, time_budget=60.0, progress_to="stderr", tracking="none")
        options = DriveOptions(time_budget=60.0, progress_to="stderr", callbacks=[], resume_options=" --tracking none")
        assert went_on == [("f", options)]

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"trials": 5}, "whose seeds are fixed; only searches can be extended. Train all seeds under another name"),
            ({"reevaluate": 2}, "which chooses nothing; only searches re-evaluate"),
        ],
    )
    def test_what_only_searches_can_be_asked(
        self, options: dict[str, int], words: str, stopped: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(continuation, "_require_unchanged", lambda spec: None)
        with pytest.raises(InputError, match=f"run 'f' is a final run, {words}"):
            resume("f", storage=stopped.root, **options)
