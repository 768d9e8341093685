"""The register of methods: name to hyperparameters, capabilities and maker. Registering a name twice is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from trainables.backbones import Backbone
from trainables.data import BenchmarkSpec
from trainables.errors import InputError
from trainables.methods.contract import Capabilities, Context, ExtraMetric, Method, Setting


@dataclass(frozen=True)
class MethodEntry:
    """A method that runs, and everything that it declares about itself.

    Attributes:
        name: The method's name on the command line.
        config: The class of the method's hyperparameters, a frozen dataclass.
        capabilities: What the method needs and what it leaves behind.
        build: Function that makes the method from a context and a config.
        metrics: What its rows hold beside the metrics of every method; a row may lack them.
        usual: Hyperparameters whose other values make it another experiment, with the value that does not; what is
            written down without one of them means that value.
        requires: Function of a config and a setting that raises `InputError` if the one cannot run in the other; it is
            asked before anything is read, so that it can look at the backbone's shape but not at weights.
        suited: Function of a setting and the number of batches of an epoch that returns hyperparameters for one's own
            images, in the place of what the method's space fixes by default.
    """

    name: str
    config: type
    capabilities: Capabilities
    build: Callable[[Context, Any], Method]
    metrics: tuple[ExtraMetric, ...] = ()
    usual: Mapping[str, str | float] = field(default_factory=dict)
    requires: Callable[[Any, Setting], None] = lambda config, setting: None
    suited: Callable[[Setting, int], Mapping[str, float | int]] = lambda setting, steps: {}

    def parse(self, hyperparameters: Mapping[str, Any]) -> Any:
        """Turn names and values into the method's config.

        Returns:
            The method's config, checked.

        Raises:
            InputError: If a hyperparameter is unknown, missing or out of range; names the first, and what is allowed.
        """
        known = [field.name for field in fields(self.config)]
        unknown = sorted(set(hyperparameters) - set(known))
        if unknown:
            raise InputError(f"{self.name}: unknown hyperparameter {unknown[0]!r}; allowed: {', '.join(known)}")
        try:
            return _adapter(self.config).validate_python(dict(hyperparameters))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            got = "" if first["type"] == "missing" else f", got {_shown(first['input'])}"
            raise InputError(f"{self.name}: hyperparameter {key!r}: {first['msg']}{got}") from error

    def setting(self, spec: BenchmarkSpec, backbone: Backbone) -> Setting:
        """Return where the method runs on a benchmark: over its tasks, or over all of them as one."""
        everything = (range(len(spec.class_names)),)
        return Setting(backbone, everything if self.capabilities.joint else spec.task_classes)


@cache
def _adapter(config: type) -> TypeAdapter[Any]:
    """Return what checks a config; it is made once, which takes longer than to use it."""
    return TypeAdapter(config)


def _shown(value: object) -> str:
    try:
        return repr(value)[:100]
    except ValueError:  # Python writes no whole number of thousands of digits
        return "a number too large to show"


METHODS: dict[str, MethodEntry] = {}


def register(entry: MethodEntry) -> None:
    """Make a method known under its name.

    Raises:
        ValueError: If a method of that name is registered already.
    """
    if entry.name in METHODS:
        raise ValueError(f"a method named {entry.name!r} is registered already")
    METHODS[entry.name] = entry


def get_method(name: str) -> MethodEntry:
    """Look a method up by name.

    Returns:
        The method's entry.

    Raises:
        InputError: If no method of that name is registered.
    """
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}; allowed: {', '.join(METHODS)}")
    return METHODS[name]
