"""Requests: every option stands once, and the command line reaches all of them."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tausearch
from checked_input import ranges
from tausearch import api
from tausearch.api import (
    ComposeRequest,
    EvaluateRequest,
    FiguresRequest,
    ResumeRequest,
    SearchRequest,
    TrainRequest,
)
from tausearch.campaigns import CampaignRequest
from tausearch.cli import campaign, compose, launch
from trainables.errors import InputError

BEST = SimpleNamespace(hyperparameters={})
DOORS: dict[str, Any] = {
    "search": SearchRequest,
    "resume": ResumeRequest,
    "train": TrainRequest,
    "compose": ComposeRequest,
    "evaluate": EvaluateRequest,
    "draw": FiguresRequest,
}
ASKED: dict[str, dict[str, Any]] = {
    "search": {"benchmark": "digits", "method": "ita-lora"},
    "resume": {"name": "s"},
    "train": {"best": BEST},
}


@pytest.mark.parametrize("door", DOORS)
def test_a_door_has_the_signature_of_its_request_whose_fields_are_documented(door: str) -> None:
    call, request_of = getattr(api, door), DOORS[door]
    assert call.__name__ == door and call.__wrapped__ is getattr(api, f"{door}_with")
    assert list(inspect.signature(call).parameters) == list(inspect.signature(request_of).parameters)
    assert inspect.signature(call).return_annotation == call.__wrapped__.__annotations__["return"]
    shown = (inspect.getdoc(call) or "").partition("\nArgs:\n")[2]
    said = re.findall(r"^    (\w+): ", shown.partition("\n\n")[0], re.MULTILINE)
    assert said == [field.name for field in fields(request_of)]
    documented = " ".join(inspect.getdoc(kind) or "" for kind in request_of.__mro__ if kind is not object)
    assert [field.name for field in fields(request_of) if f"{field.name}: " not in documented] == []


def test_the_command_that_goes_on_has_the_uri_of_the_tracking_server() -> None:
    assert SearchRequest("digits", "ewc", tracking_uri="http://a:1").resume_options == " --tracking-uri http://a:1"


def test_an_option_that_there_is_not_is_refused_before_anything_is_done() -> None:
    with pytest.raises(TypeError, match=r"^search\(\) got an unexpected keyword argument 'alhpa'$"):
        tausearch.search("digits", "ita-lora", alhpa=1)  # type: ignore[call-arg]


def reached(monkeypatch: pytest.MonkeyPatch, command: Any, door: str, **options: Any) -> dict[str, Any]:
    """The fields of the request that a command passes on, for options as the parser gives them."""
    found: dict[str, Any] = {}

    class Reached(Exception):
        pass

    def take(request: Any) -> None:
        assert type(request) is DOORS[door]
        found.update(vars(request))
        raise Reached

    monkeypatch.setattr(api, f"{door}_with", take)
    with pytest.raises(Reached):
        command(**options)
    return found


NUMBERS = {"trials": 9, "max_concurrent_trials": 3, "cpus_per_trial": 2, "seed": 5, "reevaluate": 4, "cache_size": 2.5}
NUMBERS |= {"reevaluate_runs": 6, "tasks": 7, "classes_per_task": 8, "epochs": 11, "patience": 12, "target": 80.5}
READ: dict[str, tuple[Any, str, Any]] = {  # an option whose text is read: text, field, value
    "set_": (["lr=0.1", "regularise=none"], "set", {"lr": 0.1, "regularise": "none"}),
    "sampler_option": (["n_startup_trials=9"], "sampler_options", {"n_startup_trials": 9}),
    "pruner_option": (["after=3"], "pruner_options", {"after": 3}),
    "callback": (["m:C"], "callbacks", ["m:C"]),
    "gpus_per_trial": ("1/4", "gpus_per_trial", 0.25),
    "time_budget": ("90m", "time_budget", 5400.0),
    "class_order": ("3", "class_order", 3),
    "seeds": ("4,5", "seeds", [4, 5]),
    "class_orders": ("1,2", "class_orders", [1, 2]),
    "format": ("json", "progress_to", "stderr"),
    "warm_start": ("paper,a.yaml", "warm_start", ["paper", "a.yaml"]),
    "what": (["a", "b"], "best", SimpleNamespace(hyperparameters={}, what=["a", "b"])),
}
COMMANDS = [
    (launch.search, "search", SearchRequest, set()),
    (launch.resume, "resume", ResumeRequest, {"trials", "reevaluate", "reevaluate_runs"}),
    (launch.extend, "resume", ResumeRequest, set()),
    (launch.train, "train", TrainRequest, set()),
]


@pytest.mark.parametrize(("command", "door", "request_of", "apart"), COMMANDS)
def test_the_command_line_reaches_every_field(
    command: Any, door: str, request_of: type, apart: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_best_of", lambda what, storage: SimpleNamespace(hyperparameters={}, what=what))
    given: dict[str, Any] = {}
    wanted: dict[str, Any] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if name in READ:
            given[name], field, wanted[field] = READ[name]
        elif name not in ("no_cache", "dry_run", "allow_code"):
            several = name in ("constraint", "objective", "task")
            value = not parameter.default if isinstance(parameter.default, bool) else [name] if several else name
            given[name] = wanted[name] = NUMBERS.get(name, value)
    unasked = {"no_cache": False, "dry_run": False, "allow_code": None}
    found = reached(monkeypatch, command, door, **given, **{k: v for k, v in unasked.items() if k in _options(command)})
    assert wanted.keys() == {field.name for field in fields(request_of)} - apart
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize(("command", "door", "request_of", "apart"), COMMANDS)
def test_the_command_line_has_the_defaults_of_the_request(
    command: Any, door: str, request_of: type, apart: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_best_of", lambda what, storage: ASKED["train"]["best"])
    asked = {"what": ["best.yaml"]} if door == "train" else ASKED[door]
    extended = {"trials": 9} if command is launch.extend else {}
    found = reached(monkeypatch, command, door, **{**_options(command), **asked, **extended})
    defaults = request_of(**ASKED[door], **extended)
    same = {name: found.get(name) or None for name in ("set", "sampler_options", "pruner_options")}  # {} and None
    same["seeds"] = tuple(found.get("seeds", ()))  # a list
    assert {**found, **{name: same[name] for name in same if name in found}} == vars(defaults)


def _options(command: Any) -> dict[str, Any]:
    """The options of a command and their defaults."""
    parameters = inspect.signature(command).parameters.items()
    return {name: parameter.default for name, parameter in parameters if parameter.default is not parameter.empty}


@pytest.mark.parametrize(
    ("command", "door", "asked"),
    [(launch.search, "search", ASKED["search"]), (launch.train, "train", {"what": ["best.yaml"]})],
)
def test_no_cache_is_a_cache_without_room(
    command: Any, door: str, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_best_of", lambda what, storage: ASKED["train"]["best"])
    given = {**_options(command), **asked, "no_cache": True, "cache_size": 5.0}
    assert reached(monkeypatch, command, door, **given)["cache_size"] == 0.0


@pytest.mark.parametrize(
    ("command", "door"), [(compose.compose, "compose"), (compose.evaluate, "evaluate"), (compose.figures, "draw")]
)
def test_commands_on_task_vectors_have_the_defaults_of_the_request(
    command: Any, door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = reached(monkeypatch, command, door, runs=["a"], **_options(command))
    assert {**found, **({"set": found["set"] or None} if "set" in found else {})} == vars(DOORS[door](["a"]))
    options = {**_options(command), "device": "cpu"}
    assert reached(monkeypatch, command, door, runs=["a"], **options)["device"] == "cpu"


@pytest.mark.parametrize(
    ("command", "request_of", "read"),
    [
        (compose.compose, ComposeRequest, set()),
        (compose.evaluate, EvaluateRequest, set()),
        (compose.figures, FiguresRequest, set()),
        (campaign.run, CampaignRequest, {"callbacks", "progress_to"}),
    ],
)
def test_other_commands_have_an_option_for_every_field(command: Any, request_of: type, read: set[str]) -> None:
    options = {name.rstrip("_") for name in inspect.signature(command).parameters}
    assert {field.name for field in fields(request_of)} - options == read
    assert options - {field.name for field in fields(request_of)} <= {"allow_code", "callback", "format"}


def test_numbers_of_numpy_count_as_numbers_and_its_truth_values_do_not() -> None:
    request = SearchRequest("digits", "ita-lora", trials=np.int64(3), set={"rank": np.int32(4), "lr": np.float32(0.5)})
    assert (type(request.trials), request.trials) == (int, 3)
    assert {k: (type(v), v) for k, v in (request.set or {}).items()} == {"rank": (int, 4), "lr": (float, 0.5)}
    assert TrainRequest(BEST, seeds=np.arange(2)).seeds == [0, 1]  # type: ignore[arg-type]
    drop: Any = [np.int64(1), "2"]
    composed = ComposeRequest(["a"], weights=np.array([0.5, -0.5]), drop=drop)  # type: ignore[arg-type]
    assert composed.weights == [0.5, -0.5] and composed.drop == [1, "2"]
    wrong: list[dict[str, Any]] = [{"trials": np.bool_(True)}, {"trials": np.float64(3)}, {"trials": np.array([3])}]
    for given in [*wrong, {"seed": np.array("1")}]:
        with pytest.raises(InputError, match="^--(trials|seed) must be "):
            SearchRequest("digits", "ita-lora", **given)


def test_all_wrong_fields_are_said_at_once() -> None:
    with pytest.raises(InputError) as found:
        SearchRequest("digits", "ita-lora", trials=0, epochs=0, seed=1, name="")
    assert [line.split()[0] for line in found.value.args] == ["--name", "--trials", "--epochs"]


@pytest.mark.parametrize(
    ("request_of", "given", "words"),
    [
        (SearchRequest, {"method": ["a"]}, "method must be a text, got ['a']"),
        (SearchRequest, {"name": 5}, "--name must be a text, got 5"),
        (
            ComposeRequest,
            {"runs": ["ita"], "rule": InputError},
            "--rule must be a text, got a class; its name is 'checked_input.errors:InputError'",
        ),
        (SearchRequest, {"storage": 5}, "--storage must be a path, got 5"),
        (SearchRequest, {"set": ["lr=1"]}, "--set must be a mapping of names to values, got ['lr=1']"),
        (
            SearchRequest,
            {"sampler_options": {"seed": None}},
            "--sampler-option seed=None: must be a number, a text, true or false",
        ),
        (SearchRequest, {"pruner_options": {3: 1}}, "--pruner-option must have texts as names, got 3"),
        (SearchRequest, {"warm_start": "paper"}, "--warm-start must be a list of texts, got 'paper'"),
        (SearchRequest, {"time_budget": [1]}, "--time-budget must be one number, got [1]"),
        (TrainRequest, {"best": BEST, "seeds": 3}, "--seeds must be a list of whole numbers, got 3"),
        (TrainRequest, {"best": "s1"}, "best must be a best file, as `load_best` returns it, got 's1'"),
        (TrainRequest, {"best": None}, "best must be a best file, as `load_best` returns it, got None"),
        (SearchRequest, {"task": [["0", "1"]]}, "--task must be a list of texts, got [['0', '1']]"),
        (SearchRequest, {"task": [3]}, "--task must be a list of texts, got [3]"),
        (SearchRequest, {"callbacks": 5}, "--callback must be a list of callbacks, got 5"),
        (SearchRequest, {"progress_to": "x"}, "progress_to must be 'stdout', 'stderr' or 'nowhere', got 'x'"),
        (SearchRequest, {"with_bounds": "no"}, "--with-bounds must be True or False, got 'no'"),
        (EvaluateRequest, {"runs": [None]}, "runs must be a list of texts, got [None]"),
        (EvaluateRequest, {"runs": []}, "runs: name at least one run"),
        (EvaluateRequest, {"runs": ["b", "a", "a/"]}, "run a: is given twice"),
        (ComposeRequest, {"runs": ["a:1", "a:2", "a:1"]}, "run a:1: is given twice"),
        (FiguresRequest, {"runs": ["a/b", "a", Path("a//b/")]}, "run a/b: is given twice"),
        (ComposeRequest, {"runs": "ita"}, "runs must be a list of texts, got 'ita'"),
        (ComposeRequest, {"runs": ["ita"], "keep": 1}, "--keep must be a list of whole numbers or names, got 1"),
        (SearchRequest, {"task": ["0,1", 3]}, "--task must be a list of texts, got ['0,1', 3]"),
        (SearchRequest, {"name": InputError}, f"--name must be a text, got {InputError}"),
        (SearchRequest, {"data_root": Path("a\nb")}, "--data-root must be a line of printable characters, got 'a\\nb'"),
        (SearchRequest, {"seed": None}, f"--seed {ranges.SEED.fault(None)}"),
        (TrainRequest, {"best": BEST, "seeds": [0, None]}, f"--seeds {ranges.SEED.fault(None)}"),
    ],
)
def test_what_is_of_another_kind_is_named(request_of: type, given: dict[str, Any], words: str) -> None:
    rest = {"benchmark": "digits", "method": "ita-lora"} if request_of is SearchRequest else {}
    with pytest.raises(InputError, match=f"^{re.escape(words)}$"):
        request_of(**{**rest, **given})
