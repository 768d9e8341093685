"""What the driver of a campaign is given, what it says first, and the result of a campaign."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tausearch.campaigns import (
    CampaignPlan,
    CampaignRequest,
    CampaignResult,
    CampaignStatus,
    driver as driver_module,
    plan_campaign,
    read_cells,
)
from tausearch.campaigns.active_cell import ActiveCell
from tausearch.campaigns.cell_plans import plan_final, with_share_of
from tausearch.campaigns.driver import _driver, _headlines, _result
from tausearch.campaigns.status import CellState, CellStatus
from tausearch.cluster import resources
from tausearch.execution import Driver, Interrupt, RunQueue, concurrency
from tausearch.runs import CampaignDirectory, Pilot, Plan, Record, Resources, RunSpec, StorageError
from tausearch.runs.creation import make_run_directory
from tausearch.studies import unsearched_best_file
from tausearch.tracking import Deliveries
from tests.support.runs.trials import make_trial
from tests.tausearch.campaigns.test_queue import TABLE, planned
from trainables.errors import InputError
from trainables.trial import TrialTrainable


def standing(plan: CampaignPlan, *states: CellState) -> CampaignPlan:
    rows = [replace(cell, status=CellStatus(cell.runs, state)) for cell, state in zip(plan.cells, states, strict=True)]
    return replace(plan, rows=tuple(rows))


def test_a_driver_needs_the_resources_of_each_kind_of_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "cpus_to_run_on", lambda: 8)
    monkeypatch.setattr(resources, "require_gpu", lambda wish: None)
    own = "cells: [{method: ewc, search: {cpus_per_trial: 3}, train: {gpus_per_trial: 0.5}}]\n"
    for place in (driver_module, concurrency):
        monkeypatch.setattr(place, "local_cpus", lambda: 8)
    driver = _driver(planned(tmp_path, TABLE + own), TrialTrainable)
    kinds = [Resources(), Resources(cpus_per_trial=3), Resources(gpus_per_trial=0.5)]
    assert driver.processes == 5 and driver.resources == kinds


@pytest.mark.parametrize(("states", "processes"), [(("failed", "done"), 3), (("failed", "failed"), 6)])
def test_a_failed_cell_that_is_tried_again_has_processes_and_one_that_is_done_has_none(
    states: tuple[CellState, ...], processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (driver_module, concurrency):
        monkeypatch.setattr(place, "local_cpus", lambda: 8)
    assert _driver(standing(planned(tmp_path), *states), TrialTrainable).processes == processes


def test_a_driver_needs_nothing_for_cells_that_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "cpus_to_run_on", lambda: 8)
    plan = planned(tmp_path, TABLE + "cells: [{method: ewc, search: {cpus_per_trial: 3}}]\n")
    first, second = plan.cells
    done = replace(second, status=CellStatus(second.runs, "done"))
    assert driver_module._kinds(replace(plan, rows=(first, done))) == [Resources()]
    assert Resources(cpus_per_trial=3) in driver_module._kinds(replace(plan, rows=(done,)))


def test_a_driver_has_what_the_command_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"address": "auto", "time_budget": 60.0, "max_concurrent_trials": 3, "progress_to": "stderr"}
    (tmp_path / "t.yaml").write_text(TABLE)
    told = {"callbacks": ["m:C"], "tracking": "none"}
    request = CampaignRequest(tmp_path / "t.yaml", storage=tmp_path / "runs", **asked, **told)  # type: ignore[arg-type]
    monkeypatch.setattr("tausearch.campaigns.plans.gpus_at", lambda address: 0)
    monkeypatch.setattr(driver_module, "read_by_trials", lambda spec: ["/data", f"/{spec.method}"])
    said = "tausearch.presentation.terminal.commands.code_option"
    monkeypatch.setattr(said, lambda *benchmarks: f" --allow-code {'+'.join(benchmarks)}")
    monkeypatch.setattr(RunSpec, "code", property(lambda spec: (f"m:{spec.method}",)))
    plan = plan_campaign(request)
    assert (plan.saved_cells.address, plan.saved_cells.code) == ("auto", ("m:finetune", "m:ewc"))
    driver = _driver(plan, TrialTrainable)
    assert {name: getattr(driver, name) for name in asked} == asked and driver.processes == 3
    assert driver.read == ["/data", "/finetune", "/ewc"]
    runs, code = f"--storage {tmp_path / 'runs'}", "--allow-code m:finetune+m:ewc"
    told_again = "--address auto --callback m:C --tracking none --max-concurrent-trials 3"
    assert driver.resume_command.endswith(f" campaign run {tmp_path / 't.yaml'} {runs} {code} {told_again}")


def test_the_first_lines_say_the_work_and_the_cells_that_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(
        tmp_path,
        TABLE.replace("[finetune, ewc]", "[finetune, ewc, l2p, coda]") + "cells: [{method: coda, search: null}]\n",
    )
    plan = planned(tmp_path, TABLE.replace("trials: 2", "trials: 2, reevaluate: 1"))
    plan = standing(plan, "done", "failed")
    for name in ("t-digits-l2p", "t-digits-l2p-final"):
        plan.storage.run(name).path.mkdir(parents=True)
        (plan.storage.run(name).path / "run.yaml").touch()
    first, *gone, log = _headlines(plan)
    assert first == "campaign t: 2 cells (1 done already), 0 of 4 trials to search, 0 of 6 seeds to train"
    assert [line.rpartition("; ")[2] for line in gone] == [
        "its runs are left alone (t-digits-l2p, t-digits-l2p-final)",
        "its runs are left alone (none has begun)",
    ]
    assert log.endswith(str(plan.directory.log_file))


def test_a_cell_that_the_same_command_has_started_anew_is_said_to_go_on(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    plan = replace(plan, request=replace(plan.request, redo=[cell.title for cell in plan.cells]))
    plan = standing(plan, "stopped", "done")
    _, *lines, _ = _headlines(plan)
    again = "it has ended; run the campaign once without --redo to start it anew again"
    assert lines == [
        "digits/finetune: --redo has started it anew before (t-digits-finetune); it goes on",
        f"digits/ewc: --redo has started it anew before (t-digits-ewc); {again}",
    ]


@pytest.mark.parametrize(("left_to_conclude", "way"), [(False, "conclude"), (True, "run")])
def test_a_campaign_whose_cells_are_done_or_failed_needs_no_ray_unless_a_run_is_to_be_concluded(
    left_to_conclude: bool, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, did = planned(tmp_path), list[str]()
    plan = standing(plan, "done", "failed")
    monkeypatch.setattr(RunQueue, "conclude_finished", lambda queue: left_to_conclude)
    for each in ("run", "conclude"):
        monkeypatch.setattr(Driver, each, lambda driver, queue, session, each=each: did.append(each))
    with driver_module._held(plan):
        driver_module._run(plan, TrialTrainable, ())
    assert did == [way]


def test_all_callbacks_of_a_campaign_are_told_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, told = standing(planned(tmp_path), "done", "done"), list[str]()
    untracked = plan.cells[0].search.spec.model_copy(update={"tracking": ()})

    def conclude(driver: Driver, queue: RunQueue, session: object) -> None:
        for each in queue.deliveries.of(untracked):
            each.send(cast(Any, "ended"))
            each.close()

    monkeypatch.setattr(RunQueue, "conclude_finished", lambda queue: False)
    monkeypatch.setattr(Driver, "conclude", conclude)
    callbacks: Any = [SimpleNamespace(on_event=lambda event, name=name: told.append(name)) for name in "abc"]
    driver_module.run_campaign(plan, TrialTrainable, callbacks)
    assert told == ["a", "b", "c"]


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the result of a campaign whose cells stand so, after a signal and the end of its time budget."""
    plan = planned(tmp_path)

    def result_of(
        *states: CellState, errors: dict[int, str] | None = None, write: Callable[..., list[Path]] = lambda *_: []
    ) -> CampaignResult:
        cells = tuple(
            CellStatus(cell.runs, state, reason="a seed diverged" if state == "failed" else None)
            for cell, state in zip(plan.cells, states, strict=True)
        )
        saved = plan.saved_cells.model_copy(update={"redone": ("digits/ewc",)})
        saved.save(plan.directory)
        status = CampaignStatus(plan.directory, False, cells, saved)

        def read(storage: object, directory: object, *, running: bool) -> CampaignStatus:
            assert not running  # the lock that it would see is its own
            return status

        monkeypatch.setattr(driver_module, "read_campaign_status", read)
        monkeypatch.setattr(driver_module, "write_outputs", write)
        monkeypatch.setattr(driver_module, "track_tables", no_server)
        cells = [ActiveCell(plan, each, lambda line: None) for each in plan.cells]
        for number, error in (errors or {}).items():
            cells[number].on_error(ValueError(error))
        interrupt = Interrupt(0.0)
        interrupt.note(15)
        runs = [SimpleNamespace(name=name, tracking_error=error) for name, error in (("a", None), ("b", "full"))]
        queue = SimpleNamespace(results=runs, deliveries=Deliveries())
        return _result(plan, cells, cast(RunQueue, queue), interrupt, "resume")

    return result_of


def no_server(*_: object, **__: object) -> None:
    raise InputError("no server")


def test_a_campaign_that_has_ended_was_not_stopped(ended: Any) -> None:
    done, stopped = ended("done", "failed"), ended("done", "stopped")
    assert (done.signal, done.out_of_time) == (None, False)
    assert (stopped.signal, stopped.out_of_time) == (15, True)
    assert done.tracking_errors == {"b": "full", "t": "no server"} and done.results == 2


def test_a_cell_was_started_anew_until_the_campaign_has_ended(ended: Any) -> None:
    """The same `--redo` continues it until then, and starts it anew again afterwards."""
    redone = [
        read_cells(ended(*states).standing.directory).redone for states in (("done", "stopped"), ("done", "failed"))
    ]
    assert redone == [("digits/ewc",), ()]
    written: list[str] = []

    def write(_: object, status: CampaignStatus, __: object) -> list[Path]:
        written.extend(read_cells(status.directory).redone)  # as after a kill before all is written
        return []

    ended("done", "failed", write=write)
    assert written == ["digits/ewc"]


def test_a_failed_cell_has_the_error_of_this_process_before_that_of_its_record(ended: Any) -> None:
    assert ended("failed", "done").failed == {"digits/finetune": "a seed diverged"}
    failed = ended("failed", "stopped", errors={0: "no best file", 1: "no space"}).failed
    assert failed == {"digits/finetune": "no best file", "digits/ewc": "no space"}


def test_cells_of_a_method_share_a_pilot_and_a_final_run_has_the_share_of_its_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: Callable[[int], None]
) -> None:
    gpus(1)
    table = TABLE.replace("[digits]", "[digits, letters]").replace("trials: 2", "trials: 2, gpus_per_trial: auto")
    whole = "{method: l2p, search: {gpus_per_trial: 1}, train: {gpus_per_trial: 0}}"
    own = f"cells: [{{method: probe, search: null}}, {whole}]\n"
    plan = planned(tmp_path, table + own)
    measured_on: list[tuple[str, str]] = []

    def measured(of: Plan[Any], address: str | None, out: object, time_budget: object) -> Plan[Any]:
        measured_on.append((of.spec.method, of.spec.benchmark))
        share = 1 / (1 + len(measured_on))
        found = Resources(gpus_per_trial=share, gpus_from="rule", pilot=Pilot(peak_bytes=1, gpu_bytes=9))
        return replace(of, spec=of.spec.model_copy(update={"resources": found}), pilot=False)

    monkeypatch.setattr(driver_module, "with_measured_gpu_share", measured)
    found = driver_module._with_measured_gpu_shares(plan)
    assert measured_on == [("finetune", "digits"), ("ewc", "digits"), ("probe", "digits")]
    shares = {cell.runs.title: [spec.resources.gpus_per_trial for spec in cell.specs] for cell in found.cells}
    assert shares == {
        f"{benchmark}/{method}": each
        for benchmark in ("digits", "letters")
        for method, each in (("finetune", [1 / 2] * 2), ("ewc", [1 / 3] * 2), ("probe", [1 / 4]), ("l2p", [1, 0]))
    }
    assert not any(run.pilot for cell in found.cells for run in (cell.training,))
    for state in ("done", "failed"):
        ended = replace(plan.cells[0], status=CellStatus(plan.cells[0].runs, cast(CellState, state)))
        driver_module._with_measured_gpu_shares(replace(plan, rows=(ended,)))
    assert len(measured_on) == 3


def test_cells_in_two_precisions_have_a_pilot_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: Callable[[int], None]
) -> None:
    gpus(1)
    cells = "cells: [{benchmark: letters, search: {precision: fp32}}]\n"
    table = "campaign: t\nbenchmarks: [digits, letters]\nmethods: [ewc]\nsearch: {trials: 2, precision: bf16}\n"
    plan = planned(tmp_path, table + cells)
    shares = {"bf16": 1 / 4, "fp32": 1 / 2}

    def measured(of: Plan[Any], address: str | None, out: object, time_budget: object) -> Plan[Any]:
        share = shares[of.spec.protocol.precision]
        found = Resources(gpus_per_trial=share, gpus_from="rule", pilot=Pilot(peak_bytes=1, gpu_bytes=9))
        return replace(of, spec=of.spec.model_copy(update={"resources": found}), pilot=False)

    monkeypatch.setattr(driver_module, "with_measured_gpu_share", measured)
    found = {
        cell.runs.title: cell.search.spec.resources for cell in driver_module._with_measured_gpu_shares(plan).cells
    }
    assert {title: each.gpus_per_trial for title, each in found.items()} == {"digits/ewc": 1 / 4, "letters/ewc": 1 / 2}


@pytest.mark.parametrize("differing", [{"batch_size": 7}, {"backbone": "vit_tiny_patch16_224"}])
def test_cells_whose_trials_need_other_memory_have_a_pilot_each(
    differing: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: Callable[[int], None]
) -> None:
    gpus(1)
    plan = planned(tmp_path, TABLE.replace("[digits]", "[digits, letters]"))
    first, second = (next(cell for cell in plan.cells if cell.runs.title == f"{b}/ewc") for b in ("digits", "letters"))
    spec = second.search.spec
    spec = spec.model_copy(update={"protocol": spec.protocol.model_copy(update=differing)})
    measured_on: list[str] = []

    def measured(of: Plan[Any], address: str | None, out: object, time_budget: object) -> Plan[Any]:
        measured_on.append(of.spec.benchmark)
        return replace(of, pilot=False)

    monkeypatch.setattr(driver_module, "with_measured_gpu_share", measured)
    other = replace(second, search=replace(second.search, spec=spec))
    for cells, wanted in (((first, second), ["digits"]), ((first, other), ["digits", "letters"])):
        measured_on.clear()
        rows = [replace(cell, training=replace(cell.training, pilot=False)) for cell in cells]
        driver_module._with_measured_gpu_shares(replace(plan, rows=tuple(rows)))
        assert measured_on == wanted


def test_a_final_run_that_is_planned_after_its_search_has_the_share_of_the_cell(
    tmp_path: Path, gpus: Callable[[int], None]
) -> None:
    gpus(1)
    plan = planned(tmp_path, TABLE)
    cell = plan.cells[0]
    assert cell.search.pilot and cell.training.pilot
    shared = cell.search.spec.model_copy(update={"resources": Resources(gpus_per_trial=0.2, gpus_from="rule")})
    found = with_share_of(replace(cell.search, spec=shared), cell.training)
    assert found.spec.resources.gpus_per_trial == 0.2 and not found.pilot
    kept = replace(cell.training, pilot=False)
    assert with_share_of(replace(cell.search, spec=shared), kept) == kept
    _, searched = make_run_directory(cell.search.spec, plan.storage)
    start = unsearched_best_file(cell.search.spec).hyperparameters
    Record(searched.record, tasks=5).write(make_trial(0, 5, 60.0, hyperparameters=start))
    known = replace(cell, training=replace(found, pilot=False))
    final = plan_final(known, plan.request, plan.opening, plan.gpus)
    assert final.spec.resources.gpus_per_trial == 0.2 and not final.pilot


def test_a_campaign_has_its_cells_in_its_folder_while_it_is_driven(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    plan.directory.spec_file.unlink()
    with driver_module._held(plan):
        assert read_cells(plan.directory) == plan.saved_cells


@pytest.mark.parametrize("begun", [False, True])
def test_a_campaign_that_is_refused_before_a_run_has_begun_leaves_nothing(begun: bool, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TABLE)
    plan = plan_campaign(CampaignRequest(tmp_path / "t.yaml", storage=tmp_path / "runs"))
    with pytest.raises(InputError, match="no node fits"), driver_module._held(plan):
        plan.directory.ray.mkdir()
        plan.directory.log_file.touch()
        plan.storage.cache.mkdir()
        if begun:
            make_run_directory(plan.cells[0].search.spec, plan.storage)
        raise InputError("no node fits")
    assert (tmp_path / "runs").exists() == plan.directory.spec_file.exists() == begun


def test_a_campaign_that_is_refused_keeps_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TABLE)
    plan = plan_campaign(CampaignRequest(tmp_path / "t.yaml", storage=tmp_path / "runs"))
    plan.directory.path.mkdir(parents=True)
    plan.directory.pilot_file.touch()  # of `campaign plan --pilot`
    with pytest.raises(InputError), driver_module._held(plan):
        raise InputError("no node fits")
    assert list(plan.directory.path.iterdir()) == [plan.directory.pilot_file]


@pytest.mark.parametrize("begun", [False, True])
def test_a_campaign_that_grew_and_is_refused_keeps_its_cells(begun: bool, tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(TABLE)
    request = CampaignRequest(file, storage=tmp_path / "runs")
    plan = plan_campaign(request)
    with driver_module._held(plan):
        make_run_directory(plan.cells[0].search.spec, plan.storage)
    before = plan.directory.spec_file.read_bytes()
    file.write_text(TABLE.replace("trials: 2", "trials: 4"))
    grown = plan_campaign(request)
    with pytest.raises(InputError), driver_module._held(grown):
        assert plan.directory.spec_file.read_bytes() != before
        if begun:
            make_run_directory(grown.cells[0].training.spec, plan.storage)
        raise InputError("no node fits")
    assert (plan.directory.spec_file.read_bytes() == before) != begun


def test_a_campaign_that_is_refused_on_the_way_keeps_the_new_name_of_a_final_run(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TABLE)
    request = CampaignRequest(tmp_path / "t.yaml", storage=tmp_path / "runs")
    plan = plan_campaign(request)
    with driver_module._held(plan):
        for spec in (spec for cell in plan.cells for spec in cell.specs):
            make_run_directory(spec, plan.storage)
    goes_on = plan_campaign(request)
    renamed = goes_on.saved_cells.with_cell(goes_on.cells[0].runs.model_copy(update={"final": "t-another-choice"}))
    with pytest.raises(InputError, match="no node fits"), driver_module._held(goes_on):
        renamed.save(plan.directory)
        raise InputError("no node fits")
    assert read_cells(plan.directory) == renamed


def test_what_another_driver_began_while_a_campaign_was_planned_is_kept(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TABLE)
    request = CampaignRequest(tmp_path / "t.yaml", storage=tmp_path / "runs")
    first = plan_campaign(request)
    with driver_module._held(first):
        make_run_directory(first.cells[0].search.spec, first.storage)
    planned_before, anew = plan_campaign(request), plan_campaign(replace(request, redo=[first.cells[0].title]))
    with driver_module._held(anew):
        pass
    with pytest.raises(InputError, match="^campaign 't' has changed while"), driver_module._held(planned_before):
        pytest.fail("it forgets what was begun")
    assert read_cells(anew.directory) == anew.saved_cells


def test_a_driver_that_waits_for_the_lock_and_is_refused_leaves_the_files_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.yaml").write_text(TABLE)
    plan = plan_campaign(CampaignRequest(tmp_path / "t.yaml", storage=tmp_path / "runs"))

    def waited(*_: object) -> Any:
        plan.directory.spec_file.write_text("of the first")
        raise InputError("driven by another process")

    monkeypatch.setattr(driver_module, "driver_lock", waited)
    with pytest.raises(InputError, match="driven by another"), driver_module._held(plan):
        pass
    assert plan.directory.spec_file.read_text() == "of the first"


def test_a_campaign_whose_report_cannot_be_written_was_not_refused(ended: Any) -> None:
    def unwritten(*_: object) -> list[Path]:
        raise InputError("report r.html: cannot be written")

    with pytest.raises(StorageError, match=r"report r.html: cannot be written; mend that, then: resume"):
        ended("done", "failed", write=unwritten)


@pytest.mark.parametrize(
    ("error", "lines"),
    [(None, 1), (KeyboardInterrupt(), 1), (InputError("no node fits"), 0), (StorageError("full"), 1)],
)
def test_a_driver_that_is_refused_has_not_run(error: BaseException | None, lines: int, tmp_path: Path) -> None:
    directory = CampaignDirectory(tmp_path)
    with suppress(KeyboardInterrupt, InputError, StorageError), driver_module._timed(directory):
        if error is not None:
            raise error
    assert (directory.drives_file.read_text().count("seconds") if directory.drives_file.exists() else 0) == lines
