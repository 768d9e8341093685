"""What a campaign will do, known before anything starts."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tausearch.api.benchmarks import OpenBenchmark, open_benchmark
from tausearch.campaigns import CampaignRequest, plan_campaign, run_campaign
from tausearch.campaigns.cell_plans import plan_final
from tausearch.campaigns.plans import work_left
from tausearch.runs import Storage, driver_lock
from tausearch.runs.creation import make_run_directory
from tausearch.studies import unsearched_best_file
from tests.tausearch.campaigns.planned import TABLE, planned, started
from trainables.errors import InputError
from trainables.methods import METHODS


def test_a_benchmark_is_opened_once_in_the_folder_of_the_command_and_the_cluster_joined_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, object]] = []

    def opening(text: str, data_root: object) -> OpenBenchmark:
        asked.append((text, data_root))
        return open_benchmark(text, None)

    joined: list[object] = []
    monkeypatch.setattr("tausearch.campaigns.plans.open_benchmark", opening)
    monkeypatch.setattr("tausearch.campaigns.plans.gpus_at", lambda address: joined.append(address) or 2)
    plan = planned(tmp_path, TABLE.replace("algorithm: random", "cpus_per_trial: 4000"), address="auto", data_root="/d")
    assert asked == [("digits", "/d")] and joined == ["auto"]
    assert {spec.resources.gpus_from for cell in plan.cells for spec in cell.specs} == {"rule"}
    assert plan.cells[0].search.spec.resources.cpus_per_trial == 4000  # the cluster alone says what fits


def test_every_cell_has_its_runs_and_their_sizes(tmp_path: Path) -> None:
    Storage(tmp_path / "runs").run("t-digits-joint").path.mkdir(parents=True)  # the place of a search, which it has not
    plan = planned(tmp_path, tracking_uri="http://a:1")
    runs = [each.runs for each in plan.cells]
    assert [(each.title, each.search, each.final) for each in runs] == [
        ("digits/ita-lora", "t-digits-ita-lora", "t-digits-ita-lora-final"),
        ("digits/finetune", "t-digits-finetune", "t-digits-finetune-final"),
        ("digits/joint", None, "t-digits-joint-final"),
    ]
    assert [(each.trials, each.seeds, each.steps) for each in runs] == [(4, 2, 5), (4, 2, 5), (0, 2, 1)]
    first = plan.cells[0].search.spec
    assert (first.trials, first.algorithm, first.tracking_uri) == (4, "random", "http://a:1")
    assert plan.cells[2].training.spec.fixed == unsearched_best_file(plan.cells[2].search.spec).hyperparameters
    final = plan_final(plan.cells[2], plan.request, plan.opening, plan.gpus)
    assert final is plan.cells[2].training, "without a search there is no best file to look for"
    assert plan.cells[2].training.spec.source is None and plan.cells[2].training.spec.tuned_on is None


def test_a_cell_that_is_not_searched_trains_with_the_same_epochs(tmp_path: Path) -> None:
    for option in ("epochs: 1", "seed: 4", "precision: bf16", "tasks: 2"):
        plan = planned(tmp_path, TABLE.replace("algorithm: random", option))
        protocols = [each.training.spec.protocol for each in plan.cells]
        assert protocols[0] == protocols[2], option
        assert protocols[0] != planned(tmp_path).cells[0].training.spec.protocol, option


def test_a_campaign_of_which_a_run_is_driven_leaves_nothing_behind(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    make_run_directory(plan.cells[0].search.spec, plan.storage)
    with driver_lock(plan.storage.run("t-digits-ita-lora")):
        before = sorted(plan.storage.root.rglob("*"))
        with pytest.raises(InputError, match="'t-digits-ita-lora' is being driven by another process"):
            run_campaign(plan)
        assert sorted(plan.storage.root.rglob("*")) == before


def test_a_second_driver_of_a_campaign_is_refused(tmp_path: Path) -> None:
    plan = started(tmp_path)
    with driver_lock(plan.directory), pytest.raises(InputError, match="campaign 't' is being driven"):
        run_campaign(plan)


def test_a_campaign_waits_for_a_final_run_that_another_process_drives(tmp_path: Path) -> None:
    plan = started(tmp_path)
    _, final = make_run_directory(plan.cells[0].training.spec, plan.storage)
    with driver_lock(final), pytest.raises(InputError, match=f"'{final.name}' is being driven by another process"):
        run_campaign(plan)


def test_a_campaign_keeps_the_place_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned(tmp_path)
    monkeypatch.chdir(tmp_path)
    kept = plan_campaign(CampaignRequest("t.yaml", storage="runs", data_root="data")).saved_cells
    assert (kept.file, kept.data_root) == (str(tmp_path / "t.yaml"), str(tmp_path / "data"))


def test_the_work_left_is_of_the_trials_that_a_search_has_in_the_end() -> None:
    status = SimpleNamespace(left=(1, 2), trials=3)  # of five it has ended after three
    for noun in ("seed", "trial"):  # as final runs over class orders have them
        training = SimpleNamespace(spec=SimpleNamespace(trial_noun=noun))
        cells = [SimpleNamespace(status=status, runs=SimpleNamespace(trials=5, seeds=2), training=training)]
        left = work_left(SimpleNamespace(cells=cells))  # type: ignore[arg-type]
        assert left == f"1 of 3 trials to search, 2 {noun}s to train"


def test_a_cell_whose_later_final_runs_would_have_too_long_a_name_is_refused_at_once(tmp_path: Path) -> None:
    longest = "c" * (100 - len("-digits-finetune-1-final-1"))
    text = TABLE.replace("campaign: t", f"campaign: {longest}").replace("[ita-lora, finetune]", "[finetune]")
    assert len(planned(tmp_path, text).cells) == 2
    with pytest.raises(InputError, match="at most 100 characters, got 101$"):
        planned(tmp_path, text.replace(longest, longest + "c"))


def test_a_cell_that_is_gone_is_said(tmp_path: Path) -> None:
    started(tmp_path)
    plan = planned(tmp_path, TABLE.replace("[ita-lora, finetune]", "[finetune]"))
    assert [each.title for each in plan.gone] == ["digits/ita-lora"]
    assert [each.runs.title for each in plan.cells] == ["digits/finetune", "digits/joint"]


def test_a_cell_that_comes_back_has_the_runs_that_it_had(tmp_path: Path) -> None:
    started(tmp_path)
    without = TABLE.replace("[ita-lora, finetune]", "[finetune]")
    for text, redo in ((TABLE, ["digits/ita-lora"]), (without, []), (without, [])):
        plan = planned(tmp_path, text, redo=redo)
        plan.saved_cells.save(plan.directory)
    assert planned(tmp_path, without).gone == ()  # it was said when the file left it out
    back = planned(tmp_path)
    assert back.cells[0].runs.search == "t-digits-ita-lora-1" and back.saved_cells.gone == ()


def test_a_table_of_seven_benchmarks_by_all_methods_is_planned_in_seconds(tmp_path: Path) -> None:
    """A shared machine may be four times slower than the five seconds that a person is asked to wait."""
    benchmarks = ", ".join(f"'digits?epochs={epochs}'" for epochs in range(1, 8))
    table = f"campaign: t\nbenchmarks: [{benchmarks}]\nmethods: [{', '.join(METHODS)}]\n"
    start = time.process_time()
    assert len(planned(tmp_path, table).cells) == 7 * len(METHODS)
    assert time.process_time() - start < 20
