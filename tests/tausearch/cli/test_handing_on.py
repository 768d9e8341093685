"""What each command hands on of its words: to the search, the run, the composition, the replay."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tausearch import reports
from tausearch.api import DriveRequest, FinalResult, SearchResult
from tausearch.cli import completion, launch, output
from tausearch.presentation import command_on
from tausearch.runs import SearchSpec, Storage
from tausearch.runs.creation import make_run_directory
from tausearch.studies.best_file import make_best_file
from tests.support.command_line import Ask
from tests.support.runs.trials import final_spec, make_trial
from trainables.errors import InputError

SEARCH = "search digits ita-lora --dry-run"
SHARED = {"time_budget": 120.0, "callbacks": ["m:A", "m:B"], "progress_to": "stderr"}
ALL = "--time-budget 2m --callback m:A --callback m:B --format json"
# Command to the function that it calls, and what this is given.
HANDED: list[tuple[str, str, dict[str, Any]]] = [
    (
        f"{SEARCH} --sampler-option a=1 --sampler-option b=x --pruner-option c=2 {ALL}",
        "api.preview_search_with",
        {"sampler_options": {"a": 1, "b": "x"}, "pruner_options": {"c": 2}, **SHARED},
    ),
    (
        f"{SEARCH} --gpus-per-trial 1/4 --set lr=0.1 --set alpha=2 --warm-start paper,a --class-order 3",
        "api.preview_search_with",
        {"gpus_per_trial": 0.25, "set": {"lr": 0.1, "alpha": 2}, "warm_start": ["paper", "a"], "class_order": 3},
    ),
    (
        f"train a --dry-run --seeds 4,5 --class-orders 6,7 --set lr=0.1 --gpus-per-trial 1/2 --no-cache {ALL}",
        "api.preview_train_with",
        {
            **{"seeds": [4, 5], "class_orders": [6, 7], "set": {"lr": 0.1}},
            **{"gpus_per_trial": 0.5, "cache_size": 0.0, **SHARED},
        },
    ),
    (f"resume a --gpus-per-trial 1/2 {ALL}", "api.resume_with", {"name": "a", "gpus_per_trial": 0.5, **SHARED}),
    (f"extend a --trials 9 {ALL}", "api.resume_with", {"name": "a", "trials": 9, **SHARED}),
    (
        "compose a b --keep 1,animals --seeds 2,3 --set density=0.3 --set k=2 --forms timm,vectors",
        "api.compose_with",
        {
            **{"runs": ["a", "b"], "keep": [1, "animals"], "drop": None, "weights": None, "seeds": [2, 3]},
            **{"set": {"density": 0.3, "k": 2}, "forms": ["timm", "vectors"]},
        },
    ),
    ("compose a --drop 2 --coefficient negate", "api.compose_with", {"keep": None, "drop": [2]}),
    ("compose a --weights 0.5,-1", "api.compose_with", {"weights": [0.5, -1.0], "forms": None, "seeds": None}),
    ("evaluate a b --seeds 1,2", "api.evaluate_with", {"runs": ["a", "b"], "seeds": [1, 2]}),
    ("figures a --seeds 1,2 --output f", "api.draw_with", {"runs": ["a"], "seeds": [1, 2], "output": Path("f")}),
    (
        "campaign plan t.yaml --data-root d --address auto",
        "campaigns.plan_with_refusals",
        {"file": Path("t.yaml"), "data_root": "d", "storage": "s", "address": "auto"},
    ),
    (f"campaign run t.yaml {ALL}", "campaigns.campaign_with", SHARED),
]


@pytest.fixture(autouse=True)
def looked_up(spec: SearchSpec, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `train` has been asked to train, and where; it finds the same choice for all."""
    asked: list[Any] = []
    best = make_best_file(spec, make_trial(0, value=70.0), 1)
    monkeypatch.setattr("tausearch.cli.launch._best_of", lambda *given: asked.append(given) or best)
    return asked


@pytest.mark.parametrize(("words", "function", "handed"), HANDED)
def test_a_command_hands_on_what_it_is_given(
    words: str,
    function: str,
    handed: dict[str, Any],
    looked_up: list[Any],
    ask: Ask,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: dict[str, Any] = {}

    def asked(request: object) -> None:
        given.update(vars(request))
        raise InputError("enough")

    monkeypatch.setattr(f"tausearch.{function}", asked)
    code, _, err = ask(*words.split(), "--storage", "s")
    assert (code, err.splitlines()[-1]) == (2, "tausearch: enough")
    assert {name: given[name] for name in handed} == handed
    assert looked_up == [(["a"], "s")] * words.startswith("train")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (f"{SEARCH} --sampler-option x", "--sampler-option 'x': must be KEY=VALUE"),
        (f"{SEARCH} --pruner-option x", "--pruner-option 'x': must be KEY=VALUE"),
        ("resume a --gpus-per-trial auto", "--gpus-per-trial must be a number, such as 0, 1, 1/3 or 0.25, got 'auto'"),
        ("compose a --drop ,", "--drop must be tasks"),
        ("train none.yaml --class-orders=", "--class-orders must be whole numbers"),
        ("compose a --seeds=", "--seeds must be whole numbers"),
        ("compose a --weights=", "--weights must be numbers"),
    ],
)
def test_a_refusal_names_the_option_that_was_typed(words: str, said: str, ask: Ask) -> None:
    code, out, err = ask(*words.split(), "--storage", "s")
    assert (code, out) == (2, "") and err.startswith(f"tausearch: {said}")


@pytest.mark.parametrize(("command", "preview"), [("search digits ita-lora", "search"), ("train a", "train")])
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_dry_run_shows_what_would_run(
    command: str, preview: str, form: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SimpleNamespace(as_dict=lambda: {"tasks": 3})
    monkeypatch.setattr(f"tausearch.api.preview_{preview}_with", lambda _: found)
    monkeypatch.setattr("tausearch.cli.output.show_preview", lambda shown: print(shown is found))
    code, out, _ = ask(*command.split(), "--dry-run", "--format", form)
    assert code == 0 and (out == "True\n" if form == "text" else json.loads(out) == {"tasks": 3})


def test_a_replay_is_made_as_it_is_asked_for(tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def replays_of(_: object, name: str, **asked: Any) -> SimpleNamespace:
        given.update(name=name, **asked)
        return SimpleNamespace(as_dict=dict)

    monkeypatch.setattr("tausearch.studies.replays_of", replays_of)
    words = "a --algorithm gp --scheduler asha --trials 7 --seeds 3,4 --format json --storage"
    assert ask("runs", "replay", *words.split(), str(tmp_path))[:2] == (0, "{}\n")
    assert given == {"name": "a", "algorithm": "gp", "scheduler": "asha", "trials": 7, "seeds": [3, 4]}


def test_sync_writes_to_the_trackers_that_are_named_and_tags_the_tables_there(
    tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    monkeypatch.setattr("tausearch.runs.Storage.runs", lambda _: [SimpleNamespace(name=n) for n in "ab"])
    monkeypatch.setattr("tausearch.runs.Storage.run", lambda _, name: SimpleNamespace(name=name))
    monkeypatch.setattr("tausearch.runs.is_driven", lambda _: False)
    monkeypatch.setattr(
        "tausearch.campaigns.all_campaign_statuses", lambda _: (["t", "u"], [InputError("v: is damaged")])
    )

    def sync_run(*asked: Any) -> Any:
        given.append(asked[2:])
        raise InputError("enough" if len(given) == 1 else "run 'b': enough")

    def track_tables(_: object, status: str, uri: str | None) -> None:
        given.append((status, uri))
        raise InputError(f"{status}: no answer")

    monkeypatch.setattr("tausearch.api.sync_run", sync_run)
    monkeypatch.setattr("tausearch.campaigns.track_tables", track_tables)
    words = ["--tracking", "none", "--tracking-uri", "http://me:word@a:1", "--storage", str(tmp_path)]
    code, _, err = ask("runs", "sync", *words)
    said, err = err.split("\n", 1)  # once, not for each run
    assert "is not stored" in said
    assert code == 1 and given == [("http://a:1", "none")] * 2 + [("t", "http://a:1"), ("u", "http://a:1")]
    assert [line.removeprefix("tausearch: ") for line in err.splitlines()] == [
        *("run 'a': enough", "run 'b': enough", "v: is damaged", "t: no answer", "u: no answer")
    ]
    given.clear()
    assert ask("runs", "sync", "a", *words)[0] == 2 and given == [("http://a:1", "none")]  # its tables are left alone


@pytest.mark.parametrize(("statuses", "faults"), [(["t"], []), ([], [InputError("v: is damaged")]), ([], [])])
def test_sync_fails_if_it_cannot_tag_the_tables_of_a_campaign(
    statuses: list[str], faults: list[InputError], tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def track_tables(*_: Any) -> None:
        raise InputError("no answer")

    monkeypatch.setattr("tausearch.campaigns.all_campaign_statuses", lambda _: (statuses, faults))
    monkeypatch.setattr("tausearch.campaigns.track_tables", track_tables)
    assert ask("runs", "sync", "--storage", str(tmp_path))[0] == bool(statuses or faults)


def test_a_renamed_run_is_said_with_those_that_point_to_it_and_what_tells_mlflow(
    spec: SearchSpec, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, tracking in (("b", None), ("f", ("mlflow", "tensorboard")), ("g", None), ("untracked", ())):
        make_run_directory(spec.model_copy(update={"name": name, "tracking": tracking}), Storage(tmp_path))
    for new, pointed, tracked, also in (
        ("b", [], ["b"], ""),
        ("b", ["f", "g", "untracked"], ["b", "f", "g"], ", also as the source of f, g, untracked"),
        ("untracked", [], [], ""),
    ):
        monkeypatch.setattr("tausearch.api.rename_run", lambda *_, found=pointed: found)
        code, out, _ = ask("runs", "rename", "a", new, "--storage", str(tmp_path))
        commands = "; ".join(command_on("runs sync", each, tmp_path) for each in tracked)
        mlflow = f". MLflow learns it from: {commands}" if tracked else ""
        assert (code, out) == (0, f"a is called {new}{also}{mlflow}\n")


def test_sync_of_nothing_is_an_empty_list(tmp_path: Path, ask: Ask) -> None:
    code, out, _ = ask("runs", "sync", "--format", "json", "--storage", str(tmp_path))
    assert code == 0 and json.loads(out) == []


@pytest.mark.parametrize(("words", "shown"), [(["figures", "a"], "shown"), (["figures", "a", "--format", "json"], "")])
def test_figures_name_every_picture_and_what_is_only_in_time(
    words: list[str], shown: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = SimpleNamespace(pictures={"time": Path("t.png"), "risk": Path("r.png")}, left_out=["b", "c"])
    monkeypatch.setattr("tausearch.api.draw_with", lambda _: drawn)
    code, out, _ = ask(*words)
    lines = "time: t.png\nrisk: r.png\nonly in time: b\nonly in time: c\n"
    plain = {"pictures": {"time": "t.png", "risk": "r.png"}, "left_out": ["b", "c"]}
    assert code == 0 and (out == lines if shown else json.loads(out) == plain)


@pytest.mark.parametrize(
    ("command", "function", "shows", "plain"),
    [
        ("compose a", "compose_with", "composed", {"done": "DONE"}),
        ("evaluate a", "evaluate_with", "evaluated", [{"done": "D"}, {"done": "O"}, {"done": "N"}, {"done": "E"}]),
    ],
)
def test_what_is_composed_or_evaluated_is_shown_in_one_form(
    command: str, function: str, shows: str, plain: Any, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"tausearch.api.{function}", lambda _: "DONE")
    monkeypatch.setattr(output, f"show_{shows}", lambda done, storage: print(done, storage))
    monkeypatch.setattr(output, f"{shows}_as_dict", lambda done: {"done": done})
    assert ask(*command.split(), "--storage", "s")[:2] == (0, "DONE  --storage s\n")
    code, out, _ = ask(*command.split(), "--format", "json")
    assert code == 0 and json.loads(out) == plain


@pytest.mark.parametrize(
    ("options", "whole", "done"),
    [
        ([], True, ["estimate", "show"]),
        ([], False, ["estimate", "show", "refuse"]),  # what can be run is shown first
        (["--pilot"], True, ["pilots", "estimate", "show"]),
        (["--pilot"], False, ["refuse"]),  # and nothing is started
    ],
)
def test_a_plan_with_a_wrong_cell_is_shown_and_refused(
    options: list[str], whole: bool, done: list[str], ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    def require_all() -> None:
        if not whole:
            found.append("refuse")
            raise InputError("a cell is wrong")

    planned = SimpleNamespace(require_all=require_all)
    monkeypatch.setattr("tausearch.campaigns.plan_with_refusals", lambda _: planned)
    monkeypatch.setattr("tausearch.campaigns.run_pilots", lambda _: found.append("pilots"))
    monkeypatch.setattr("tausearch.campaigns.estimate", lambda _: found.append("estimate"))
    monkeypatch.setattr(output, "show_plan", lambda *_: found.append("show"))
    assert ask("campaign", "plan", "t.yaml", *options)[0] == (0 if whole else 2) and found == done


def test_a_campaign_names_commands_with_its_storage_folder(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    done = {"signal": None, "out_of_time": False, "failed": {}, "resume_command": ""}
    result = SimpleNamespace(standing=SimpleNamespace(finished=True), **done)
    monkeypatch.setattr("tausearch.campaigns.campaign_with", lambda _: result)
    monkeypatch.setattr("tausearch.campaigns.read_campaign_status", lambda *_: result.standing)
    for command in ("campaign", "campaign_status"):
        monkeypatch.setattr(output, f"show_{command}", lambda shown, root, storage: print(shown.__class__, storage))
    monkeypatch.setattr("tausearch.runs.Storage.campaign", lambda *_: None)
    for words in (["run", "t.yaml"], ["status", "t"]):
        code, out, _ = ask("campaign", *words, "--storage", "s")
        assert code == 0 and out.endswith(" --storage s\n")


def test_campaigns_that_cannot_be_read_are_named_beside_the_others_and_a_report_overwrites_no_run(
    tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tausearch.campaigns.all_campaign_statuses", lambda _: ([], [InputError("v: is damaged")]))
    code, out, err = ask("campaign", "status", "--format", "json", "--storage", str(tmp_path))
    assert (code, json.loads(out), err) == (0, [], "tausearch: v: is damaged\n")
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "run.yaml").touch()
    monkeypatch.setattr("tausearch.campaigns.read_campaign_status", lambda *_: None)
    monkeypatch.setattr("tausearch.campaigns.write_campaign_report", lambda *_: pytest.fail("it is written"))
    page = str(tmp_path / "r" / "run.yaml")
    code, _, err = ask("campaign", "report", "t", "--output", page, "--storage", str(tmp_path))
    assert code == 2 and err.startswith(f"tausearch: --output {page}: lies among the files of the run 'r'")
    (tmp_path / "mine.html").write_text("mine")
    for words in (["campaign", "report", "t"], ["report", "r"]):
        code, _, err = ask(*words, "--output", str(tmp_path / "mine.html"), "--storage", str(tmp_path))
        assert code == 2 and "mine.html: exists and was not written by tausearch" in err


def test_benchmarks_are_listed_from_the_folder_that_is_given(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tausearch.api.dataset_states", lambda root: [f"in {root}"])
    monkeypatch.setattr(output, "show_states", lambda states, root: print(*states, root))
    assert ask("list", "benchmarks", "--data-root", "/d")[:2] == (0, "in /d /d\n")


def test_what_was_prepared_is_said_as_it_was_asked_for(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(name: str, root: str, variant: str, partial: bool, layout: str) -> tuple[SimpleNamespace, bool]:
        counts = {"train": 12, "test": 4}
        return SimpleNamespace(name=name, layout=layout, count=counts.get, prepared="/p"), False

    monkeypatch.setattr("tausearch.api.prepare_dataset", prepare)
    code, out, _ = ask("data", "prepare", "mit67", "--layout", "parquet")
    assert (code, out) == (0, "mit67: parquet; images (per class): train 12, test 4\nwritten to /p\n")


def test_the_shell_is_offered_methods_of_installed_packages_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "installed", lambda kind: ["ita-mine"] if kind == "method" else [])
    assert completion.methods("ita-") == ["ita-fft", "ita-ia3", "ita-lora", "ita-mine"]


@pytest.mark.parametrize("place", ["tausearch.cli.application.main", "tausearch.runs.Storage.read_each"])
def test_an_interrupted_command_ends_with_a_line_and_the_code_of_shells(
    place: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupted)
    assert ask("status") == (130, "", "interrupted\n")


@pytest.mark.parametrize("purpose", ["search", "final"])
def test_what_a_run_says_next_has_its_storage_folder(
    purpose: str, spec: SearchSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = spec if purpose == "search" else final_spec(spec, name="final")
    _, directory = make_run_directory(run, Storage(tmp_path))
    about: dict[str, Any] = {"log_file": directory.log_file, "tracking_uri": "", "tracking_error": None}
    found: Any = (directory.name, directory.path, [make_trial(0, value=70.0)], None, False, True)
    if purpose == "search":
        result: Any = SearchResult(
            *found, **about, best=make_best_file(spec, found[2][0], 1), best_file=None, reevaluation=None
        )
    else:
        result = FinalResult(*found, **about, summary={}, results_file=None)
    monkeypatch.setattr(output, f"show_{purpose}", lambda shown, _, storage: print(shown.name, storage))
    launch._show_result(result, DriveRequest(storage=tmp_path), "text")
    assert capsys.readouterr().out == f"{run.name}  --storage {tmp_path}\n"


@pytest.mark.parametrize(("runs", "campaigns"), [(["r"], ["c"]), ([], ["c"]), ([], [])])
def test_a_status_of_all_names_runs_and_campaigns_that_start_and_what_cannot_be_read(
    runs: list[str], campaigns: list[str], ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tausearch.runs.Storage.read_each", lambda *_: (runs, [InputError("x: is damaged")]))
    monkeypatch.setattr("tausearch.campaigns.starting_campaigns", lambda _: campaigns)
    monkeypatch.setattr(output, "show_statuses", lambda found: print("runs", *found))
    monkeypatch.setattr(output, "show_no_runs", lambda _: print("none"))
    monkeypatch.setattr(output, "show_starting", lambda found: print("start", *found))
    first = ["runs r"] if runs else [] if campaigns else ["none"]
    code, out, err = ask("status")
    assert (code, err) == (0, "tausearch: x: is damaged\n")
    assert [line.strip() for line in out.splitlines()] == [*first, " ".join(["start", *campaigns])]


def test_a_comparison_hands_on_benchmarks_form_picture_and_the_papers_rows(
    tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[Any, ...]] = []
    for function in ("comparison", "transfer", "evaluations", "ablations"):
        monkeypatch.setattr(f"tausearch.reports.show_{function}", lambda *asked: given.append(asked[1:]))
    at = ("--storage", str(tmp_path))
    ask("compare", "digits", "cub200", "--figure", "f.png", "--format", "markdown", "--paper", *at)
    assert given.pop() == (["digits", "cub200"], "markdown", Path("f.png"), reports.ComparisonScope(with_paper=True))
    monkeypatch.chdir(tmp_path)
    ask("compare", "folder:birds", "digits?tasks=2&epochs=1", "digits?epochs=1&tasks=2", "dgts", *at)
    assert given.pop()[0] == [f"folder:{tmp_path}/birds", *["digits?tasks=2&epochs=1"] * 2, "dgts"]  # as runs have them
    for table in ("transfer", "composition", "ablation"):
        ask("compare", "digits", f"--{table}", "--format", "csv", *at)
        assert given.pop() == (["digits"], "csv")
        for option in (["--campaign", "t"], ["--figure", "f.png"], ["--paper", "--format", "latex"]):
            code, _, err = ask("compare", f"--{table}", *option, *at)
            assert code == 2 and err.startswith(f"tausearch: {option[0]}: ") and not given


def test_a_status_has_its_bounds_in_both_forms(
    spec: SearchSpec, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run_directory(spec, Storage(tmp_path))
    monkeypatch.setattr("tausearch.runs.beside_bounds", lambda *_: "bounds")
    monkeypatch.setattr(output, "status_as_dict", lambda found, choices, beside: [choices, beside])
    monkeypatch.setattr(output, "show_status", lambda found, beside, command: print(beside))
    at = ("status", spec.name, "--storage", str(tmp_path))
    assert ask(*at)[1] == "bounds\n" and json.loads(ask(*at, "--format", "json")[1]) == [None, "bounds"]


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What `predict` does, in order, with a model that can read the image `a.png` alone."""
    done: list[str] = []

    def predict(paths: list[Path], left_out: list[str], **_: object) -> list[str]:
        done.append("predict")
        left_out += [f"{path}: is broken" for path in paths if path.name != "a.png"]
        return [path.name for path in paths if path.name == "a.png"]

    opened = SimpleNamespace(notes=[], predict=predict)
    monkeypatch.setattr("tausearch.models.image_paths", lambda images, _: list(map(Path, images)))
    monkeypatch.setattr("tausearch.models.open_model", lambda *_: done.append("open") or opened)
    monkeypatch.setattr(output, "require_truth", lambda *_: done.append("truth"))
    monkeypatch.setattr(output, "show_predictions", lambda _, found, left_out, form: print(form, found, left_out))
    for function in ("draw", "draw_confusion"):
        monkeypatch.setattr(output, function, lambda *asked: [f"drawn {asked[-1]}"])
    return done


def test_predict_replaces_no_numbers_of_another_origin(work: list[str], tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "c.csv").write_text("day,weight\n")
    code, _, err = ask("predict", "m", "a.png", "--confusion", str(tmp_path / "c.png"), "--storage", str(tmp_path))
    assert (code, work) == (2, []) and "c.csv: exists and was not written by tausearch" in err


def test_predict_draws_both_pictures_and_says_so_beside_its_answers(
    work: list[str], tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = ask("predict", "m", "a.png", "b.png", "--figure", "f.png", "--confusion", "c.png")
    assert (code, work) == (0, ["open", "truth", "predict"]) and out == "text ['a.png'] ['b.png: is broken']\n"
    assert [line for line in err.splitlines() if line.startswith("drawn")] == ["drawn f.png", "drawn c.png"]
    assert ask("predict", "m", "b.png")[2].splitlines()[-1] == "tausearch: no image is left that can be read"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--figure", "f.txt"], "--figure f.txt: must end in"),
        (["--confusion", "c.txt"], "--confusion c.txt: must end in"),
        (["--figure", "a.png"], "--figure"),  # an image that is to be classified
        (["--figure", "c.pdf", "--confusion", "c.png"], "--figure and --confusion: must be two files"),
        (["--figure", "c.png", "--confusion", "x/../c.png"], "--figure and --confusion: must be two files"),
        (["--figure", "c.png", "--confusion", "c.pdf"], "--figure and --confusion: must be two files"),
    ],
)
def test_predict_opens_no_model_for_a_picture_that_it_could_not_write(
    words: list[str], said: str, work: list[str], tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.png").touch()
    code, out, err = ask("predict", "m", "a.png", *words)
    assert (code, out, work) == (2, "", []) and said in err.splitlines()[-1]
