"""What an error says of an unknown name: what is allowed, and which of it was meant."""

from __future__ import annotations

import pytest

from checked_input.names import choices, counted, near
from search_spaces import load_space
from tausearch.studies import algorithm_named
from trainables.data import reference
from trainables.errors import InputError
from trainables.methods import get_method


def test_the_most_similar_names_come_first_and_once() -> None:
    assert near("digts", ["letters", "digits", "digit", "digits", "dig"]) == ["digits", "digit", "dig"]
    assert near("zzz", ["digits"]) == [] == near("", ["digits"])
    assert near("ita", ["tak", "ita-lora", "ita-fft", "ewc"]) == ["ita-lora", "ita-fft", "tak"]  # a beginning first


def test_a_name_with_little_in_common_is_not_suggested() -> None:
    assert near("extra", ["campaign", "search", "train"]) == [] == near("retrain_later", ["reevaluate"])
    assert near("fft", ["ita-lora", "ita-fft", "iel-fft"]) == ["ita-fft", "iel-fft"]  # a part of it
    assert near("lr", ["lora-lr", "clr"]) == ["clr"]  # two letters are in many names


@pytest.mark.parametrize(
    ("name", "names", "forms", "said"),
    [
        ("tpu", ["tpe", "gp"], ["MODULE:NAME"], "allowed: tpe, gp, MODULE:NAME; did you mean 'tpe'?"),
        ("MODULE", ["tpe"], ["MODULE:NAME"], "allowed: tpe, MODULE:NAME"),  # a form is nothing to type
        ("colour", ["color", "colours"], [], "allowed: color, colours; did you mean 'colours' or 'color'?"),
        ("tpu", ["tpe", *"abcdefg"], ["M"], "did you mean 'tpe'? allowed: tpe, a, b, c, d, e, f, g, M"),
        ("zzz", ["tpe", *"abcdefg"], [], "allowed: tpe, a, b, c, d, e, f, g"),
        ("x", [], [], "allowed: none"),
        (3, ["tpe"], [], "allowed: tpe"),
    ],
)
def test_what_is_allowed_and_what_was_meant(name: object, names: list[str], forms: list[str], said: str) -> None:
    assert choices(name, iter(names), *forms) == said


def test_names_of_methods_benchmarks_algorithms_and_hyperparameters_are_suggested() -> None:
    with pytest.raises(InputError, match=r"unknown method 'ita-lroa'; did you mean 'ita-lora' or .* allowed: "):
        get_method("ita-lroa")
    with pytest.raises(InputError, match=r"unknown benchmark 'digts'; did you mean 'digits'\? allowed: .*:NAME or "):
        reference("digts?tasks=2")
    with pytest.raises(InputError, match=r"unknown algorithm 'tpu'; .*; did you mean 'tpe'"):
        algorithm_named("tpu")
    with pytest.raises(InputError, match=r"unknown hyperparameter 'bta'; .*; did you mean 'beta'"):
        load_space("iel-lora", "digits", overrides={"bta": 1})


def test_no_more_than_three_names_are_suggested() -> None:
    assert near("tas", ["task", "tasks", "taskset", "tast"]) == ["task", "tasks", "taskset"]


@pytest.mark.parametrize(
    ("count", "noun", "said"),
    [(1, "class", "1 class"), (2, "class", "2 classes"), (0, "entry", "0 entries"), (1200, "trial", "1,200 trials")],
)
def test_a_count_has_its_noun(count: int, noun: str, said: str) -> None:
    assert counted(count, noun) == said
