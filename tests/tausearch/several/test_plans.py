"""The plan of a search on several benchmarks: what holds for all, what is refused, and what its files say."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tausearch.api import ResumeRequest, SearchRequest, continuation, plan_search, preview_search, resume_with
from tausearch.api.plans.final_runs import plan_training
from tausearch.api.requests import TrainRequest
from tausearch.cli.output import show_preview, show_search, show_status, show_statuses, status_as_dict
from tausearch.reports import cells_of
from tausearch.reports.html.page import _overview
from tausearch.reports.html.views import ReportCell, read_cell
from tausearch.runs import (
    DataFacts,
    KnownPoint,
    MultiSearchSpec,
    Record,
    Reevaluate,
    StopRule,
    Storage,
    beside_bounds,
    changed_fields,
    read_spec,
    read_status,
    titles_of,
)
from tausearch.runs.creation import Plan, make_run_directory
from tausearch.studies import best_of_all, load_best, unsearched_best_file, write_best
from tausearch.studies.parts.merging import merged
from tests.support.runs.final_runs import make_final_run
from tests.support.runs.trials import FIXED, make_trial, search_spec
from tests.tausearch.cli.ended import result_of
from tests.tausearch.several.made import accuracy, part, parts, several_search, several_spec
from trainables.data import split_references
from trainables.errors import InputError

BOTH = "digits,letters"


def planned(tmp_path: Path, benchmark: str = BOTH, **options: object) -> MultiSearchSpec:
    asked = {"epochs": 1, "trials": 4, "storage": tmp_path, **options}
    spec = plan_search(SearchRequest(benchmark, "ita-lora", **asked)).spec  # type: ignore[arg-type]
    assert isinstance(spec, MultiSearchSpec)
    return spec


def test_options_hold_for_all_and_each_benchmark_keeps_its_protocol(tmp_path: Path) -> None:
    spec = planned(tmp_path, "digits,letters?epochs=2", epochs=None, scheduler="asha")
    assert {name: (part.steps, part.protocol.epochs) for name, part in spec.parts.items()} == {
        "digits": (5, 5),
        "letters?epochs=2": (10, 2),
    }
    assert (spec.name, spec.steps, spec.titles) == ("digits-letters-epochs-2-ita-lora-1", 2, ("digits", "letters"))
    assert (spec.across, spec.trials, spec.scheduler) == ("normalised", 4, "asha")
    assert spec.value_labels.metric == "val/normalised"
    config = parts(spec).trial_config(3, {"alpha": 1.0}, cache=None)
    assert (config.trial, config.benchmark, config.seed, config.split_seed) == (3, "letters?epochs=2", 0, 0)
    images = spec.images["letters?epochs=2"]
    assert config.images == (images.train, images.evaluation) and spec.images["digits"].counts != config.images
    assert {part.protocol.epochs for part in planned(tmp_path).parts.values()} == {1}
    moved = {name: each.model_copy(update={"data_root": f"/{name[0]}"}) for name, each in spec.parts.items()}
    elsewhere = parts(spec.model_copy(update={"parts": moved, "data_root": "/d"}))
    assert [elsewhere.trial_config(number, {}, cache=None).data_root for number in (2, 3)] == ["/d", "/l"]
    ordered = planned(tmp_path, class_order=3)
    assert list(ordered.parts) == ["digits?class_order=3&epochs=1", "letters?class_order=3&epochs=1"]
    assert list(planned(tmp_path, class_order="label", epochs=None).parts) == ["digits", "letters"]
    both = planned(tmp_path, "digits?epochs=2,letters", epochs=2)
    assert both.name == "digits-epochs-2-letters-epochs-2-ita-lora-1", "its name says what is trained"


@pytest.mark.parametrize(
    ("benchmark", "options", "said"),
    [
        ("digits?epochs=3,letters", {"epochs": 2}, "--epochs 2: benchmark 'digits?epochs=3' has epochs=3"),
        ("digits,letters?class_order=3", {"class_order": "label"}, "--class-order label: .* has class_order=3"),
    ],
)
def test_an_option_is_refused_if_the_name_of_one_benchmark_has_another_value(
    tmp_path: Path, benchmark: str, options: dict[str, object], said: str
) -> None:
    with pytest.raises(InputError, match=f"^{said.replace('?', '[?]')}; give it once$"):
        planned(tmp_path, benchmark, **{"epochs": None, **options})


def test_a_mean_accuracy_moves_by_one_image_of_the_benchmark_where_it_weighs_most(tmp_path: Path) -> None:
    steps = [data.accuracy_resolution for data in planned(tmp_path).images.values()]
    assert len(set(steps)) == 2
    found = {across: planned(tmp_path, across=across).accuracy_resolution for across in ("mean", "rank", "normalised")}
    assert found == {"mean": pytest.approx(max(steps) / 2), "rank": 0.0, "normalised": 0.0}


@pytest.mark.parametrize("across", ["normalised", "rank"])
def test_a_search_whose_values_move_cannot_be_continued_until_one_is_reached(across: str, tmp_path: Path) -> None:
    spec, _ = make_run_directory(planned(tmp_path, across=across), Storage(tmp_path))
    for asked in ({"patience": 1}, {"target": 90.0}, {"trials": 6, "target": 90.0}):
        with pytest.raises(InputError, match="--patience, --target: with several benchmarks, go with --across mean"):
            resume_with(ResumeRequest(spec.name, storage=tmp_path, **asked))


def test_a_search_whose_values_are_means_gets_another_end(tmp_path: Path) -> None:
    ended = continuation._ending(planned(tmp_path, across="mean"), ResumeRequest("s", target=90.0))
    assert ended.stop == StopRule(target=90.0)


def test_a_search_does_not_go_on_with_other_images_on_one_of_its_benchmarks(tmp_path: Path) -> None:
    spec, directory = make_run_directory(planned(tmp_path, epochs=None), Storage(tmp_path))
    letters = spec.parts["letters"]
    assert letters.data is not None
    data = letters.data.model_copy(update={"train": letters.data.train + 1})
    parts = {**spec.parts, "letters": letters.model_copy(update={"data": data})}
    spec.model_copy(update={"parts": parts}).save(directory)
    now = f"parts.letters.data.train was {data.train} images, is now {letters.data.train}"
    with pytest.raises(InputError, match=f"^run '{spec.name}': {now}; bring back the images .*, or make a new run$"):
        resume_with(ResumeRequest(spec.name, storage=tmp_path))
    with pytest.raises(InputError, match=f"^run '{spec.name}': {now}; bring back"):
        planned(tmp_path, epochs=None, name=spec.name, resume_if_exists=True)


@pytest.mark.parametrize("place", [0, 1])
def test_folders_that_an_earlier_version_named_with_two_slashes_are_the_same(tmp_path: Path, place: int) -> None:
    spec = planned(tmp_path)
    replaced = list(spec.parts)[place]

    def named(slashes: str, **changes: Any) -> MultiSearchSpec:
        names = {name: f"folder:{slashes}a/b" if name == replaced else name for name in spec.parts}
        parts = {names[name]: each.model_copy(update=changes) for name, each in spec.parts.items()}
        return spec.model_copy(update={"benchmark": ",".join(parts), "parts": parts})

    older, now = named("//"), named("/")
    assert changed_fields(older, now) == []
    steps = spec.parts[replaced].steps
    assert f"parts.folder:/a/b.steps was {steps}, is now 9" in changed_fields(older, named("/", steps=9))
    assert [*older.images] == [*now.images]
    assert unsearched_best_file(older).is_on("folder:/a/b")


def test_data_that_has_moved_is_found_on_each_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(benchmark: str, root: str) -> SimpleNamespace:  # digits are part of the package
        return SimpleNamespace(data_root=None if benchmark == "digits" else root)

    monkeypatch.setattr(continuation, "open_benchmark", opened)
    moved = continuation._moved(planned(tmp_path, epochs=None), "/there")
    assert isinstance(moved, MultiSearchSpec)
    assert {name: part.data_root for name, part in moved.parts.items()} == {"digits": None, "letters": "/there"}
    assert [root for _, _, root, _, _ in continuation._protocols(moved)] == [None, "/there"]
    assert moved.data_root is None  # that of the first


def lying(root: str, digest: str) -> MultiSearchSpec:
    """A search whose two benchmarks have their images in a folder."""
    spec, data = several_spec(), DataFacts(digest=digest * 8, train=90, evaluation=10)
    parts = {name: part.model_copy(update={"data": data}) for name, part in spec.parts.items()}
    spec = spec.model_copy(update={"parts": parts, "data_root": root})
    return spec.model_copy(update={"parts": spec.parts_at(dict.fromkeys(parts, root))})


def test_the_same_search_goes_on_with_a_copy_of_its_images_in_another_folder(tmp_path: Path) -> None:
    """As on one benchmark; with other images it does not."""
    storage = Storage(tmp_path)
    make_run_directory(lying("/here", "a"), storage)
    again = Plan(lying("/there", "b"), storage, named=True, resume_if_exists=True).continued()
    assert [again.data_root, *(part.data_root for part in again.parts.values())] == ["/there"] * 3
    assert all(part.data is not None and part.data.digest == "a" * 8 for part in again.parts.values())
    fewer = lying("/there", "b")
    part = fewer.parts["glyphs"]
    fewer.parts["glyphs"] = part.model_copy(update={"data": part.data and part.data.model_copy(update={"train": 89})})
    with pytest.raises(InputError, match="parts.glyphs.data.train was 90, is now 89"):
        Plan(fewer, storage, named=True, resume_if_exists=True).continued()


def test_a_score_over_several_benchmarks_stands_beside_no_bounds(tmp_path: Path) -> None:
    spec, storage, directory = several_search(tmp_path, trials=1)
    for place in range(2):
        Record(directory.record).write(part(spec, 0, place, 50.0))
    found = read_status(directory)
    assert found.best is not None and beside_bounds(found, storage) is None


def test_a_longer_search_counts_from_its_next_trial_and_not_from_its_next_part(tmp_path: Path) -> None:
    spec, _, directory = several_search(tmp_path, across="mean", stop=StopRule(patience=3))
    for trial in range(2):
        for place in range(2):
            Record(directory.record).write(part(spec, trial, place, 50.0))
    longer = continuation._extended(spec, directory, 8)
    assert (longer.trials, longer.stop.since) == (8, 2)


@pytest.mark.parametrize(
    ("benchmark", "options", "faults"),
    [
        (
            "digits,letters,digits",
            {"across": "max", "task": ["a,b"], "with_bounds": True, "patience": 3},
            [
                "unknown --across 'max'; allowed: normalised, rank, mean",
                "benchmark 'digits': is given twice",
                "--task: is about one benchmark; with several, write it into its name: NAME?task=...",
                "--patience, --target: with several benchmarks, go with --across mean; other values move",
                "--with-bounds: with several benchmarks, give it to the final run on each",
            ],
        ),
        (
            "digits?epochs=1&tasks=2,digits?tasks=2&epochs=1",
            {},
            ["benchmark 'digits?tasks=2&epochs=1': is given twice"],
        ),
        (BOTH, {"algorithm": "gp", "scheduler": "asha"}, ["--scheduler asha: gp learns nothing from trials that were"]),
        (BOTH, {"target": 90.0}, ["--patience, --target: with several benchmarks, go with --across mean;"]),
        (BOTH, {"prefer": "knee"}, ["--objective, --prefer: with several benchmarks, trials are judged by their"]),
        (BOTH, {"tasks": 9}, ["benchmark 'digits': --tasks makes 9 tasks of 10 classes"]),
        ("digits,wrong,letters", {}, ["unknown benchmark 'wrong'"]),
        ("digits", {"across": "rank"}, ["--across rank: goes with several benchmarks, such as digits,glyphs"]),
    ],
)
def test_what_cannot_be_is_said_at_once(
    benchmark: str, options: dict[str, object], faults: list[str], tmp_path: Path
) -> None:
    with pytest.raises(InputError) as error:
        planned(tmp_path, benchmark, **options)
    said = str(error.value).splitlines()
    assert len(said) == len(faults) and all(a.startswith(b) for a, b in zip(said, faults, strict=True)), said
    assert not list(tmp_path.iterdir())


def test_the_dry_run_names_the_tasks_of_each_benchmark_and_what_becomes_of_the_accuracies(tmp_path: Path) -> None:
    told = str(preview_search("letters,digits?task=low=0,1&task=2,3", "ita-lora", across="rank", storage=tmp_path))
    lines = told.splitlines()
    letters, digits = [line.partition(": ") for line in lines if line.startswith("tasks of ")]
    assert digits[2] == "1: low (0, 1); 2: 2, 3" and digits[0].startswith("tasks of digits")
    assert letters[0] == "tasks of letters" and letters[2].startswith("1: Φ, Ψ") and letters[2].count("; ") == 9
    assert "across benchmarks: rank % (--across rank)" in lines


def test_the_dry_run_has_the_data_of_each_benchmark(tmp_path: Path) -> None:
    preview = preview_search("letters,digits?epochs=2", "ita-lora", trials=2, storage=tmp_path)
    told = preview.as_dict()
    images = told["benchmarks"]["letters"]["evaluation_images"]
    assert f", {images} for validation, one of which is up to {100 / images:.2g} points" in str(preview)
    found = {name: (data["epochs"], len(data["steps_per_epoch"])) for name, data in told["benchmarks"].items()}
    assert found == {"letters": (5, 10), "digits?epochs=2": (2, 5)} and "epochs" not in told


def test_the_dry_run_counts_parts_and_not_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_preview(preview_search("letters,digits?epochs=2", "ita-lora", trials=2, reevaluate=0, storage=tmp_path))
    assert "2 trials of 2 benchmarks each, 4 parts to train" in " ".join(capsys.readouterr().out.split())


def test_the_specification_is_read_as_it_was_written(tmp_path: Path) -> None:
    spec, _, directory = several_search(tmp_path)
    assert read_spec(directory).model_dump() == spec.model_dump()  # without the names of tasks
    one = search_spec()
    assert not {"parts", "across"} & set(one.model_dump(mode="json"))


def test_status_and_best_file_know_every_benchmark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, storage, directory = several_search(tmp_path, trials=2)
    for trial in range(2):
        for place in range(2):
            value = accuracy(parts(spec), parts(spec).number(trial, place), {"alpha": 1.0 + trial})
            Record(directory.record).write(part(spec, trial, place, value))
    found = read_status(directory)
    plain = json.loads(json.dumps(status_as_dict(found, None, None)))
    assert plain["best"]["value"] == 100.0 and plain["trials"][1]["accuracies"] == [95.0, 50.0]
    assert [each["title"] for each in plain["left_out"]] == ["digits", "glyphs"]
    show_status(found)
    out = capsys.readouterr().out
    assert "0.00 normalised (trial 0), chosen 100.00 normalised, +100.00 normalised" in out
    assert "chosen on the others" in out
    cell = read_cell(ReportCell(spec.benchmark, spec.method, directory, None, "done"))
    assert cell.search is not None and (cell.search.score, cell.search.unit) == ("100.00", "normalised")
    assert _overview([cell]).texts[0][2] == "100.00 normalised"  # in a column of percentages
    show_statuses([found])
    assert "100.00 normalised" in capsys.readouterr().out


def test_fresh_runs_have_the_unit_of_the_score(tmp_path: Path) -> None:
    spec, _, directory = several_search(tmp_path, trials=2, reevaluate=Reevaluate(best=1, runs=1))
    for trial in range(2):
        for place in range(2):
            Record(directory.record).write(part(spec, trial, place, 80.0 + trial))
    found = read_status(directory).reevaluation
    assert found is not None and (found.unit, found.difference) == ("normalised", "normalised")


def test_the_start_on_another_benchmark_is_tried_once() -> None:
    starts = {"digits": 1.0, "glyphs": 2.0, "letters": 2.0, "characters": 1.0}
    points = [{**search_spec().start, "alpha": alpha} for alpha in starts.values()]
    each = [search_spec().model_copy(update={"benchmark": n, "start": p}) for n, p in zip(starts, points, strict=True)]
    own = KnownPoint(origin="mine", point={**points[0], "alpha": 3.0})  # a short search may not come to it
    each[0] = each[0].model_copy(update={"warm_start": (own,)})
    assert [(known.origin, known.point) for known in merged(each, None).warm_start] == [
        ("the start on glyphs", points[1]),
        ("mine", own.point),
    ]
    roots = [None, "/b", None, "/d"]  # the first that is known
    rooted = [spec.model_copy(update={"data_root": root}) for spec, root in zip(each, roots, strict=True)]
    assert merged(rooted, None).data_root == "/b"


PROTOCOL, SPACE = search_spec().protocol, search_spec().space


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"fixed": {**FIXED, "rank": 4}}, "rank is fixed at 4 on "),
        ({"space": {**SPACE, "rank": SPACE["lr"]}}, "rank has different ranges "),
        ({"space": {"alpha": SPACE["alpha"]}, "fixed": {**FIXED, "lr": 0.1}}, "lr is fixed at 0.1 on "),
        ({"protocol": PROTOCOL.model_copy(update={"precision": "bf16"})}, "precision is "),
        ({"protocol": PROTOCOL.model_copy(update={"initial_head": "names.pt"})}, "initial_head is "),
        ({"protocol": PROTOCOL.model_copy(update={"weights_digest": "1" * 64})}, "weights_digest is "),
        ({"protocol": PROTOCOL.model_copy(update={"backbone": "b", "weights_digest": "1" * 64})}, "backbone is "),
    ],
)
def test_a_difference_is_said_once_whichever_benchmark_has_it(
    changes: dict[str, object], fault: str, place: int
) -> None:
    specs = [search_spec().model_copy(update={"benchmark": name}) for name in ("digits", "glyphs", "letters")]
    specs[place] = specs[place].model_copy(update=changes)
    with pytest.raises(InputError) as error:
        merged(specs, None)
    said = str(error.value).splitlines()
    assert len(said) == (2 if place == 0 else 1) and all(line.startswith(fault) for line in said), said
    assert not any("fixed at None" in line for line in said), said


def test_what_has_no_effect_may_differ() -> None:
    specs = [
        search_spec().model_copy(update={"benchmark": name, "fixed": {**FIXED, "regularise": "head", "alpha": alpha}})
        for name, alpha in (("digits", 1.0), ("glyphs", 2.0))
    ]
    assert merged(specs, None).fixed == specs[0].fixed


def test_what_benchmarks_do_not_share_is_said_of_each_or_of_none() -> None:
    lines = {"digits": ("a",), "glyphs": ("b", "c")}
    specs = [search_spec().model_copy(update={"benchmark": name, "left_out": found}) for name, found in lines.items()]
    specs[0] = specs[0].model_copy(update={"reevaluate": Reevaluate(best=1, runs=1, start=True)})
    found = merged(specs, "rank")
    assert (found.left_out, found.across, found.steps) == (("digits: a", "glyphs: b", "glyphs: c"), "rank", 2)
    assert found.reevaluate is None and merged(specs, None).across == "normalised"


def test_files_of_a_search_on_one_benchmark_have_no_new_key(tmp_path: Path) -> None:
    from tausearch.runs import RunDirectory

    best = write_best(search_spec(), RunDirectory(tmp_path), [make_trial(0, value=90.0)])
    assert best is not None
    content = yaml.safe_load((tmp_path / "best.yaml").read_text(encoding="utf-8"))
    assert "benchmarks" not in content and "accuracies" not in content["selection"]
    assert load_best(tmp_path / "best.yaml") == best and best.on(None) is best


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("digits", ["digits"]),
        ("digits,glyphs", ["digits", "glyphs"]),
        ("digits?epochs=1,glyphs?epochs=2", ["digits?epochs=1", "glyphs?epochs=2"]),
        ("digits?class_order=3,1,0,2,4,5,6,7,8,9", ["digits?class_order=3,1,0,2,4,5,6,7,8,9"]),
        ("digits?task=0,1&task=2,3,glyphs", ["digits?task=0,1&task=2,3,glyphs"]),  # a class may have any name
        ("digits?class_order=3,glyphs", ["digits?class_order=3", "glyphs"]),
        ("digits?class_order=3,letters?class_order=3", ["digits?class_order=3", "letters?class_order=3"]),
        ("digits?epochs=2&class_order=3,glyphs,digits", ["digits?epochs=2&class_order=3", "glyphs", "digits"]),
        ("folder:a?epochs=2,folder:b,c", ["folder:a?epochs=2", "folder:b,c"]),
        (f"folder:{'a' * 300},digits", [f"folder:{'a' * 300}", "digits"]),
        ("folder:~gone/a,digits", ["folder:~gone/a", "digits"]),
        ("mine:birds,digits", ["mine:birds", "digits"]),
    ],
)
def test_commas_separate_benchmarks_and_not_classes(text: str, found: list[str]) -> None:
    assert list(split_references(text)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("folder:a?tasks=2,letters", 2),
        ("folder:a,digits?tasks=2,letters", 2),
        ("folder:a,digits?class_order=x,letters", 1),
        ("folder:a,digits", 1),
    ],
)
def test_a_folder_may_have_a_comma(text: str, found: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "a,digits"):
        (tmp_path / name).mkdir()
    assert len(split_references(text)) == found


def test_the_choice_is_trained_on_each_of_its_benchmarks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_search(SearchRequest("digits,letters?epochs=1", "ita-lora", trials=1, storage=tmp_path, name="both"))
    spec = plan.spec
    assert isinstance(spec, MultiSearchSpec)
    with plan.open_locked() as (_, directory):
        for place in range(2):
            point = {**spec.start, **spec.fixed}
            Record(directory.record).write(part(spec, 0, place, 80.0, hyperparameters=point))
    best = best_of_all(plan.storage, "digits,letters?epochs=1", "ita-lora", print)
    finals = {name: plan_training(TrainRequest(best, benchmark=name, storage=tmp_path)).spec for name in spec.titles}
    assert {name: final.protocol.epochs for name, final in finals.items()} == {"digits": 5, "letters": 1}
    assert {final.tuned_on for final in finals.values()} == {"digits,letters?epochs=1"}
    found = {"best": best, "best_file": directory.best_file, "reevaluation": None}
    show_search(result_of(directory, list(read_status(directory).trials), **found), spec, "")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("final run")]
    assert [line.split("--benchmark ")[1] for line in lines] == [
        "digits --seeds 0,1,2",
        "'letters?epochs=1' --seeds 0,1,2",
    ]


@pytest.mark.parametrize(("across", "better"), [("mean", "other"), ("normalised", None)])
def test_two_searches_compare_where_their_values_are_accuracies(
    across: str, better: str | None, tmp_path: Path
) -> None:
    for name, value in (("both", 80.0), ("other", 90.0)):
        request = SearchRequest(BOTH, "ita-lora", trials=1, storage=tmp_path, name=name, across=across)
        plan = plan_search(request)
        with plan.open_locked() as (spec, directory):
            assert isinstance(spec, MultiSearchSpec)
            for place in range(2):
                point = {**spec.start, **spec.fixed}
                Record(directory.record).write(part(spec, 0, place, value, hyperparameters=point))
    if better is not None:
        selection = best_of_all(plan.storage, BOTH, "ita-lora", print).selection
        assert selection is not None and selection.search == better
    else:
        with pytest.raises(InputError, match="choose differently: both by normalised, other by normalised"):
            best_of_all(plan.storage, BOTH, "ita-lora", print)


def test_the_report_shows_a_final_run_on_each_benchmark(tmp_path: Path) -> None:
    spec, storage, directory = several_search(tmp_path)
    for name, benchmark in (("old", "glyphs"), ("on-digits", "digits"), ("on-glyphs", "glyphs"), ("other", "letters")):
        final = make_final_run(storage, name, [80.0], benchmark=benchmark)
        final.model_copy(update={"source": spec.name}).save(storage.run(name))
    whole, *finals = cells_of(storage, spec.name)
    assert (whole.search, whole.final, whole.benchmark) == (directory, None, spec.benchmark)
    assert (whole.state, whole.others) == ("search", ())
    assert [(each.benchmark, each.search, each.final) for each in finals] == [
        ("digits", None, storage.run("on-digits")),
        ("glyphs", None, storage.run("on-glyphs")),
    ]
    assert [[other.name for other in each.others] for each in finals] == [[], ["old"]]
    (alone,) = cells_of(storage, "on-glyphs")
    assert (alone.search, alone.final) == (directory, storage.run("on-glyphs"))


def test_a_search_may_have_more_parts_than_a_search_may_have_trials() -> None:
    assert parts(several_spec(trials=60_000)).trials == 120_000


def test_bounds_are_not_promised_for_several_benchmarks(tmp_path: Path) -> None:
    spec, *_ = several_search(tmp_path)
    with pytest.raises(InputError, match="--with-bounds: with several benchmarks, give it to the final run on each"):
        resume_with(ResumeRequest(spec.name, storage=tmp_path, with_bounds=True))


def test_two_folders_of_one_name_have_titles_that_tell_them_apart() -> None:
    two = ["folder:/a/pets?tasks=2", "folder:/b/pets?tasks=2"]
    assert titles_of(two) == tuple(two) and titles_of(["digits", *two])[0] == "digits"


def test_the_command_in_a_best_file_can_be_pasted(tmp_path: Path) -> None:
    spec = plan_search(SearchRequest("digits?tasks=2&epochs=2,letters", "finetune", storage=tmp_path)).spec
    unsearched_best_file(spec).save(tmp_path / "best.yaml")
    assert " --benchmark 'digits?tasks=2&epochs=2' --seeds" in (tmp_path / "best.yaml").read_text()


def test_a_choice_on_two_benchmarks_is_on_each_of_them() -> None:
    best = unsearched_best_file(several_spec())
    assert [best.is_on(name) for name in ("digits", "glyphs", "letters")] == [True, True, False]
    alone = best.on("glyphs")
    assert (alone.benchmark, alone.protocol.tasks) == ("glyphs", 2)
    assert alone.is_on("glyphs") and not alone.is_on("digits") and alone.on(None) is alone


def test_as_many_trials_are_drawn_at_random_as_on_one_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of a trial run side by side, so no more trials are under way."""
    monkeypatch.setattr("tausearch.execution.concurrency.local_cpus", lambda: 64)
    for several in ("digits", "digits,glyphs", "digits,glyphs,letters"):
        assert preview_search(several, "ita-lora", trials=24, storage=tmp_path).random == 10
    one_by_one = preview_search("digits,glyphs", "ita-lora", trials=24, scheduler="asha", storage=tmp_path)
    assert one_by_one.random == 10, "parts of a trial wait for each other, so a part is a trial under way"
