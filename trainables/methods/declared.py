"""A method of the user: a class that carries its declarations, checked before any work.

Its class attributes have the names of the fields of `MethodEntry`, but `idle`, `remnants` and `vectors` are not read.
Only `config` is needed.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, get_type_hints

from trainables.errors import InputError
from trainables.methods.contract import Capabilities, Composable, Curved, ExtraMetric, Method
from trainables.methods.entry import MethodEntry, validator_of
from trainables.metrics import TRAIN_LOSS
from trainables.user_code import called, kind_of, require_members


@cache
def entry_of(name: str, declared: type) -> MethodEntry:
    """Return the entry of a method of the user; a missing or wrong declaration or method is an InputError."""
    what = f"method {name!r}"
    config = getattr(declared, "config", None)
    if not isinstance(config, type) or not is_dataclass(config):
        raise InputError(f"{what}: config must be the dataclass of its hyperparameters, got {_shown(config)}")
    called(f"{what}: config {config.__name__}", lambda: (get_type_hints(config), validator_of(config)))
    if taken := [each.name for each in fields(config) if each.name in _TAKEN]:
        raise InputError(
            f"{what}: hyperparameter {taken[0]!r}: MLflow has a parameter of each trial of this name; rename it"
        )
    capabilities = getattr(declared, "capabilities", Capabilities())
    if not isinstance(capabilities, Capabilities):
        raise InputError(f"{what}: capabilities must be a Capabilities, got {_shown(capabilities)}")
    if capabilities.curvature and not capabilities.composable:
        raise InputError(f"{what}: capabilities: curvature goes with composable, because it is saved with task vectors")
    contract = Curved if capabilities.curvature else Composable if capabilities.composable else Method
    require_members(what, declared, contract)
    _require_call(what, declared, "context", "config")
    optional: dict[str, Any] = {}
    for field, arguments in _FUNCTIONS.items():
        if (function := getattr(declared, field, None)) is not None:
            _require_call(f"{what}: {field}", function, *arguments)
            optional[field] = partial(_guarded, f"{what}: {field}", function)
    return MethodEntry(
        name,
        config,
        capabilities,
        declared,
        metrics=_metrics(what, getattr(declared, "metrics", ())),
        neutral_values=_neutral(what, getattr(declared, "neutral_values", {}), config),
        space=_space(what, declared),
        **optional,
    )


_TAKEN = ["class_order", "seed", "split_seed"]  # MLflow tells trials of the same hyperparameters apart by these
_FUNCTIONS = {
    "validate": ("config", "scenario"),
    "own_data_defaults": ("scenario", "steps"),
    "unsuited": ("config", "images"),
}


def _guarded(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    return called(what, lambda: function(*arguments))


def _require_call(what: str, function: Callable[..., Any], *arguments: str) -> None:
    """Refuse a function or class that cannot be called with so many positional arguments."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise InputError(f"{what}: must take ({', '.join(arguments)}) ({error})") from error


def _metrics(what: str, metrics: object) -> tuple[ExtraMetric, ...]:
    if not isinstance(metrics, tuple) or not all(isinstance(each, ExtraMetric) for each in metrics):
        wrong = [each for each in metrics if not isinstance(each, ExtraMetric)] if isinstance(metrics, tuple) else []
        got = f"a tuple with {_shown(wrong[0])}" if wrong else _shown(metrics)
        raise InputError(f"{what}: metrics must be a tuple of ExtraMetric, got {got}")
    for each in metrics:
        # Others are Tune's, the tool's, or dropped.
        if not str(each.name).startswith("train/") or each.name == TRAIN_LOSS:
            raise InputError(f"{what}: metric {each.name!r}: its name must begin with train/ and not be {TRAIN_LOSS}")
        try:
            each.warn(0, [{"task": 1, each.name: float(each.limit or 0.0)}])
        except (LookupError, ValueError, AttributeError, TypeError) as error:
            raise InputError(
                f"{what}: metric {each.name!r}: warning must be a template with the fields trial, worst, task and limit"
                f" ({type(error).__name__}: {error})"
            ) from error
    return metrics


def _neutral(what: str, values: object, config: type) -> Mapping[str, str | float]:
    """Return the neutral values; they are defaults, so a run without the hyperparameter has them, too."""
    if not isinstance(values, Mapping):
        raise InputError(f"{what}: neutral_values must map hyperparameters to values, got {_shown(values)}")
    defaults = {each.name: each.default for each in fields(config)}
    for name, value in values.items():
        if defaults.get(name, MISSING) != value:
            raise InputError(f"{what}: neutral_values: {name!r} must be a hyperparameter whose default is {value!r}")
    return values


def _space(what: str, declared: type) -> Path:
    """Return the file of the search space beside the class's module, whether it exists or not."""
    module = Path(sys.modules[declared.__module__].__file__ or "")
    name = getattr(declared, "space", f"{module.stem}.yaml")
    if not isinstance(name, str) or Path(name).name != name:
        raise InputError(f"{what}: space must be the name of a file beside {module.name}, got {_shown(name)}")
    return module.with_name(name)


def _shown(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return repr(value)[:100] if isinstance(value, str) else kind_of(value)
