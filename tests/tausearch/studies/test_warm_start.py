"""Searches that start from what is known: which points, in which order, and what of them did not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from search_spaces import Choices, Scalar, paper_points
from tausearch.api import SearchRequest, plan_search
from tausearch.runs import (
    Constraint,
    KnownPoint,
    Record,
    Reevaluate,
    ReevaluationSpec,
    SearchSpec,
    Storage,
    TrialSummary,
    read_spec,
)
from tausearch.runs.creation import Plan, make_run_directory
from tausearch.studies import OptunaSearcher, grid_size, known_points, space_of, warm_start_lines
from tausearch.studies.best_file import make_best_file
from tausearch.studies.grid import grid_points
from tausearch.studies.searchers import points_to_evaluate
from tausearch.studies.spaces import defaults
from tausearch.studies.warm_start import _nearest
from tests.support.runs.trials import FIXED, final_spec, make_trial
from trainables.errors import InputError

POINTS = ({"alpha": 3.0, "lr": 0.05}, {"alpha": 0.2, "lr": 0.002})
KNOWN = tuple(KnownPoint(origin=f"origin {k}", point=point) for k, point in enumerate(POINTS))  # type: ignore[arg-type]


def values(source: OptunaSearcher) -> list[dict[str, Scalar]]:
    """All points of a search, one trial at a time; the last ones are best."""
    points = []
    while (suggestion := source.next()) is not None:
        points.append(suggestion[1])
        source.finish(suggestion[0], "complete", 50.0 + suggestion[0])
    return points


def made(storage: Storage, spec: SearchSpec, trials: list[TrialSummary]) -> SearchSpec:
    """A search with a record."""
    spec, directory = make_run_directory(spec, storage)
    record = Record(directory.record, tasks=spec.steps)
    for trial in trials:
        record.write(trial)
    return spec


def bound(forgetting: float) -> Constraint:
    return Constraint(metric="val/forgetting", relation="<=", bound=forgetting)


def planned(storage: Storage, *sources: Any, benchmark: str = "letters", **more: Any) -> SearchSpec:
    request = SearchRequest(benchmark, "ita-lora", warm_start=sources, storage=storage.root, **more)
    return plan_search(request).spec


@pytest.mark.parametrize("algorithm", ["tpe", "gp", "random"])
def test_known_points_come_after_the_start_and_before_the_algorithm(spec: SearchSpec, algorithm: str) -> None:
    spec = spec.model_copy(update={"algorithm": algorithm, "warm_start": KNOWN, "trials": 10})
    first, second = (values(OptunaSearcher(spec)) for _ in range(2))
    assert first == second and first[:3] == [spec.start, *POINTS] and len(first) == 10
    assert first[3] not in first[:3]


def test_a_grid_gains_what_it_has_not(spec: SearchSpec) -> None:
    inside = {"alpha": 2.0, "lr": 0.02}
    known = (KnownPoint(origin="grid", point=inside), *KNOWN)
    spec = spec.model_copy(update={"algorithm": "grid", "warm_start": known, "trials": 8})
    points = values(OptunaSearcher(spec))
    assert points[:4] == [spec.start, inside, *POINTS] and grid_size(spec.space, known) == len(points) == 8
    assert all(point in points for point in grid_points(spec.space))


@pytest.mark.parametrize("seed", range(6))
def test_a_grid_goes_on_with_values_that_start_and_warm_start_have_not(spec: SearchSpec, seed: int) -> None:
    known = (KnownPoint(origin="grid", point={"alpha": 0.5, "lr": 0.02}),)
    changes = {"algorithm": "grid", "warm_start": known, "trials": 3, "seed": seed}
    start, warm, third = points_to_evaluate(spec.model_copy(update=changes))[:3]
    assert (start["alpha"], warm["alpha"], third["alpha"]) == (1, 0.5, 2)


def test_a_continued_search_tries_those_that_are_left(spec: SearchSpec, tmp_path: Path) -> None:
    spec = spec.model_copy(update={"warm_start": KNOWN, "trials": 5})
    spec, directory = make_run_directory(spec, Storage(tmp_path))
    assert read_spec(directory) == spec
    history = [
        make_trial(0, value=70.0, hyperparameters={**spec.start, **FIXED}),
        make_trial(1, tasks=1, hyperparameters={**POINTS[0], **FIXED}),
    ]
    source = OptunaSearcher(read_spec(directory), history)
    points = [source.next() for _ in range(3)]
    assert points[:2] == [(1, POINTS[0]), (2, POINTS[1])]
    assert points[2] is not None and points[2][1] not in points_to_evaluate(spec)


def test_the_papers_points_are_mapped_and_each_is_there_once(storage: Storage) -> None:
    spec = planned(storage, "paper")
    paper = paper_points("ita-lora")
    searched = {tuple(point[name] for name in spec.space) for point in paper.values()}
    points = [tuple(known.point.values()) for known in spec.warm_start]
    assert len(paper) == 7 and set(points) == searched and len(points) == len(searched) == 4
    first = spec.warm_start[0]
    assert first.origin == "the paper on imagenet_r"
    assert first.misfits == ("lr_pre was 0.01, fixed at 0.03 here", "epochs_pre was 3, fixed at 8 here")
    assert spec.trials == 12
    assert planned(storage, "paper", algorithm="grid").trials == 4 * 3 * 2 * 3 + 3  # that of caltech256 is in the grid


def test_what_belongs_to_the_papers_choice_is_said_too(storage: Storage) -> None:
    known = plan_search(SearchRequest("digits", "finetune", warm_start=["paper"], storage=storage.root)).spec.warm_start
    assert [each.point for each in known] == [{"lr": 0.03}, {"lr": 0.01}]
    assert known[0].misfits == ("optimizer was sgd, fixed at adamw here",)


def test_the_start_is_not_tried_twice_and_a_point_that_the_method_refuses_names_its_source(storage: Storage) -> None:
    space = space_of("ita-lora", "cub200", None, {})
    tried: list[dict[str, Scalar]] = []
    known = known_points(["paper"], space, storage, tried.append)
    assert tried == [{**space.fixed, **each.point} for each in known]
    assert space.start["alpha"] == 5 and space.start not in [each.point for each in known]
    assert space.start in [each.point for each in known_points(["paper"], space, storage, print, grid=True)]

    def refuse(hyperparameters: dict[str, Scalar]) -> None:
        raise InputError("too large")

    with pytest.raises(InputError, match="--warm-start paper: too large"):
        known_points(["paper"], space, storage, refuse)


def test_what_does_not_fit_is_said(storage: Storage, tmp_path: Path) -> None:
    narrow = tmp_path / "narrow.yaml"
    narrow.write_text("space: {alpha: {low: 1, high: 3, log: true, grid: [2]}}\nfixed: {default: {alpha_cls: 0.1}}\n")
    spec = planned(storage, "paper", space=narrow)
    assert {known.point["alpha"] for known in spec.warm_start} == {1.0, 3.0}
    assert "alpha was 0.02, 1.0 here" in spec.warm_start[0].misfits
    for changes, tried in (({"trials": 2}, 1), ({"trials": 2, "algorithm": "grid", "start": {"alpha": 1.5}}, 2)):
        few = spec.model_copy(update=changes)
        lines = list(warm_start_lines(few, points_to_evaluate(few)))
        assert lines[0] == f"warm start: the paper on imagenet_r; {'; '.join(spec.warm_start[0].misfits)}"
        assert lines[0].count("; ") > 1
        assert ["not among the 2 trials" in line for line in lines] == [n >= tried for n in range(len(lines))]


def test_searches_take_turns_in_the_order_of_their_own_ranks(spec: SearchSpec, storage: Storage) -> None:
    def trials(first: float, *values: float | None) -> list[TrialSummary]:
        return [
            make_trial(n, value=value, hyperparameters={"alpha": first + n, "lr": 0.01, **FIXED})
            for n, value in enumerate(values)
        ]

    found = trials(10, 50.0, None, 70.0, 60.0, 40.0, 95.0)
    found[5].rows[-1]["val/forgetting"] = 9.0  # the best one breaks the constraint
    made(storage, spec.model_copy(update={"name": "a", "constraints": (bound(5.0),)}), found)
    made(storage, spec.model_copy(update={"name": "b", "benchmark": "glyphs"}), trials(20, 90.0, 80.0))
    known = planned(storage, "a", "b").warm_start
    assert [each.point["alpha"] for each in known] == [12, 20, 13, 21, 10]
    assert known[0].origin == "a, trial 2 on digits" and known[1].origin == "b, trial 0 on glyphs"
    assert "alpha_cls was" not in "".join(known[0].misfits) and "alpha was" not in "".join(known[0].misfits)
    assert "lr_pre was 0.1, fixed at 0.03 here" in known[0].misfits
    assert "epochs_pre is not given" not in "".join(known[0].misfits)  # it is not searched


def test_the_choice_of_a_reevaluation_comes_first_though_others_were_luckier(
    spec: SearchSpec, storage: Storage
) -> None:
    trials = [make_trial(number, value=90.0 - number) for number in range(4)]
    asked = Reevaluate(best=4, runs=1)
    spec = made(storage, spec.model_copy(update={"name": "a", "reevaluate": asked}), trials)
    again, record = ReevaluationSpec.of(spec), Record(storage.run("a").reevaluation.record, tasks=spec.steps)
    for trial in trials:
        number = again.number(trial.number, 0)
        fresh = make_trial(number, value=70.0 + trial.number, hyperparameters=trial.hyperparameters)
        record.write(replace(fresh, seed=again.seed_of(number)))
    known = planned(storage, "a").warm_start
    assert [each.origin for each in known] == [f"a, trial {number} on digits" for number in (3, 0, 1)]


def test_what_two_sources_choose_is_tried_once_and_named_after_the_first(spec: SearchSpec, storage: Storage) -> None:
    for name in ("b", "a"):
        made(storage, spec.model_copy(update={"name": name}), [make_trial(0, value=70.0)])
    (known,) = planned(storage, "b", "a").warm_start
    assert known.origin == "b, trial 0 on digits"


def test_a_value_that_a_search_had_not_is_that_of_the_start(spec: SearchSpec, storage: Storage, tmp_path: Path) -> None:
    made(storage, spec.model_copy(update={"name": "a"}), [make_trial(0, value=70.0)])
    own = tmp_path / "own.yaml"
    own.write_text(
        "space: {epochs_pre: {low: 1, high: 9, integer: true, grid: [8]}}\nstart: {default: {epochs_pre: 5}}\n"
    )
    (known,) = planned(storage, "a", space=own).warm_start
    assert known.point["epochs_pre"] == 5 and "epochs_pre is not given, 5 here" in known.misfits


@pytest.mark.parametrize(
    ("choices", "had", "found"),
    [((4, 8, 16), 32, 16), ((4, 8, 16), 8, 8), ((4, 8, 16), "all", 4), ((4, "all"), 32, 4), ((4, "all"), "all", "all")],
)
def test_a_number_that_is_no_choice_becomes_the_nearest(
    choices: tuple[Scalar, ...], had: Scalar, found: Scalar
) -> None:
    assert _nearest(Choices(choices=choices), had, 4) == found


@pytest.mark.parametrize("benchmark", ["letters", "letters,digits"])
def test_the_same_command_goes_on_with_its_points_whatever_has_become_of_their_source(
    benchmark: str, spec: SearchSpec, storage: Storage, tmp_path: Path
) -> None:
    trials = [make_trial(n, value=60.0 + n, hyperparameters={**FIXED, "alpha": 2.0 + n, "lr": 0.01}) for n in range(5)]
    source = made(storage, spec.model_copy(update={"name": "source"}), trials[:4])

    def plan(*sources: str) -> Plan[SearchSpec]:
        known = {"warm_start": sources, "name": "warm", "resume_if_exists": True, "trials": 6}
        return plan_search(SearchRequest(benchmark, "ita-lora", storage=storage.root, **known))  # type: ignore[arg-type]

    with plan("source", "paper").open_locked() as (first, _):
        assert first.warm_start[-1].origin.startswith("the paper on ")
    Record(storage.run("source").record, tasks=source.steps).write(trials[4])  # now another one is its best
    assert plan("source", "paper").continued().warm_start == first.warm_start
    storage.run("source").path.rename(tmp_path / "gone")
    assert plan("source", "paper").continued().warm_start == first.warm_start
    with pytest.raises(InputError, match="no run named 'source'"):
        plan("paper", "source")  # another order is another warm start
    with pytest.raises(
        InputError, match=r"'warm' was started otherwise: warm_start was source, trial 3 on .*, is now "
    ):
        plan("paper").continued()


def test_a_search_on_benchmarks_with_starts_of_their_own_goes_on_with_its_points(
    storage: Storage, tmp_path: Path
) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("start: {default: {alpha: 2}, digits: {alpha: 3}}\n")
    known = {"warm_start": ["paper"], "name": "warm", "resume_if_exists": True, "space": own, "trials": 9}
    request = SearchRequest("letters,digits", "ita-lora", storage=storage.root, **known)  # type: ignore[arg-type]
    with plan_search(request).open_locked() as (first, _):
        assert [each.point["alpha"] for each in first.warm_start if "start" in each.origin] == [3]
    assert plan_search(request).continued().warm_start == first.warm_start


def test_a_warm_start_of_another_space_is_not_kept_and_the_difference_is_said(storage: Storage) -> None:
    request = SearchRequest("digits", "tmc", storage=storage.root, warm_start=["paper"], name="x", set={"kappa": 15.0})
    with plan_search(request).open_locked():
        pass
    with pytest.raises(InputError, match=r"^run 'x' was started otherwise: .*kappa"):
        plan_search(replace(request, set=None, resume_if_exists=True)).continued()


def test_a_best_file_may_have_moved_between_two_starts(spec: SearchSpec, storage: Storage, tmp_path: Path) -> None:
    for name in ("one.yaml", "other.yaml"):
        make_best_file(spec, make_trial(3, value=70.0), 1).save(tmp_path / name)

    def plan(name: str) -> Plan[SearchSpec]:
        known = {"warm_start": [tmp_path / name], "name": "warm", "resume_if_exists": True}
        return plan_search(SearchRequest("letters", "ita-lora", storage=storage.root, **known))  # type: ignore[arg-type]

    with plan("one.yaml").open_locked():
        pass
    assert plan("other.yaml").continued().warm_start[0].origin.startswith(f"{tmp_path}/one.yaml")


def test_a_search_may_be_called_as_a_file_and_a_file_that_is_there_goes_first(
    spec: SearchSpec, storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(storage, spec.model_copy(update={"name": "x.yaml"}), [make_trial(0, value=70.0)])
    monkeypatch.chdir(tmp_path)
    origins = [planned(storage, "x.yaml").warm_start[0].origin]
    make_best_file(spec, make_trial(0, value=70.0), 1).save(tmp_path / "x.yaml")
    origins += [planned(storage, "x.yaml").warm_start[0].origin]
    assert origins == ["x.yaml, trial 0 on digits", "x.yaml (digits-ita-lora-1 on digits)"]


def test_a_source_that_is_given_twice_is_refused(storage: Storage) -> None:
    space = space_of("ita-lora", "digits", None, {})
    with pytest.raises(InputError, match="--warm-start a.yml: is given twice"):
        known_points([Path("a.yml"), "a.yml"], space, storage, print)


def test_defaults_are_those_that_the_space_leaves_out() -> None:
    space = space_of("ita-lora", "digits", None, {"formulation": "official"})
    found = defaults(space)
    assert found["regularise"] == "all" and not found.keys() & {*space.space, *space.fixed}
    assert "formulation" in space.fixed and "lr" in space.space


def test_a_set_value_is_not_blamed_for_the_file_beside_it(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("fixed: {default: {epochs_pre: -1}}\n")
    with pytest.raises(InputError, match=r"^\S*own.yaml: .*epochs_pre"):
        space_of("ita-lora", "digits", own, {"alpha": 1.0})
    with pytest.raises(InputError, match="^--set alpha=-1.0: .*alpha"):
        space_of("ita-lora", "digits", own, {"alpha": -1.0})


@pytest.mark.parametrize("start", ["", "start: {default: {formulation: paper}}\n"])
def test_a_choice_that_the_method_does_not_know_is_named_before_the_start(start: str, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(start + "space: {formulation: {choices: [other, official]}}\n")
    with pytest.raises(InputError, match=r"own.yaml: .*'formulation': .*got 'other'"):
        space_of("ita-lora", "digits", tmp_path / "own.yaml", {})


def test_a_best_file_gives_its_configuration(spec: SearchSpec, storage: Storage, tmp_path: Path) -> None:
    point = {"alpha": 7.0, "alpha_cls": 0.2, "alpha_cls_prior": 0.01}
    hyperparameters = {**point, "lr": 1.0, "regularise": "none", "fisher_passes": "all"}
    best = make_best_file(spec, make_trial(3, value=70.0, hyperparameters=hyperparameters), competitors=4)
    best.save(tmp_path / "best.yaml")
    own = tmp_path / "own.yaml"  # a range has no place for a word
    own.write_text(
        "space: {fisher_passes: {low: 1, high: 9, integer: true, grid: [8]}}\nstart: {default: {fisher_passes: 4}}\n"
    )
    (known,) = planned(storage, tmp_path / "best.yaml", space=own).warm_start
    assert known.point == {**point, "lr": 0.02, "fisher_passes": 4} and "fisher_passes was all, 4 here" in known.misfits
    assert "lr was 1.0, 0.02 here" in known.misfits and "regularise was none, fixed at all here" in known.misfits
    assert known.origin == f"{tmp_path / 'best.yaml'} (digits-ita-lora-1 on digits)"
    with pytest.raises(InputError, match="is of ita-lora, and this search is of finetune"):
        known_points([tmp_path / "best.yaml"], space_of("finetune", "digits", None, {}), storage, print)


@pytest.mark.parametrize(
    ("method", "sources", "message"),
    [
        ("joint", ["paper"], "--warm-start paper: the paper lists no hyperparameters for joint"),
        ("ita-lora", ["nope"], "--warm-start nope: no run named 'nope'"),
        ("ita-lora", ["a/b"], "--warm-start a/b: "),
        ("ita-lora", ["none.yaml"], "--warm-start none.yaml: best file none.yaml: cannot be read"),
        ("ita-lora", [f"{'x' * 300}.yaml"], "--warm-start xxx.*cannot be read .File name too long"),
        ("ita-lora", ["none.yml"], "--warm-start none.yml: best file none.yml: cannot be read"),
        ("finetune", ["there"], "--warm-start there: is of ita-lora, and this search is of finetune"),
        ("ita-lora", ["final"], "--warm-start final: is a final run; allowed: paper, names of searches, best files"),
        ("ita-lora", ["there"], "--warm-start there: has no finished trial"),
        ("ita-lora", ["strict"], "--warm-start strict: the only finished trial does not keep val/forgetting <= 0;"),
    ],
)
def test_a_source_that_gives_nothing_is_named(
    method: str, sources: list[str], message: str, spec: SearchSpec, storage: Storage
) -> None:
    made(storage, spec.model_copy(update={"name": "there"}), [make_trial(0)])
    made(storage, final_spec(spec, name="final"), [])
    made(storage, spec.model_copy(update={"name": "strict", "constraints": (bound(0.0),)}), [make_trial(0, value=70.0)])
    with pytest.raises(InputError, match=message) as caught:
        plan_search(SearchRequest("digits", method, warm_start=sources, storage=storage.root))
    assert "\n" not in str(caught.value)


def test_there_must_be_something_to_start(storage: Storage) -> None:
    with pytest.raises(InputError, match="--warm-start paper: every hyperparameter is fixed"):
        plan_search(SearchRequest("digits", "finetune", set={"lr": 0.1}, warm_start=["paper"], storage=storage.root))
