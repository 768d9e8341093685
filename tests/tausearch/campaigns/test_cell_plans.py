"""Cells that have begun: which go on, grow, are started anew or refused, and which final run is theirs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tausearch.campaigns import CellPlan
from tausearch.campaigns.cell_plans import _has_chosen_otherwise
from tausearch.runs import Reevaluate, Storage
from tausearch.runs.creation import make_run_directory
from tausearch.studies import unsearched_best_file
from tests.tausearch.campaigns.planned import TABLE, faults_of, planned, remember, started
from trainables.errors import InputError


def test_a_cell_that_has_begun_goes_on_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    started(tmp_path)
    assert [each.status.state for each in planned(tmp_path).cells] == ["stopped", "waiting", "waiting"]
    with pytest.raises(InputError, match="digits/ita-lora: .*trials was 4, is now 3; .*: --redo digits/ita-lora"):
        planned(tmp_path, trials=3)
    with pytest.raises(InputError, match="seed was 0, is now 1; .*: --redo digits/ita-lora"):
        planned(tmp_path, TABLE.replace("algorithm: random", "algorithm: random, seed: 1"), trials=6)


@pytest.mark.parametrize(
    ("trials", "advised"),
    [
        (4, "to keep its re-evaluation, write reevaluate: 2, reevaluate_runs: 1 for this cell"),
        (5, "to keep its 5 trials, write trials: 5, reevaluate: 2, reevaluate_runs: 1 for this cell"),
    ],
)
def test_a_search_that_re_evaluates_by_hand_is_kept_by_what_is_advised(
    trials: int, advised: str, tmp_path: Path
) -> None:
    search = started(tmp_path).cells[0].search
    asked = {"trials": trials, "reevaluate": Reevaluate(best=2, runs=1, start=True)}
    search.spec.model_copy(update=asked).save(search.directory)
    with pytest.raises(InputError, match=f"; {advised}; to start the cell anew: --redo digits/ita-lora"):
        planned(tmp_path)
    options = advised.partition("write ")[2].removesuffix(" for this cell")
    own = f"{{{{benchmark: digits, method: ita-lora, search: {{{{{options}}}}}}}}}"
    plan = planned(tmp_path, TABLE.replace("search: null}}]", f"search: null}}}}, {own}]"))
    assert (plan.cells[0].runs.trials, plan.cells[0].runs.search) == (trials, search.spec.name)


def test_a_cell_that_was_not_searched_gets_no_search_beside_its_final_run(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    joint = plan.cells[-1]
    make_run_directory(joint.training.spec, plan.storage)
    assert planned(tmp_path).cells[-1].status.state == "stopped"
    said = "run 't-digits-joint-final' was trained without a search; .*: --redo digits/joint"
    with pytest.raises(InputError, match=said):
        planned(tmp_path, TABLE.replace("search: null", "search: {{trials: 3}}"))


def test_cells_that_have_not_begun_are_tracked_like_those_that_have(tmp_path: Path) -> None:
    started(tmp_path)
    plan = planned(tmp_path, tracking="none")
    assert [spec.trackers for cell in plan.cells for spec in cell.specs] == [()] * 5
    plan.saved_cells.save(plan.directory)
    assert [spec.trackers for cell in planned(tmp_path).cells for spec in cell.specs] == [()] * 5


def test_what_a_driver_was_given_holds_for_the_next_that_is_given_nothing(tmp_path: Path) -> None:
    uri = "postgresql://me:secret@host/runs"
    given = {"data_root": tmp_path / "data", "max_concurrent_trials": 1, "tracking_uri": uri}
    plan = planned(tmp_path, **given)
    plan.directory.path.mkdir(parents=True)
    plan.saved_cells.save(plan.directory)
    assert "secret" not in plan.directory.spec_file.read_text()
    again = planned(tmp_path)
    alike = plan.saved_cells.model_copy(update={"max_concurrent_trials": None})  # as many as fit, unless asked for
    assert again.saved_cells == alike
    assert again.request.data_root == str(tmp_path / "data")
    assert {spec.tracking_uri for cell in again.cells for spec in cell.specs} == {"postgresql://me@host/runs"}


def test_more_trials_extend_a_cell(tmp_path: Path) -> None:
    """And the re-evaluation may be that of so many trials; a cell that has not begun is not extended."""
    started(tmp_path)
    more = TABLE.replace("trials: {trials}", "trials: {trials}, reevaluate: 2")
    first, second, _ = planned(tmp_path, more, trials=6).cells
    assert (first.added, first.next, second.added, second.next) == (2, "6 trials more", 0, "start")
    spec = first.search.continued()
    assert spec.trials == 6 and spec.reevaluate is not None
    with pytest.raises(InputError, match="reevaluate"):
        planned(tmp_path, more)
    assert [each.next for each in planned(tmp_path).cells] == ["go on", "start", "start"]


def test_a_final_run_that_was_begun_otherwise_is_refused_too(tmp_path: Path) -> None:
    make_run_directory(planned(tmp_path).cells[2].training.spec, Storage(tmp_path / "runs"))
    assert planned(tmp_path).cells[2].status.state == "stopped"
    said = "digits/joint: .*'t-digits-joint-final' was started otherwise: seeds was 0 1, is now 0 2 3; to start the"
    with pytest.raises(InputError, match=said):  # their number follows, and is no option of the file
        planned(tmp_path, TABLE.replace("[0, 1]", "[0, 2, 3]"))


def test_a_search_under_the_name_of_a_final_run_is_refused_for_that_and_not_for_what_may_be_chosen(
    tmp_path: Path,
) -> None:
    first = started(tmp_path).cells[0]
    taken = {"name": first.training.spec.name, "fixed": {}}
    make_run_directory(first.search.spec.model_copy(update=taken), Storage(tmp_path / "runs"))
    (line,) = faults_of(tmp_path, TABLE.replace("trials: {trials}", "trials: 4"))
    assert "-final' was started otherwise: purpose was search, is now final;" in line and "; fixed." not in line


def test_a_cell_whose_runs_have_ended_is_to_be_extended_and_one_that_was_stopped_goes_on(tmp_path: Path) -> None:
    directory = started(tmp_path).cells[0].search.directory
    assert [planned(tmp_path, trials=trials).cells[0].state for trials in (4, 6)] == ["stopped"] * 2
    for number in range(4):
        remember(directory, number, 1.0)
    assert [planned(tmp_path, trials=trials).cells[0].state for trials in (4, 6)] == ["stopped", "to extend"]
    _, directory = make_run_directory(planned(tmp_path).cells[2].training.spec, Storage(tmp_path / "runs"))
    for seed in (0, 1):
        remember(directory, seed, 1.0, seed=seed)
    assert planned(tmp_path, TABLE.replace("[0, 1]", "[0, 1, 2]")).cells[2].state == "to extend"


def test_more_seeds_extend_a_final_run_and_each_keeps_its_number(tmp_path: Path) -> None:
    make_run_directory(planned(tmp_path).cells[2].training.spec, Storage(tmp_path / "runs"))
    joint = planned(tmp_path, TABLE.replace("[0, 1]", "[4, 1, 0, 3]")).cells[2]
    assert (joint.added_seeds, joint.next, joint.training.continued().seeds) == (2, "4 seeds more", (0, 1, 4, 3))
    assert [each.next for each in planned(tmp_path, TABLE.replace("[0, 1]", "[1, 0]")).cells] == ["start"] * 2 + [
        "go on"
    ]
    ordered = TABLE.replace("seeds: [0, 1]", "seeds: [0, 1], class_orders: [5, 6]").replace("t\n", "u\n", 1)
    assert [cell.runs.seeds for cell in planned(tmp_path, ordered).cells] == [4] * 3  # two seeds of each order
    make_run_directory(planned(tmp_path, ordered).cells[2].training.spec, Storage(tmp_path / "runs"))
    said = r"seeds was 0 1, is now 0 1 2 \(with class orders no seeds are added: .* change\); to start .*: --redo"
    with pytest.raises(InputError, match=said):
        planned(tmp_path, ordered.replace("[0, 1]", "[0, 1, 2]"))


@pytest.mark.parametrize("trials", [4, 6])
def test_fewer_seeds_are_refused_in_the_plan_whether_or_not_the_search_goes_on(tmp_path: Path, trials: int) -> None:
    """And what a search may still choose differently is no difference."""
    plan = started(tmp_path)
    first = plan.cells[0]
    make_run_directory(
        first.training.spec.model_copy(update={"fixed": {"lr": 0.5}, "source": first.search.spec.name}), plan.storage
    )
    with pytest.raises(
        InputError, match=r"final' was started otherwise: seeds was 0 1, is now 0; .*: --redo digits/ita"
    ):
        planned(tmp_path, TABLE.replace("[0, 1]", "[0]"), trials=trials)
    cell = planned(tmp_path, TABLE.replace("[0, 1]", "[0, 1, 2]"), trials=trials).cells[0]
    assert (cell.added, cell.added_seeds) == (trials - 4, 1)
    assert cell.next == f"{trials} trials more and 3 seeds more", "none has ended"


def test_of_a_cell_that_grows_the_plan_counts_the_trials_that_will_run(tmp_path: Path) -> None:
    """Those are more than the new ones where its search was interrupted; without a final run, its seeds are no more."""
    directory = started(tmp_path).cells[0].search.directory
    for number, trials_left in enumerate((4, 3, 2)):
        remember(directory, number, 1.0)
        cell = planned(tmp_path, trials=5).cells[0]
        assert (cell.next, cell.added) == (f"{trials_left} trials more", 1)
    remember(directory, 3, 1.0)
    assert planned(tmp_path, trials=5).cells[0].next == "1 trial more"


def test_of_a_final_run_that_was_interrupted_all_seeds_count_that_will_run(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    make_run_directory(plan.cells[2].training.spec, plan.storage)
    remember(plan.cells[2].training.directory, 0, 1.0, tasks=1)
    grown = TABLE.replace("[0, 1]", "[0, 1, 2]")
    assert planned(tmp_path, grown).cells[2].next == "2 seeds more"
    remember(plan.cells[2].training.directory, 1, 1.0, tasks=1, seed=1)
    assert planned(tmp_path, grown).cells[2].next == "1 seed more"
    remember(plan.cells[2].training.directory, 1, 1.0)  # of more tasks than the run has, so it cannot be read
    assert planned(tmp_path, grown).cells[2].next == "nothing"


def test_a_search_that_gets_more_trials_comes_before_a_final_run_of_its_choice_so_far(tmp_path: Path) -> None:
    plan = started(tmp_path)
    first = plan.cells[0]
    make_run_directory(
        first.training.spec.model_copy(update={"fixed": {"lr": 0.5}, "source": first.search.spec.name}), plan.storage
    )
    for number in range(4):
        remember(first.search.directory, number, 1.0)
    unsearched_best_file(first.search.spec).save(first.search.directory.best_file)
    finals = [planned(tmp_path, trials=trials).cells[0].runs.final for trials in (4, 6)]
    assert finals == ["t-digits-ita-lora-final-1", "t-digits-ita-lora-final"]


def test_a_cell_is_started_anew_under_names_of_its_own(tmp_path: Path) -> None:
    storage = started(tmp_path).storage
    plan = planned(tmp_path, trials=6, redo=["digits/ita-lora"])
    assert plan.cells[0].runs.search == "t-digits-ita-lora-1" and plan.cells[0].status.state == "waiting"
    plan.saved_cells.save(plan.directory)
    assert planned(tmp_path, trials=6).cells[0].runs.search == "t-digits-ita-lora-1"  # from now on
    assert storage.run_exists("t-digits-ita-lora")  # left alone
    with pytest.raises(InputError, match="--redo nope: the campaign has no such cell; it has digits/ita-lora"):
        planned(tmp_path, redo=["nope"])


def test_the_same_command_continues_the_cell_that_it_has_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a cluster's scheduler gives it again. A cell with other options or code is another one."""
    started(tmp_path)

    def redone(trials: int = 4) -> CellPlan:
        return planned(tmp_path, trials=trials, redo=["digits/ita-lora"]).cells[0]

    plan = planned(tmp_path, redo=["digits/ita-lora"])
    plan.saved_cells.save(plan.directory)
    assert redone().runs.search == "t-digits-ita-lora-1"  # killed before its first trial
    again = redone().search.spec.model_copy(update={"code_digests": {"m:C": "then"}})
    make_run_directory(again, plan.storage)
    assert (redone().runs.search, redone().next) == (again.name, "go on")
    assert [redone(trials).runs.search for trials in (3, 5)] == ["t-digits-ita-lora-2", again.name]
    with monkeypatch.context() as patched:
        patched.setattr("tausearch.campaigns.cell_plans.digests_of", lambda *_, in_workers: {"m:C": "now"})
        assert redone().runs.search == "t-digits-ita-lora-2"
    went_on = planned(tmp_path)
    went_on.saved_cells.save(went_on.directory)
    assert redone().runs.search == "t-digits-ita-lora-2"  # another command was given since


def test_each_cell_that_was_started_anew_is_remembered_until_a_command_starts_none(tmp_path: Path) -> None:
    started(tmp_path)
    names = []
    for redo in (["digits/ita-lora"], ["digits/finetune"], ["digits/ita-lora"], [], ["digits/ita-lora"]):
        plan = planned(tmp_path, redo=redo)
        plan.saved_cells.save(plan.directory)
        for cell in plan.cells[:2]:
            if not cell.search.exists:
                make_run_directory(cell.search.spec, plan.storage)
        names.append(plan.cells[0].runs.search)
    assert names == [f"t-digits-ita-lora-{number}" for number in (1, 1, 1, 1, 2)]


def test_a_cell_that_is_redone_under_another_protocol_leaves_the_files_of_the_first(tmp_path: Path) -> None:
    first, second = (TABLE.replace("algorithm: random", f"epochs: {epochs}") for epochs in (1, 2))
    started(tmp_path, first)
    for redo in (["digits/ita-lora"], []):  # also if the first driver is killed before it has removed them
        plan = planned(tmp_path, second, redo=redo)
        plan.saved_cells.save(plan.directory)
        assert plan.gone == () and [cell.runs.benchmark for cell in plan.cells] == ["digits?epochs=2"] * 3
        assert "digits?epochs=1" == plan.saved_cells.gone[0].benchmark != plan.saved_cells.cells[0].benchmark
    for _ in range(2):  # it leaves the file, and comes back with the later runs
        left = planned(tmp_path, second.replace("[ita-lora, finetune]", "[finetune]"))
        left.saved_cells.save(left.directory)
    assert planned(tmp_path, second).cells[0].runs.search == "t-digits-ita-lora-1"


def test_a_cell_keeps_the_final_run_of_a_later_choice(tmp_path: Path) -> None:
    plan = started(tmp_path)
    later = plan.cells[0].runs.model_copy(update={"final": "t-digits-ita-lora-final-1"})
    plan.saved_cells.with_cell(later).save(plan.directory)
    assert planned(tmp_path).cells[0].runs == later


def test_a_cell_without_a_search_is_started_anew_again_and_again(tmp_path: Path) -> None:
    names = []
    for _ in range(3):
        plan = planned(tmp_path, redo=["digits/joint"])
        names.append(plan.cells[-1].runs.final)
        make_run_directory(plan.cells[-1].training.spec, plan.storage)
    assert names == [f"t-digits-joint-{number}-final" for number in (1, 2, 3)]


def test_a_final_run_whose_search_is_gone_or_is_asked_for_no_more_is_refused_by_its_reason(tmp_path: Path) -> None:
    plan = started(tmp_path)
    search, training = plan.cells[0].search, plan.cells[0].training
    make_run_directory(training.spec.model_copy(update={"source": search.spec.name}), plan.storage)
    none = TABLE.replace("cells: [", "cells: [{{method: ita-lora, search: null}}, ")
    with pytest.raises(
        InputError, match="after the search 't-digits-ita-lora', and the file asks for none now; .*redo"
    ):
        planned(tmp_path, none)
    shutil.rmtree(search.directory.path)
    with pytest.raises(InputError, match="after the search 't-digits-ita-lora', which is gone; to start the cell anew"):
        planned(tmp_path)


def test_a_cell_whose_search_has_begun_is_not_trained_without_it(tmp_path: Path) -> None:
    plan = started(tmp_path)
    plan.saved_cells.save(plan.directory)
    none = TABLE.replace("cells: [", "cells: [{{method: ita-lora, search: null}}, ")
    said = "the search 't-digits-ita-lora' has begun, and the file asks for none now; .*: --redo digits/ita-lora"
    with pytest.raises(InputError, match=said):
        planned(tmp_path, none)
    assert planned(tmp_path, none, redo=["digits/ita-lora"]).cells[0].runs.search is None


def test_other_overrides_are_no_other_choice(tmp_path: Path) -> None:
    then = planned(tmp_path).cells[0].training.spec
    chosen = then.model_copy(update={"fixed": {**then.fixed, "lr": 0.5}})
    asked = chosen.model_copy(update={"overrides": {"lr": 0.5}})
    assert [_has_chosen_otherwise(then, now) for now in (then, chosen, asked)] == [False, True, False]


@pytest.mark.parametrize(("value", "another"), [("all", False), ("none", True)])
def test_a_final_run_that_is_older_than_a_hyperparameter_has_its_neutral_value(
    value: str, another: bool, tmp_path: Path
) -> None:
    now = planned(tmp_path).cells[0].training.spec
    older = now.model_copy(update={"fixed": {name: had for name, had in now.fixed.items() if name != "regularise"}})
    assert _has_chosen_otherwise(older, now.model_copy(update={"fixed": {**now.fixed, "regularise": value}})) == another
