"""optuna-dashboard on the study files of a storage root: all searches, without those that cannot be read."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import optuna
import pytest

from tausearch.api import rename_run
from tausearch.runs import Storage
from tausearch.runs.creation import make_run_directory
from tausearch.studies import StudyMirror, dashboard_of
from tausearch.studies.study import SearchStudy
from tests.support.command_line import run
from tests.support.runs.trials import make_trial, search_spec


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What a stand-in for optuna-dashboard was asked to serve."""
    calls: list[dict[str, Any]] = []
    module = ModuleType("optuna_dashboard")
    module.run_server = lambda storage, **more: calls.append({"storage": storage, **more})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "optuna_dashboard", module)
    return calls


def make_search(storage: Storage, name: str, values: list[float]) -> None:
    spec = search_spec().model_copy(update={"name": name})
    _, directory = make_run_directory(spec, storage)
    trials = [make_trial(number, value=value) for number, value in enumerate(values)]
    StudyMirror(directory.study_file, SearchStudy(spec), trials).conclude()


def ui(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, *more: str) -> tuple[int, str, str]:
    return run(["runs", "ui", "--optuna", "--port", "5871", "--storage", str(tmp_path), *more], capsys, monkeypatch)


def test_all_searches_are_on_one_page_on_loopback(
    tmp_path: Path, served: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_search(Storage(tmp_path), "one", [70.0, 80.0])
    make_search(Storage(tmp_path), "two", [60.0])
    make_search(Storage(tmp_path), "broken", [50.0])
    (tmp_path / "broken" / "study.journal").write_text('{"op_code": 77, "worker_id": 1}\n')
    code, out, err = ui(tmp_path, capsys, monkeypatch)
    assert code == 0 and out == "optuna-dashboard: http://127.0.0.1:5871/ (Ctrl-C ends it)\n"
    assert err.count("\n") == 1 and "broken/study.journal: cannot be read" in err
    (call,) = served
    assert (call["host"], call["port"]) == ("127.0.0.1", 5871)
    found = {study.study_name: study for study in optuna.get_all_study_summaries(call["storage"])}
    assert set(found) == {"one", "two"} and found["one"].best_trial.value == 80 and found["one"].n_trials == 2


def test_a_renamed_search_is_beside_the_one_that_took_its_name(tmp_path: Path, served: list[dict[str, Any]]) -> None:
    make_search(Storage(tmp_path), "one", [70.0])
    rename_run(Storage(tmp_path), "one", "two")
    make_search(Storage(tmp_path), "one", [80.0])
    serve, faults = dashboard_of(Storage(tmp_path))
    serve()
    found = optuna.get_all_study_summaries(served[0]["storage"])
    assert faults == [] and {study.study_name: study.best_trial.value for study in found} == {"one": 80.0, "two": 70.0}


def test_what_is_missing_is_one_line(
    tmp_path: Path, served: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = ui(tmp_path, capsys, monkeypatch)
    assert code == 2 and err == f"tausearch: --storage {tmp_path}: has no study files yet\n"
    make_search(Storage(tmp_path), "broken", [50.0])
    (tmp_path / "broken" / "study.journal").write_text('{"op_code": 77, "worker_id": 1}\n')
    code, _, err = ui(tmp_path, capsys, monkeypatch)
    assert code == 2 and "has no study files yet; study file " in err and "broken/study.journal: cannot be read" in err
    monkeypatch.setitem(sys.modules, "optuna_dashboard", None)
    make_search(Storage(tmp_path), "one", [70.0])
    code, _, err = ui(tmp_path, capsys, monkeypatch)
    assert code == 2 and err == (
        "tausearch: --optuna: optuna-dashboard is not installed; pip install optuna-dashboard\n"
    )
    assert served == []
