"""The store of MLflow: its server, its database and its files."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from tausearch.runs import open_storage
from tausearch.tracking import mlflow_store
from tests.support.modes import umask
from tests.tausearch.tracking.memory_store import Page

URI = "http://a:1"


def test_all_pages_of_an_answer_are_read() -> None:
    def search_runs(experiments: list[str], query: str, page_token: str | None) -> Page:
        number = int(page_token or 0)
        page = Page([number])
        page.token = str(number + 1) if number < 2 else None  # type: ignore[assignment]
        return page

    assert mlflow_store.search_runs(SimpleNamespace(search_runs=search_runs), "1", "") == [0, 1, 2]


@pytest.mark.parametrize("length", [249, 250, 251, 4000])
def test_a_long_name_is_cut_and_stays_different(length: int) -> None:
    names = [mlflow_store.tracked_name("x" * (length - 1) + sign) for sign in "ab"]
    assert len(set(names)) == 2 and all(len(name) == min(length, 250) for name in names)
    assert (names[0] == "x" * (length - 1) + "a") == (length <= 250)


@pytest.mark.parametrize("patience", [None, "60"])
def test_a_server_is_asked_once_and_for_5_seconds_unless_the_user_says_otherwise(
    patience: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MAX_RETRIES", "TIMEOUT"):
        monkeypatch.setenv(f"MLFLOW_HTTP_REQUEST_{name}", patience or "")
        if patience is None:
            monkeypatch.delenv(f"MLFLOW_HTTP_REQUEST_{name}")
    monkeypatch.setattr("mlflow.MlflowClient", lambda tracking_uri: mock.MagicMock())
    mlflow_store.open_store(open_storage(tmp_path, write=True), URI, "digits")
    found = [os.environ[f"MLFLOW_HTTP_REQUEST_{name}"] for name in ("MAX_RETRIES", "TIMEOUT")]
    assert found == ([patience] * 2 if patience else ["0", "5"])


@pytest.mark.parametrize(
    ("uri", "known", "place"),
    [
        ("http://a:1", False, None),
        ("https://a", False, None),
        ("sqlite:///x.db", False, "artifacts"),
        (URI, True, "none"),
    ],
)
def test_artifacts_lie_in_the_storage_unless_a_server_has_a_place_for_them(
    uri: str, known: bool, place: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    class Client:
        def __init__(self, tracking_uri: str) -> None:
            assert tracking_uri == uri

        def get_experiment_by_name(self, name: str) -> Any:
            return SimpleNamespace(experiment_id=7) if known else None

        def create_experiment(self, name: str, artifact_location: str | None) -> int:
            made.append(artifact_location)
            return 8

    monkeypatch.setattr("mlflow.MlflowClient", Client)
    storage = open_storage(tmp_path, write=True)
    assert mlflow_store.open_store(storage, uri, "digits")[1] == ("7" if known else "8")
    assert made == ([] if known else [storage.mlflow_artifacts.as_uri() if place else None])
    assert not storage.mlflow_file.exists()  # only the default store is made
    assert Path(mlflow_store.store_lock(storage).lock_file) == tmp_path / "mlflow.lock"  # in every working folder


_TABLES = """
CREATE TABLE experiments (artifact_location);
CREATE TABLE runs (artifact_uri, run_uuid);
CREATE TABLE model_versions (source, storage_location, run_id);
"""  # MLflow's, with the columns of places


@pytest.mark.parametrize("cache", ["folder", "file", "unreadable", "empty", "half"])
def test_the_default_store_is_migrated_once_for_a_user_and_has_the_mode_of_the_umask(
    cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrated: list[str] = []

    class Client:
        def __init__(self, tracking_uri: str) -> None:
            self.file = tracking_uri.removeprefix("sqlite:///")

        def search_experiments(self, max_results: int) -> None:
            migrated.append(self.file)
            with closing(sqlite3.connect(self.file)) as store, store:
                store.executescript(_TABLES)
                store.execute("INSERT INTO experiments VALUES ('file:///where/it/was/made/mlruns/0')")

        def get_experiment_by_name(self, name: str) -> Any:
            return SimpleNamespace(experiment_id=7)

    monkeypatch.setattr("mlflow.MlflowClient", Client)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if cache == "file":  # where no folder can be made
        (tmp_path / "cache").touch()
    if cache == "unreadable":
        monkeypatch.setattr("shutil.copyfile", mock.Mock(side_effect=PermissionError))
    with umask(0o002):
        storages = [open_storage(tmp_path / name, write=True) for name in "abc"]
        for number, storage in enumerate(storages):
            storage.root.mkdir()
            (storage.root / "mlflow.db.1.tmp").touch()  # of a process that was killed
            mlflow_store.open_store(storage, storage.mlflow_uri, "digits")
            if cache in ("empty", "half") and number == 0:  # damaged once; the next storage root mends it
                (kept,) = (tmp_path / "cache" / "tausearch").glob("*.db")
                kept.write_bytes(kept.read_bytes()[: 0 if cache == "empty" else kept.stat().st_size // 2])
            assert [each.name for each in storage.root.glob("*.tmp")] == []
    assert len(migrated) == {"folder": 1, "file": 3, "unreadable": 3, "empty": 2, "half": 2}[cache]
    assert [storage.mlflow_file.stat().st_mode & 0o777 for storage in storages] == [0o664] * 3
    for storage in storages:
        with closing(sqlite3.connect(storage.mlflow_file)) as store:
            assert store.execute("SELECT * FROM experiments").fetchall() == [(storage.mlflow_artifacts.as_uri(),)]


def test_files_of_a_storage_that_was_moved_twice_are_found_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SimpleNamespace(get_experiment_by_name=lambda name: SimpleNamespace(experiment_id=7))
    monkeypatch.setattr("mlflow.MlflowClient", lambda tracking_uri: found)
    storage = open_storage(tmp_path, write=True)
    ours = ["file:///first/mlflow-artifacts", "file:///then/mlflow-artifacts"]
    places = [*ours, "file:///own/mlruns/0", "file:///first/mlflow-artifacts-of-another"]
    here = storage.mlflow_artifacts.as_uri()
    with closing(sqlite3.connect(storage.mlflow_file)) as store, store:
        store.executescript(_TABLES)
        early = "file:///early/mlflow-artifacts"  # of a version whose experiment and run 0.1.0 has corrected
        rows = [(place, f"{place}/1/run/artifacts", f"{place}/1/run/artifacts/model") for place in (*places, here)]
        store.executemany("INSERT INTO experiments VALUES (?)", [row[:1] for row in rows])
        store.executemany("INSERT INTO runs VALUES (?1, ?1)", [row[1:2] for row in rows])
        rows[0] = (*rows[0][:2], "file:///once/mlflow-artifacts/1/run/artifacts/model")  # moved on after 0.1.0
        rows[-1] = (here, rows[-1][1], f"{early}/1/run/artifacts/model")
        store.executemany("INSERT INTO model_versions VALUES (?2, ?2, ?1)", [row[1:] for row in rows])
        other = "file:///other/mlflow-artifacts/1/run/artifacts/model"  # of no run of this storage
        store.execute("INSERT INTO model_versions VALUES (?1, ?1, NULL)", (other,))
    mlflow_store.open_store(storage, storage.mlflow_uri, "digits")
    now = [here, here, *places[2:], here]
    with closing(sqlite3.connect(storage.mlflow_file)) as store:
        assert store.execute("SELECT * FROM experiments").fetchall() == [(place,) for place in now]
        assert store.execute("SELECT artifact_uri FROM runs").fetchall() == [
            (f"{place}/1/run/artifacts",) for place in now
        ]
        models = [f"{place}/1/run/artifacts/model" for place in now]
        versions = store.execute("SELECT source, storage_location FROM model_versions").fetchall()
        assert versions == [(each, each) for each in (*models, other)]
