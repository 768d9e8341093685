"""Requests: every option stands once, and the command line reaches all of them."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Any

import pytest

import tausearch
from tausearch import api
from tausearch.api import (
    ComposeRequest,
    EditRequest,
    FiguresRequest,
    ResumeRequest,
    SearchRequest,
    TrainRequest,
    plan_training,
)
from tausearch.cli import compose, launch
from trainables.errors import InputError

DOORS = [(api.search, SearchRequest), (api.resume, ResumeRequest), (api.train, TrainRequest)]
ASKED: dict[str, dict[str, Any]] = {
    "search": {"benchmark": "digits", "method": "ita-lora"},
    "resume": {"name": "s"},
    "train": {"best": object()},
}


@pytest.mark.parametrize(("door", "request_of"), DOORS)
def test_a_door_has_the_signature_of_its_request(door: Any, request_of: type) -> None:
    assert list(inspect.signature(door).parameters) == list(inspect.signature(request_of).parameters)
    assert inspect.signature(door).return_annotation.endswith("Result")
    assert request_of.__name__ in (inspect.getdoc(door) or "")


def test_an_option_that_there_is_not_is_refused_before_anything_is_done() -> None:
    with pytest.raises(TypeError, match="alhpa"):
        tausearch.search("digits", "ita-lora", alhpa=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("request_of", [request for _, request in DOORS])
def test_every_option_is_documented(request_of: type) -> None:
    documented = " ".join(inspect.getdoc(kind) or "" for kind in request_of.__mro__ if kind is not object)
    for field in fields(request_of):
        assert f"{field.name}: " in documented, field.name


def reached(monkeypatch: pytest.MonkeyPatch, command: Any, door: str, **options: Any) -> dict[str, Any]:
    """The fields that a command passes to its door, for options as the parser gives them."""
    found: dict[str, Any] = {}

    class Reached(Exception):
        pass

    def take(*args: Any, **given: Any) -> None:
        found.update(given)
        raise Reached

    monkeypatch.setattr(api, door, take)
    with pytest.raises(Reached):
        command(**options)
    return found


@pytest.mark.parametrize(
    ("command", "door", "request_of", "apart"),
    [
        (launch.search, "search", SearchRequest, set()),
        (launch.resume, "resume", ResumeRequest, {"trials", "reevaluate", "reevaluate_runs"}),
        (launch.extend, "resume", ResumeRequest, set()),
        (launch.train, "train", TrainRequest, {"best"}),
    ],
)
def test_the_command_line_reaches_every_field(
    command: Any, door: str, request_of: type, apart: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_best_of", lambda what, storage: None)
    given = {
        name: parameter.default
        for name, parameter in inspect.signature(command).parameters.items()
        if parameter.default is not parameter.empty
    }
    asked = {**given, **ASKED[door], **({"what": ["best.yaml"]} if door == "train" else {})}
    if door == "resume" and command is launch.extend:
        asked["trials"] = 9
    asked.pop("best", None)
    found = reached(monkeypatch, command, door, **asked)
    assert set(found) == {field.name for field in fields(request_of)} - apart
    defaults = request_of(**ASKED[door])
    for name, value in found.items():
        if name not in ("set", "trials", "seeds"):  # what the parser gives for nothing, or was asked for
            assert value == getattr(defaults, name), name


def test_texts_become_values(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {
        name: parameter.default
        for name, parameter in inspect.signature(launch.search).parameters.items()
        if parameter.default is not parameter.empty
    }
    options |= {"set_": ["lr=0.1", "regularise=none"], "gpus_per_trial": "1/4", "time_budget": "90m", "json": True}
    options |= {"class_order": "3", "no_cache": True, "cache_size": 5.0}
    found = reached(monkeypatch, launch.search, "search", benchmark="digits", method="ita-lora", **options)
    assert found["set"] == {"lr": 0.1, "regularise": "none"}
    assert (found["gpus_per_trial"], found["time_budget"], found["class_order"]) == (0.25, 5400.0, 3)
    assert (found["cache_size"], found["progress_to"]) == (0.0, "stderr")


def test_a_final_run_measures_no_pilot() -> None:
    wanted: Any = "auto"
    with pytest.raises(InputError, match="--gpus-per-trial must be a number, .*got 'auto'"):
        plan_training(TrainRequest(ASKED["train"]["best"], gpus_per_trial=wanted))


@pytest.mark.parametrize(
    ("door", "request_of"), [("compose", ComposeRequest), ("edit", EditRequest), ("draw", FiguresRequest)]
)
def test_commands_on_task_vectors_reach_every_field(
    door: str, request_of: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(inspect.signature(getattr(api, door)).parameters) == list(inspect.signature(request_of).parameters)
    command = {"compose": compose.compose, "edit": compose.edit, "draw": compose.figures}[door]
    signature = inspect.signature(command).parameters.values()
    given = {each.name: each.default for each in signature if each.default is not each.empty}
    found = reached(monkeypatch, command, door, runs=["a"], **given)
    assert {"runs", *found} == {field.name for field in fields(request_of)}
    defaults = request_of(["a"])
    assert found == {name: getattr(defaults, name) for name in found}
    documented = " ".join(inspect.getdoc(kind) or "" for kind in request_of.__mro__ if kind is not object)
    assert all(f"{field.name}: " in documented for field in fields(request_of))


@pytest.mark.parametrize(
    ("request_of", "given", "words"),
    [
        (SearchRequest, {"method": ["a"]}, "method must be a text, got ['a']"),
        (SearchRequest, {"name": 5}, "--name must be a text, got 5"),
        (SearchRequest, {"storage": 5}, "--storage must be a path, got 5"),
        (SearchRequest, {"set": ["lr=1"]}, "--set must be a mapping of names to values, got ['lr=1']"),
        (SearchRequest, {"warm_start": "paper"}, "--warm-start must be a list of texts, got 'paper'"),
        (SearchRequest, {"time_budget": [1]}, "--time-budget must be one number, got [1]"),
        (TrainRequest, {"best": None, "seeds": 3}, "--seeds must be a list of whole numbers, got 3"),
        (ComposeRequest, {"runs": "ita"}, "runs must be a list of texts, got 'ita'"),
        (ComposeRequest, {"runs": ["ita"], "keep": 1}, "--keep must be a list of whole numbers, got 1"),
    ],
)
def test_what_is_of_another_kind_is_named(request_of: type, given: dict[str, Any], words: str) -> None:
    rest = {"benchmark": "digits", "method": "ita-lora"} if request_of is SearchRequest else {}
    with pytest.raises(InputError, match=f"^{re.escape(words)}$"):
        request_of(**{**rest, **given})
