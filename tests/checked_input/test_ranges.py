"""Ranges of numbers and limits of texts, and that every request and every file of a run has them."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checked_input import ranges as ranges_module
from checked_input.ranges import LONGEST_TEXT, SEED, SHARE, TIME, TRIALS, NumberRange, different_fault, text_fault
from search_spaces import parse_assignments
from search_spaces.schema import Choices, Range
from tausearch.api import ComposeRequest, EvaluateRequest, FiguresRequest, ResumeRequest, SearchRequest, TrainRequest
from trainables.errors import InputError
from trainables.methods import METHODS

REQUESTS: dict[type, dict[str, Any]] = {
    SearchRequest: {"benchmark": "digits", "method": "ita-lora"},
    ResumeRequest: {"name": "s"},
    TrainRequest: {"best": SimpleNamespace(hyperparameters={})},
    EvaluateRequest: {"runs": ["f"]},
    ComposeRequest: {"runs": ["f"]},
    FiguresRequest: {"runs": ["f"]},
}
FIELDS = [(kind, field) for kind in REQUESTS for field in fields(kind)]
WRONG_NUMBERS: list[Any] = [-(10**400), 10**400, 10**5000, float("nan"), float("inf"), -1e300, "3", True, b"3", 1 + 0j]
WRONG_TEXTS = ["", "  ", "a\nb", "a\0b", "\udcff", "x" * (LONGEST_TEXT + 1)]


@pytest.mark.parametrize(
    ("limits", "inside", "outside"),
    [
        (TRIALS, [1, 100_000], [0, 100_001, 1.0, True, "1", None, 10**5000]),
        (SEED, [0, 2**32 - 1], [-1, 2**32, float("nan")]),
        (SHARE, [0, 1, 0.5, 1.0], [-1e-9, 1.0000001, float("nan"), float("inf"), False, 10**400]),
        (TIME, [0.001, 3600], [0, -1, 1e300]),
    ],
)
def test_what_lies_within(limits: NumberRange, inside: list[Any], outside: list[Any]) -> None:
    assert [limits.fault(value) for value in inside] == [None] * len(inside)
    for value in outside:
        assert (limits.fault(value) or "").startswith(f"must be {limits.words}, got ")
        assert len(limits.fault(value) or "") < 150
    with pytest.raises(ValueError, match="must be"):
        limits.checked(outside[0])


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("TRIALS", 1, 100_000),
        ("CONCURRENT", 1, 100_000),
        ("SEED", 0, 2**32 - 1),
        ("THREADS", 1, 4096),
        ("GIGABYTES", 0, 1e6),  # 0 turns the cache off
        ("REEVALUATED", 1, 1000),
        ("REEVALUATE", 0, 1000),  # 0 turns it off
        ("ROUNDS", 1, 100),  # the numbers of re-evaluations count in hundreds
        ("TASKS", 1, 100_000),
        ("IMAGE_BYTES", 1, 2**31),
        ("CLASSES_PER_TASK", 2, 100_000),
        ("EPOCHS", 1, 100_000),
        ("BATCH", 1, 1_000_000),
        ("SHARE", 0, 1),
        ("WEIGHT", -1e6, 1e6),
    ],
)
def test_both_ends_are_allowed_and_nothing_beyond(name: str, low: float, high: float) -> None:
    found: NumberRange = getattr(ranges_module, name)
    assert [found.fault(value) is None for value in (low - 1, low, high, high + 1)] == [False, True, True, False]


def test_the_unit_is_said() -> None:
    assert TIME.fault(-1) == "must be a number from 0.001 to 316224000 seconds, got -1"
    assert TRIALS.fault(0) == "must be a whole number from 1 to 100000, got 0"


def test_texts() -> None:
    assert all(text_fault(text) for text in WRONG_TEXTS)
    assert not any(map(text_fault, ["a", "/tmp/a b/ä?#%", "x" * LONGEST_TEXT]))


def is_number(field: Any) -> bool:
    return any(word in str(field.type) for word in ("int", "float")) and field.name != "gpus_per_trial"


def wrong_values(field: Any) -> list[Any]:
    text = "str" in str(field.type) and field.name not in ("overrides", "gpus_per_trial")
    numbers = [each for each in WRONG_NUMBERS if not (text and isinstance(each, str))]
    return numbers * is_number(field) + WRONG_TEXTS * text


def test_every_number_of_a_request_has_bounds() -> None:
    numbers = [(kind, field) for kind, field in FIELDS if is_number(field)]
    assert len(numbers) > 20
    for kind, field in numbers:
        assert isinstance(field.metadata.get("range"), NumberRange), f"{kind.__name__}.{field.name}"


@pytest.mark.parametrize(
    ("kind", "field"), FIELDS, ids=lambda each: getattr(each, "name", getattr(each, "__name__", ""))
)
def test_no_request_is_made_of_what_is_out_of_bounds(kind: type, field: Any) -> None:
    for value in wrong_values(field):
        for given in [[value], value] if "Sequence" in str(field.type) else [value]:
            with pytest.raises(InputError) as error:
                kind(**{**REQUESTS[kind], field.name: given})
            said, word = str(error.value), field.name.split("_")[0].removesuffix("s")
            assert word in said and len(said.splitlines()) == 1
    if field.default is not MISSING:
        kind(**{**REQUESTS[kind], field.name: field.default})


@pytest.mark.parametrize("name", METHODS)
def test_every_hyperparameter_has_bounds(name: str) -> None:
    entry = METHODS[name]
    kinds = typing.get_type_hints(entry.config, include_extras=False)
    usual = {"lr": 0.01, **({"epsilon": 0.9} if "epsilon" in kinds else {})}
    known = {each.name: each.default for each in fields(entry.config) if each.default is not MISSING}
    missing = [each.name for each in fields(entry.config) if each.name not in known and each.name not in usual]
    start = {**known, **{key: 1 for key in missing}, **{key: value for key, value in usual.items() if key in kinds}}
    assert entry.parse(start)
    for key in kinds:
        for value in (10**12 if kinds[key] is int else 1e31, float("nan"), float("inf"), 10**400, -(10**12)):
            with pytest.raises(InputError, match=key) as error:
                entry.parse({**start, key: value})
            assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    "texts", [["lr=1", "lr=2"], ["lr=1", " lr =1"], ["lr=" + "9" * 400], ["lr=1e400"], ["lr"], ["lr="], ["=1"], [""]]
)
def test_assignments_that_are_refused(texts: list[str]) -> None:
    with pytest.raises(InputError, match="--set ") as error:
        parse_assignments(texts)
    assert len(str(error.value)) < 200


def test_assignments() -> None:
    found = parse_assignments(["lr=1e-3", "regularise=none", "epochs = 3", "a=0x1F", "b=nan"])
    assert found == {"lr": 0.001, "regularise": "none", "epochs": 3, "a": "0x1F", "b": "nan"}
    assert type(found["epochs"]) is int
    assert parse_assignments(["a=b=c"]) == {"a": "b=c"}  # the first sign ends the name


@pytest.mark.parametrize("choices", [[], ["a", "a"], [1, 1.0], ["1", 1], [float("nan")], ["1e400"]])
def test_choices_of_no_use(choices: list[Any]) -> None:
    with pytest.raises(ValueError, match="choices"):
        Choices.model_validate({"choices": choices})


def test_choices_that_only_look_alike() -> None:
    assert Choices.model_validate({"choices": [True, 1, "a", "A"]}).choices == (True, 1, "a", "A")
    with pytest.raises(ValueError, match="different"):
        Range.model_validate({"low": 1, "high": 5, "grid": [2, 2.0]})


@pytest.mark.parametrize(
    ("numbers", "allowed"), [(range(1000), True), ((5,), True), (range(1001), False), ((), False), ((2, 1, 2), False)]
)
def test_there_are_1_to_1000_different_seeds(numbers: Sequence[int], allowed: bool) -> None:
    fault = different_fault(numbers)
    assert fault is None if allowed else fault is not None and fault.startswith("must be 1 to 1000 different numbers")


def test_a_path_of_a_request_may_begin_with_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    paths = {(kind, field.name) for kind, field in FIELDS if str(field.type).startswith("str | Path")}
    assert {(ComposeRequest, "export"), (FiguresRequest, "output"), (SearchRequest, "space")} <= paths
    for kind, name in paths:
        for given in ("~/x", Path("~/x")):
            assert getattr(kind(**{**REQUESTS[kind], name: given}), name) == type(given)(tmp_path / "x")
