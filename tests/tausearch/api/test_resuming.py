"""What a run is from when it is continued: what was asked for anew, and otherwise what it was."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tausearch.api import SearchRequest, plan_search, resume
from tausearch.api import continuation as resuming
from tausearch.runs import SearchSpec, Storage, read_spec
from tausearch.runs.creation import create
from tests.support.layouts import mit67
from trainables.backbones import EMBEDDED
from trainables.errors import InputError

URI = "http://localhost:5000"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[SearchSpec]:
    """The searches that came as far as being run."""
    found: list[SearchSpec] = []
    monkeypatch.setattr(resuming, "run_search", lambda run, *_: found.append(run.spec))
    monkeypatch.setattr("tausearch.cluster.resources.local_cpus", lambda: 4)
    return found


def begin(tmp_path: Path, benchmark: str = "digits", **more: object) -> SearchSpec:
    request = SearchRequest(benchmark, "finetune", name="s", storage=tmp_path / "storage", **more)  # type: ignore[arg-type]
    return create(plan_search(request).spec, Storage(tmp_path / "storage"))[0]


def test_what_is_not_asked_for_stays_as_it_was(tmp_path: Path, ran: list[SearchSpec]) -> None:
    spec = begin(tmp_path, max_concurrent_trials=2, tracking_uri=URI, cpus_per_trial=2)
    resume("s", storage=tmp_path / "storage")
    assert ran == [spec] and read_spec(Storage(tmp_path / "storage").run("s")) == spec
    assert (spec.resources.cpus_per_trial, spec.resources.max_concurrent_trials, spec.tracking_uri) == (2, 2, URI)


def test_what_is_asked_for_is_what_it_is_from_now_on(tmp_path: Path, ran: list[SearchSpec]) -> None:
    spec = begin(tmp_path, max_concurrent_trials=2)
    resume("s", storage=tmp_path / "storage", max_concurrent_trials=3, tracking_uri=URI)
    resources = spec.resources.model_copy(update={"max_concurrent_trials": 3})
    assert ran == [spec.model_copy(update={"resources": resources, "tracking_uri": URI})]
    assert read_spec(Storage(tmp_path / "storage").run("s")) == ran[0]


def test_a_dataset_that_has_moved_is_found_where_it_is_said_to_be(tmp_path: Path, ran: list[SearchSpec]) -> None:
    mit67(tmp_path / "here" / "mit67", "indoorCVPR_09.tar")
    begin(tmp_path, "mit67?partial=yes", backbone=EMBEDDED, data_root=tmp_path / "here")
    shutil.move(tmp_path / "here", tmp_path / "there")
    with pytest.raises(InputError, match="here"):
        resume("s", storage=tmp_path / "storage")
    resume("s", storage=tmp_path / "storage", data_root=tmp_path / "there")
    assert [spec.data_root for spec in ran] == [str(tmp_path / "there")]
    resume("s", storage=tmp_path / "storage")
    assert ran[1] == ran[0]


def test_a_cluster_is_asked_where_it_is_said_to_be(
    tmp_path: Path, ran: list[SearchSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(tmp_path)
    asked: list[str] = []
    monkeypatch.setattr("tausearch.cluster.resources.require_reachable", asked.append)
    resume("s", storage=tmp_path / "storage", address="host:6379", max_concurrent_trials=99)
    assert asked == ["host:6379"] and ran[0].resources.max_concurrent_trials == 99  # more than fit here
