"""The entry of a method, which has everything that it declares about itself, and our own entries by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from checked_input.names import choices
from checked_input.schema import words_of
from checked_input.text_files import shown
from trainables.backbones import Backbone
from trainables.curvature import KINDS
from trainables.data import BenchmarkSpec
from trainables.data.few_images import OwnImages, Unsuited
from trainables.errors import InputError
from trainables.methods.contract import Capabilities, Context, ExtraMetric, Method, Scenario

Values = tuple[tuple[str, str | float], ...]  # of hyperparameters, by name


@dataclass(frozen=True)
class MethodEntry:
    """A method and everything that it declares about itself.

    Attributes:
        name: The method's name on the command line.
        config: The frozen dataclass of the method's hyperparameters.
        capabilities: The method's needs and artifacts.
        build: Function that makes the method from a context and a config.
        metrics: Metrics of this method alone; a row may lack them.
        neutral_values: Hyperparameters that make a run another experiment, each with the value that does not. A missing
            hyperparameter means that value.
        idle: Values that together leave other hyperparameters without effect, `(("regularise", "head"),): ("alpha",)`.
            A search with such values does not search these.
        validate: Function that raises `InputError` if the config cannot run in the scenario. It is called before any
            work and sees the backbone's shape but no weights.
        own_data_defaults: Function of a scenario and the batches per epoch. It returns hyperparameters for the user's
            own images, in files or in code, which replace the fixed defaults of the method's search space.
        unsuited: Function of a config and the user's own images. It returns the method's usual settings that do not
            suit so few images, for the dry run.
        remnants: Function of the hyperparameters that are known of a run of a composable method. It returns what a task
            may keep of images of tasks before it: sentences that follow "task 3: ", none if it keeps nothing. None in
            its place says that nobody knows.
        vectors: What its task vectors are, a sentence for model cards, where they are no differences of weights.
    """

    name: str
    config: type
    capabilities: Capabilities
    build: Callable[[Context, Any], Method]
    metrics: tuple[ExtraMetric, ...] = ()
    neutral_values: Mapping[str, str | float] = field(default_factory=dict)
    idle: Mapping[Values, tuple[str, ...]] = field(default_factory=dict)
    validate: Callable[[Any, Scenario], None] = lambda config, scenario: None
    own_data_defaults: Callable[[Scenario, int], Mapping[str, float | int]] = lambda scenario, steps: {}
    unsuited: Callable[[Any, OwnImages], Iterable[Unsuited]] = lambda config, images: ()
    space: Path | None = None
    remnants: Callable[[Mapping[str, Any]], Iterable[str]] | None = None
    vectors: str = ""

    def parse(self, hyperparameters: Mapping[str, Any]) -> Any:
        """Return the checked config for hyperparameters; the first that is unknown, missing or wrong: InputError."""
        known = [field.name for field in fields(self.config)]
        unknown = sorted(set(hyperparameters) - set(known))
        if unknown:
            raise InputError(f"{self.name}: unknown hyperparameter {unknown[0]!r}; {choices(unknown[0], known)}")
        try:
            return validator_of(self.config).validate_python(dict(hyperparameters))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            got = "" if first["type"] == "missing" else f", got {shown(first['input'])}"
            raise InputError(f"{self.name}: hyperparameter {key!r}: {words_of(first)}{got}") from error

    def idle_with(self, fixed: Mapping[str, Any]) -> dict[str, str]:
        """Return the hyperparameters that have no effect with some values, and why: `regularise=none`."""
        why: dict[str, str] = {}
        for given, names in self.idle.items():
            if all(fixed.get(key) == value for key, value in given):
                why |= dict.fromkeys(names, " and ".join(f"{key}={value}" for key, value in given))
        return why

    def idle_words(self, fixed: Mapping[str, Any]) -> list[str]:
        """Return the fixed hyperparameters that have no effect, and why: `alpha, alpha_cls with regularise=none`."""
        why = {name: reason for name, reason in self.idle_with(fixed).items() if name in fixed}
        reasons = dict.fromkeys(why.values())
        return [f"{', '.join(name for name in fixed if why.get(name) == each)} with {each}" for each in reasons]

    def removability_fault(self, tasks: int) -> str | None:
        """Return why no trial with so many tasks can be measured without one of its task vectors; None if it can."""
        if not self.capabilities.composable:
            able = ", ".join(name for name, entry in METHODS.items() if entry.capabilities.composable)
            return f"{self.name} has no task vectors to leave out; allowed with it: {able}"
        return None if tasks > 1 else "leaves out one task of several, and the benchmark has one"

    def curvature_fault(self, hyperparameters: Mapping[str, Any]) -> str | None:
        """Return why no final run can save a curvature with its task vectors; None if it can."""
        if self.capabilities.curvature:
            kind = hyperparameters.get("curvature")
            ours = not isinstance(kind, str) or kind in KINDS
            return None if ours else f"saves a curvature of {' or '.join(KINDS)} alone, and this run's is {kind!r}"
        able = ", ".join(name for name, entry in METHODS.items() if entry.capabilities.curvature)
        return f"{self.name} has no curvature of its tasks; allowed with it: {able}"

    def scenario(self, spec: BenchmarkSpec, backbone: Backbone) -> Scenario:
        """Return the scenario on a benchmark, of all tasks as one if joint; an unused initial head is an InputError."""
        if backbone.head is not None and not self.capabilities.initial_head:
            able = ", ".join(name for name, entry in METHODS.items() if entry.capabilities.initial_head)
            raise InputError(f"--initial-head: the heads of {self.name} do not start at given rows; those of {able} do")
        everything = (range(len(spec.class_names)),)
        return Scenario(backbone, everything if self.capabilities.joint else spec.task_classes)


@cache
def validator_of(config: type) -> TypeAdapter[Any]:
    """Return the validator of a config; making it takes longer than using it."""
    return TypeAdapter(config)


METHODS: dict[str, MethodEntry] = {}  # those that come with the tool
