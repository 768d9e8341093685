"""Samplers and pruners by name: Optuna's own, and those of the user's code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeVar

from checked_input.names import choices
from search_spaces import Scalar
from trainables.errors import InputError
from trainables.user_code import BY_CODE, called, find, installed, is_code

OPTUNA = "optuna:"
T = TypeVar("T")
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "none": None}
OPTIONS = {"sampler": "algorithm", "pruner": "scheduler"}  # what is named, to the option that names it


def named_class(kind: str, name: str, ours: Sequence[str], base: type[T], library: ModuleType) -> type[T]:
    """Return the class of a sampler or pruner by `optuna:CLASS`, `MODULE:NAME` or its name in an installed package."""
    if name.startswith(OPTUNA):
        known = {each: getattr(library, each) for each in library.__all__}
        wanted = {
            each: found for each, found in known.items() if isinstance(found, type) and not inspect.isabstract(found)
        }
        own = name.removeprefix(OPTUNA)
        if own not in wanted:
            raise InputError(f"unknown {OPTIONS[kind]} {name!r}: Optuna has no such {kind}; {choices(own, wanted)}")
        return wanted[own]
    if not is_code(name) and name not in installed(kind):
        allowed = choices(name, (*ours, *installed(kind)), "optuna:CLASS", BY_CODE)
        raise InputError(f"unknown {OPTIONS[kind]} {name!r}; {allowed}")
    found = find(kind, name, dict.fromkeys(ours, base), type)
    if not issubclass(found, base):
        raise InputError(f"{kind} {name!r}: must be a subclass of optuna's {base.__name__}")
    return found


def made(kind: str, name: str, make: Callable[..., T], options: Mapping[str, Scalar]) -> T:
    """Return a sampler or pruner with its options; the texts true, false and none are Python's values."""
    values = {key: _WORDS.get(str(value).lower(), value) for key, value in options.items()}
    parameters = inspect.signature(make).parameters
    if not any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        for key in sorted(values.keys() - parameters.keys()):
            allowed = choices(key, (each for each in parameters if each != "seed"))
            raise InputError(f"{kind} {name!r}: unknown option {key!r}; {allowed}")
    if lacking := [each.name for each in parameters.values() if _is_needed(each) and each.name not in values]:
        wanted = " and ".join(f"--{kind}-option {key}=..." for key in lacking)
        raise InputError(f"{kind} {name!r}: needs {wanted}")
    for key in sorted(values.keys() & parameters.keys()):
        if _is_switch(parameters[key]) and values[key] not in (True, False, None):
            raise InputError(f"{kind} {name!r}: {key} must be true or false, got {options[key]!r}")
    return called(with_options(f"{kind} {name!r}", options), lambda: make(**values))


def with_options(what: str, options: Mapping[str, Scalar]) -> str:
    """Return what the beginning of an error says of a sampler or pruner, with the options that a user gave it."""
    given = " ".join(f"{key}={value}" for key, value in options.items() if key != "seed")
    return f"{what} with {given}" if given else what


def _is_switch(parameter: inspect.Parameter) -> bool:
    """Whether a parameter is true or false, by what it is annotated with, else by its default."""
    switches = (bool, "bool", "bool | None", "Optional[bool]")
    bare = parameter.annotation is parameter.empty
    return parameter.annotation in switches or (bare and isinstance(parameter.default, bool))


def _is_needed(parameter: inspect.Parameter) -> bool:
    """Whether a parameter must be given; the seed of a sampler is ours to give."""
    many = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    return parameter.default is parameter.empty and not many and parameter.name != "seed"
