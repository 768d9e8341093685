"""Which of several things a command takes: runs, folders, options given twice, and the code that it ends with."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tausearch.cli import launch, look
from tausearch.runs import SearchSpec, Storage, open_storage
from tausearch.runs.creation import make_run_directory
from tausearch.studies import load_best
from tests.support.command_line import Ask
from tests.support.runs.built_runs import make_run
from tests.support.runs.final_runs import make_final_run
from tests.support.runs.trials import FIXED, final_spec, make_trial
from tests.tausearch.several.made import part, several_spec
from trainables.errors import InputError


def test_pages_of_runs_that_are_tracked_elsewhere_are_named_with_their_servers(
    spec: SearchSpec, tmp_path: Path, ask: Ask
) -> None:
    for name, uri in (("a", "http://b:1"), ("b", None), ("c", "http://a:1"), ("d", "http://b:1")):
        tracking = ("mlflow", "tensorboard") if name == "c" else None
        named = {"name": name, "id": name, "tracking_uri": uri, "tracking": tracking}
        make_run_directory(spec.model_copy(update=named), Storage(tmp_path))
    unused = {"name": "e", "id": "e", "tracking_uri": "http://c:1", "tracking": ()}
    make_run_directory(spec.model_copy(update=unused), Storage(tmp_path))
    code, _, err = ask("runs", "ui", "--storage", str(tmp_path))
    assert code == 2 and err.endswith("its runs are tracked at http://a:1, http://b:1\n")


def test_pages_of_runs_that_mlflow_does_not_track_are_not_promised(spec: SearchSpec, tmp_path: Path, ask: Ask) -> None:
    for name, tracking, said in (("a", (), "its runs are not tracked by MLflow"), ("b", None, "has no runs yet")):
        make_run_directory(spec.model_copy(update={"name": name, "id": name, "tracking": tracking}), Storage(tmp_path))
        code, _, err = ask("runs", "ui", "--storage", str(tmp_path))
        assert code == 2 and err.endswith(f"{said}\n")  # one that MLflow tracks may still come to lie there
    Storage(tmp_path).run("a").spec_file.write_text("{")
    assert "a/run.yaml" in ask("runs", "ui", "--storage", str(tmp_path))[2].splitlines()[0]


def test_the_dashboard_is_opened_in_place_of_mlflow(tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []
    serve = (lambda **where: served.append(where), [InputError("x: is damaged")])
    monkeypatch.setattr("tausearch.studies.dashboard_of", lambda _: serve)
    code, _, err = ask("runs", "ui", "--optuna", "--port", "5872", "--storage", str(tmp_path))
    assert (code, err) == (0, "tausearch: x: is damaged\n") and served == [{"host": "127.0.0.1", "port": 5872}]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, err = ask("runs", "ui", "--optuna", "--port", port, "--storage", str(tmp_path))
    assert code == 2 and f"--port {port}: cannot be used" in err and len(served) == 1


@pytest.mark.parametrize(("words", "removed"), [([], None), (["--clear"], [])])
def test_clearing_an_empty_cache_removes_nothing(
    words: list[str], removed: list[Any] | None, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    monkeypatch.setattr("tausearch.cli.output.show_cache", lambda *shown: given.append(shown))
    ask("runs", "cache", *words, "--storage", str(tmp_path))
    assert given == [([], removed)] and list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_bad_input(tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    (tmp_path / "cache").mkdir()
    monkeypatch.setattr("trainables.preconsolidation.cache.Cache.shrink", refuse)
    code, _, err = ask("runs", "cache", "--clear", "--storage", str(tmp_path))
    assert code == 2 and "cache: cannot be cleared (Read-only file system)" in err


@pytest.mark.usefixtures("no_insight")
def test_the_best_of_a_benchmark_and_a_method_is_exported_under_their_names(
    spec: SearchSpec, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    searches = (
        ("low", 60.0, "ita-lora"),
        ("high", 80.0, "ita-lora"),
        ("newer", 70.0, "ita-lora"),
        ("other", 90.0, "ita-ia3"),
    )
    for name, value, method in searches:
        named = spec.model_copy(update={"name": name, "id": name, "method": method})
        make_run(Storage(tmp_path / "runs"), named, [make_trial(0, value=value)])
    named = spec.model_copy(update={"name": "few", "id": "few", "benchmark": "digits?tasks=2&epochs=7"})
    make_run(Storage(tmp_path / "runs"), named, [make_trial(0, value=60.0)])
    several = several_spec(benchmark="digits,glyphs?tasks=2&epochs=7")
    point = {"alpha": 1.0, "lr": 0.01, **FIXED}
    make_run(Storage(tmp_path / "runs"), several, [part(several, 0, k, 60.0, hyperparameters=point) for k in range(2)])
    at = ("--storage", str(tmp_path / "runs"))
    assert ask("export", "digits?epochs=7&tasks=2", "ita-lora", "-o", "few.yaml", *at)[0] == 0
    code, out, err = ask("export", "digits,glyphs?epochs=7&tasks=2", "ita-lora", *at)
    assert (code, out) == (0, "best file: digits-glyphs-tasks-2-epochs-7-ita-lora.best.yaml\n"), err
    code, out, err = ask("export", "digits", "ita-lora", *at)
    assert (code, out) == (0, "best file: digits-ita-lora.best.yaml\n"), err
    best = load_best(tmp_path / "digits-ita-lora.best.yaml").selection
    assert best is not None and (best.search, best.value) == ("high", 80.0)
    code, out, _ = ask("export", "low", "-o", "mine.yaml", "--format", "json", *at)
    best = load_best(tmp_path / "mine.yaml").selection
    assert json.loads(out) == {"best_file": "mine.yaml"} and best is not None and best.search == "low"
    assert ask("export", "low", *at)[:2] == (0, "best file: low.best.yaml\n")
    make_run_directory(final_spec(spec, name="final"), Storage(tmp_path / "runs"))
    code, _, err = ask("export", "final", *at)
    assert code == 2 and err.startswith("tausearch: run 'final': is a final run, which chooses nothing; `")
    assert "--export FOLDER` writes its model" in err and err.count("\n") == 1


@pytest.mark.usefixtures("no_insight")
def test_a_damaged_best_file_of_a_named_search_is_said(
    spec: SearchSpec, tmp_path: Path, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    make_run(Storage(runs), spec, [make_trial(0, value=60.0)])
    Storage(runs).run(spec.name).best_file.write_text("{", encoding="utf-8")
    said = f"tausearch: best file {runs / spec.name / 'best.yaml'}: "
    code, _, err = ask("export", spec.name, "-o", str(tmp_path / "mine.yaml"), "--storage", str(runs))
    assert code == 0 and err.startswith(said)
    launch._best_of([spec.name], runs)
    assert said in capsys.readouterr().err


def test_train_looks_for_the_best_of_what_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tausearch.studies.best_of_all", lambda root, *asked: given.extend(asked))
    monkeypatch.setattr(launch, "allow_typed", lambda *names: given.extend(names))
    launch._best_of(["folder:birds,digits", "mine:Method"], "runs")
    allowed, asked = given[:3], given[3:]
    assert allowed == ["folder:birds", "digits", "mine:Method"]  # that is typed on the command line
    assert asked == [f"folder:{tmp_path / 'birds'},digits", "mine:Method", launch.print_notices]


def test_a_run_beside_a_method_is_to_be_named_alone(spec: SearchSpec, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    make_run(Storage(runs), spec.model_copy(update={"name": "mine"}), [])
    with pytest.raises(
        InputError, match="^train mine ewc: mine is a run; name it alone: .* train mine --storage .*/runs$"
    ):
        launch._best_of(["mine", "ewc"], str(runs))
    with pytest.raises(InputError, match="unknown benchmark 'other'"):
        launch._best_of(["other", "ewc"], str(runs))
    make_run(Storage(runs), spec.model_copy(update={"name": "glyphs"}), [])
    with pytest.raises(InputError, match="no search of 'ewc' on 'glyphs'"):  # it is a benchmark first
        launch._best_of(["glyphs", "ewc"], str(runs))


def test_a_page_leaves_out_a_final_run_that_cannot_be_read(tmp_path: Path) -> None:
    storage = open_storage(tmp_path, write=True)
    for name in ("damaged", "plain", "other"):
        make_final_run(storage, name, [90.0], method="tmc" if name == "other" else "ita-lora")
    storage.run("damaged").results_file.write_text("{")
    cells: Any = [SimpleNamespace(benchmark="cifar100", final=storage.run(n)) for n in ("damaged", "plain", "other")]
    (table,) = look._beside_the_paper(cells)
    assert {row[-1] for row in table.texts if row[1]} == {"plain", "other"}


def test_the_images_that_are_listed_are_those_that_are_asked_for(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tausearch.api.list_images", lambda *asked: asked[-1])
    monkeypatch.setattr("tausearch.api.check_dataset", lambda *_: pytest.fail("nothing is to be checked"))
    monkeypatch.setattr("tausearch.cli.output.show_images", lambda parts, *_: print(*parts))
    parts = {"all": "train test\n", "train": "train\n", "test": "test\n"}
    assert {each: ask("data", "check", "mit67", "--list", each)[1] for each in parts} == parts


@dataclass
class Checked:
    """What a check of a dataset has found."""

    faults: list[str]
    root: str | None


@pytest.mark.parametrize(
    ("words", "root", "code"), [(["x", "--data-root", "/given"], "/given", 0), (["bad"], "/set", 1)]
)
def test_a_check_looks_where_it_is_told_and_fails_if_something_is_faulty(
    words: list[str], root: str, code: int, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(name: str, data_root: str | None, *_: object) -> Checked:
        return Checked(["image a: is broken"] if name == "bad" else [], data_root)

    monkeypatch.setenv("TAUSEARCH_DATA", "/set")
    monkeypatch.setattr("tausearch.api.check_dataset", check)
    got, out, err = ask("data", "check", *words, "--format", "json")
    assert (got, json.loads(out)["root"]) == (code, root), err


@pytest.mark.parametrize(
    ("words", "function"),
    [
        (["check"], "check_dataset"),
        (["check", "--list", "train"], "list_images"),
        (["prepare"], "prepare_dataset"),
    ],
)
def test_the_part_of_a_dataset_that_is_there_is_taken_as_the_command_says(
    words: list[str], function: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[object, ...]] = []

    def asked(*arguments: object) -> None:
        given.append(arguments)
        raise InputError("no images")

    monkeypatch.setattr(f"tausearch.api.{function}", asked)
    ask("data", words[0], "mit67", *words[1:], "--partial", "--variant", "a", "--data-root", "/d")
    ask("data", words[0], "mit67", *words[1:], "--data-root", "/d")
    assert [each[:4] for each in given] == [("mit67", "/d", "a", True), ("mit67", "/d", None, False)]


@pytest.mark.parametrize(("clear", "removed", "left"), [(False, 0, 2), (True, 1, 1)])
def test_only_what_nobody_uses_is_cleared_and_only_if_asked(
    clear: bool, removed: int, left: int, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {"benchmark": "7", "seed": "3", "lr": "1e-05", "whiten": "True", "rank": "None", "kind": "full"}
    kept = [SimpleNamespace(path=Path(f"{n}.x"), bytes=1, used=0.0, in_use=n == 1, about=about) for n in range(2)]

    class Cache:
        """A cache of two entries, one of which a trial uses."""

        def __init__(self, folder: Path) -> None:
            assert folder == tmp_path / "cache"

        def shrink(self, size: float) -> list[Any]:
            assert size == 0
            return [kept.pop(0)]

        def entries(self) -> list[Any]:
            return kept

    (tmp_path / "cache").mkdir()
    monkeypatch.setattr("trainables.preconsolidation.cache.Cache", Cache)
    code, out, _ = ask("runs", "cache", *["--clear"] * clear, "--format", "json", "--storage", str(tmp_path))
    told = json.loads(out)
    assert code == 0 and (told["removed"], len(told["entries"])) == (removed, left)
    numbers = {"benchmark": "7", "seed": 3, "lr": 1e-05, "whiten": True, "rank": None, "kind": "full"}
    assert numbers.items() <= told["entries"][0].items()


@pytest.mark.parametrize(
    ("outcome", "code", "said"),
    [
        ({}, 0, ""),
        ({"failed": {"digits/a": "gone"}}, 1, ""),
        (
            {"failed": {"digits/a": "gone"}, "out_of_time": True},
            0,
            "the time budget is used up; continue with: again\n",
        ),
        ({"failed": {"digits/a": "gone"}, "signal": 2}, 130, "interrupted; continue with: again\n"),
        ({"standing": SimpleNamespace(as_dict=lambda: {"name": "t"}, finished=False)}, 1, ""),  # a cell waits
    ],
)
def test_a_campaign_ends_as_its_cells_did(
    outcome: dict[str, Any], code: int, said: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}
    status = SimpleNamespace(as_dict=lambda: {"name": "t"}, finished=True)
    plain = {"standing": status, "failed": {}, "files": [Path("/f")], "signal": None, "out_of_time": False}
    lacks = {"t-final": "the store is damaged"}
    result = SimpleNamespace(**{**plain, "tracking_errors": lacks, "resume_command": "again", **outcome})
    monkeypatch.setattr("tausearch.campaigns.campaign_with", lambda request: given.update(vars(request)) or result)
    got, out, err = ask(
        "campaign", "run", "t.yaml", "--format", "json", "--redo", "a/b", "--redo", "c/d", "--time-budget", "2m"
    )
    assert (got, err) == (code, said) and list(given["redo"]) == ["a/b", "c/d"] and given["time_budget"] == 120
    assert json.loads(out) == {
        **{"name": "t", "failed": result.failed},
        **{"tracking_errors": lacks, "files": ["/f"]},
    }
