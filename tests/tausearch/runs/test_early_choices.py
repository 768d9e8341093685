"""What searches that look at the first tasks alone would have chosen, and what that comes to."""

from __future__ import annotations

import json
from pathlib import Path

from tausearch.runs import (
    Constraint,
    EarlyChoice,
    Record,
    SearchSpec,
    TrialSummary,
    combine_parts,
    early_choices,
    open_storage,
)
from tausearch.runs.creation import make_run_directory
from tests.support.command_line import Ask
from tests.support.runs.trials import final_spec, make_trial
from tests.tausearch.several.made import part, parts, several_spec
from trainables.metrics import VALIDATION

ROWS = [  # after tasks 1 to 5
    [90.0, 80.0, 70.0, 60.0, 50.0],
    [99.0, 60.0, 50.0, 45.0, 40.0],  # best after the first
    [90.0, 85.0, 75.0, 50.0, 45.0],  # best after the third
    [99.0, 70.0, 74.0, 55.0, 50.0],
    [80.0, 70.0, 60.0, 59.0, 58.0],  # best after the last
]


def trials(rows: list[list[float]] = ROWS) -> list[TrialSummary]:
    made = [make_trial(number, tasks=len(row), value=row[-1]) for number, row in enumerate(rows)]
    for each, row in zip(made, rows, strict=True):
        for metrics, value in zip(each.rows, row, strict=True):
            metrics["val/average_accuracy"] = value
    return made


def test_each_look_chooses_by_what_it_sees_and_is_ranked_by_the_end() -> None:
    stopped = make_trial(9, tasks=3, status="pruned")
    stopped.rows[0]["val/average_accuracy"] = stopped.rows[2]["val/average_accuracy"] = 100.0
    assert early_choices([*trials(), stopped], 5, VALIDATION) == [
        EarlyChoice(tasks=1, trial=1, accuracy=99.0, value=40.0, rank=5, finished=5),  # a tie: the earlier
        EarlyChoice(tasks=3, trial=2, accuracy=75.0, value=45.0, rank=4, finished=5),
        EarlyChoice(tasks=5, trial=4, accuracy=58.0, value=58.0, rank=1, finished=5),
    ]


def test_equal_ends_share_the_better_rank() -> None:
    rows = [[90.0, 50.0], [80.0, 60.0], [70.0, 50.0], [60.0, 40.0]]
    assert [(each.tasks, each.rank) for each in early_choices(trials(rows), 2, VALIDATION)] == [(1, 2), (2, 1)]


def test_of_equal_ends_the_one_that_forgets_less_is_chosen_and_before_the_end_the_earlier() -> None:
    found = trials([[90.0, 50.0], [90.0, 60.0], [90.0, 60.0], [60.0, 40.0]])
    for each, forgetting in zip(found, (1.0, 5.0, 2.0, 0.0), strict=True):
        each.rows[-1]["val/forgetting"] = forgetting
    assert [each.trial for each in early_choices(found, 2, VALIDATION)] == [0, 2]


def test_the_choice_after_all_benchmarks_is_that_of_the_search_which_compares_scores() -> None:
    search = several_spec(trials=5)
    accuracies = [(92.59, 97.25), (50.0, 97.0), (95.0, 97.5), (97.59, 96.25), (92.1, 97.1)]
    ended = [part(search, trial, k, value) for trial, both in enumerate(accuracies) for k, value in enumerate(both)]
    found = combine_parts(parts(search), ended)
    assert [(each.trial, each.rank) for each in early_choices(found, 2, search.metrics)] == [(3, 2), (2, 1)]


def test_looks_are_no_longer_than_a_trial_and_few_trials_say_nothing() -> None:
    rows = [[float(n), float(n)] for n in range(4)]
    assert [each.tasks for each in early_choices(trials(rows), 2, VALIDATION)] == [1, 2]
    assert [each.tasks for each in early_choices(trials([row[:1] for row in rows]), 1, VALIDATION)] == [1]
    assert early_choices(trials()[:3], 5, VALIDATION) == []


def test_the_command(spec: SearchSpec, tmp_path: Path, ask: Ask) -> None:
    storage = open_storage(tmp_path, write=True)
    for name, found in (("s", trials()), ("few", trials()[:2])):
        made, directory = make_run_directory(spec.model_copy(update={"name": name, "steps": 5, "trials": 5}), storage)
        for each in found:
            Record(directory.record, tasks=5).write(each)
    make_run_directory(final_spec(spec, name="final"), storage)
    there = ["--storage", str(tmp_path)]
    code, out, err = ask("status", "s", "--protocols", *there)
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    assert (code, err) == (0, "") and [row[:6] for row in cells] == [
        ["1", "1", "99.00", "40.00", "18.00", "5"],
        ["3", "2", "75.00", "45.00", "13.00", "4"],
        ["5", "4", "58.00", "58.00", "0.00", "1"],
    ]
    plain = json.loads(ask("status", "s", "--protocols", "--format", "json", *there)[1])
    assert [each["trial"] for each in plain["protocols"]] == [1, 2, 4]
    assert "protocols" not in json.loads(ask("status", "s", "--format", "json", *there)[1])
    assert "not known, it takes 4 finished trials" in ask("status", "few", "--protocols", *there)[1]
    for asked, message in (
        (["final"], "run 'final' is a final run; only searches choose"),
        ([], "--protocols: needs the name of a search"),
    ):
        code, out, err = ask("status", *asked, "--protocols", *there)
        assert code == 2 and out == "" and message in err and err.count("\n") == 1


def test_the_command_leaves_out_trials_that_break_a_constraint(spec: SearchSpec, tmp_path: Path, ask: Ask) -> None:
    bound = Constraint(metric="val/final_accuracy", relation="<=", bound=57)  # trial 4, the best after the last, has 58
    asked = spec.model_copy(update={"steps": 5, "trials": 5, "constraints": (bound,)})
    made, directory = make_run_directory(asked, open_storage(tmp_path, write=True))
    for each in trials():
        Record(directory.record, tasks=5).write(each)
    words = ["status", made.name, "--protocols", "--format", "json", "--storage", str(tmp_path)]
    found = json.loads(ask(*words)[1])["protocols"]
    assert [(each["trial"], each["finished"]) for each in found] == [(1, 4), (2, 4), (0, 4)]
