"""Which methods there are: name to hyperparameters, capabilities and maker. Registering a name twice is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from trainables.errors import InputError
from trainables.methods._composable import ComposableConfig, ComposableLearner, Rule
from trainables.methods.finetune import Finetune, FinetuneConfig
from trainables.methods.iel import IELConfig, IELRule
from trainables.methods.ita import ITAConfig, ITARule
from trainables.methods.protocol import Capabilities, Context, Method
from trainables.task_vectors import FullTaskVectors, IA3TaskVectors, LoRATaskVectors

Rank = Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class MethodEntry:
    """A method that runs.

    Attributes:
        name: As the command line calls it.
        config: Its hyperparameters, a frozen dataclass.
        capabilities: What it declares about itself.
        build: Makes it.
    """

    name: str
    config: type
    capabilities: Capabilities
    build: Callable[[Context, Any], Method]

    def parse(self, hyperparameters: Mapping[str, Any]) -> Any:
        """Turn names and values into the method's config.

        Returns:
            The config.

        Raises:
            InputError: Naming the first hyperparameter that is unknown, missing or out of range, and what is allowed.
        """
        known = [field.name for field in fields(self.config)]
        unknown = sorted(set(hyperparameters) - set(known))
        if unknown:
            raise InputError(f"{self.name}: unknown hyperparameter {unknown[0]!r}; allowed: {', '.join(known)}")
        try:
            return TypeAdapter(self.config).validate_python(dict(hyperparameters))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            got = "" if first["type"] == "missing" else f", got {first['input']!r}"
            raise InputError(f"{self.name}: hyperparameter {key!r}: {first['msg']}{got}") from error


METHODS: dict[str, MethodEntry] = {}


def register(entry: MethodEntry) -> None:
    """Make a method known under its name.

    Raises:
        ValueError: If the name is taken.
    """
    if entry.name in METHODS:
        raise ValueError(f"a method named {entry.name!r} is registered already")
    METHODS[entry.name] = entry


def get_method(name: str) -> MethodEntry:
    """Look a method up by name.

    Returns:
        Its entry.

    Raises:
        InputError: If there is none of that name.
    """
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}; allowed: {', '.join(METHODS)}")
    return METHODS[name]


@dataclass(frozen=True, kw_only=True)
class ITALoRAConfig(ITAConfig):
    """ITA with LoRA.

    Attributes:
        rank: r of proj, fc1 and fc2; qkv has 3 r.
    """

    rank: Rank = 16


@dataclass(frozen=True, kw_only=True)
class IELLoRAConfig(IELConfig):
    """IEL with LoRA.

    Attributes:
        rank: r of proj, fc1 and fc2; qkv has 3 r.
    """

    rank: Rank = 16


def _full(context: Context, config: ComposableConfig, rule: Callable[[Any], Rule]) -> Method:
    # The paper couples the regulariser with the optimiser for full fine-tuning alone; the authors' code never does.
    return ComposableLearner(context, rule(config), FullTaskVectors, coupled=config.formulation == "paper")


def _ia3(context: Context, config: ComposableConfig, rule: Callable[[Any], Rule]) -> Method:
    return ComposableLearner(context, rule(config), IA3TaskVectors, coupled=False)


def _lora(context: Context, config: ITALoRAConfig | IELLoRAConfig, rule: Callable[[Any], Rule]) -> Method:
    vectors = partial(
        LoRATaskVectors, rank=config.rank, init="gaussian" if config.formulation == "paper" else "uniform"
    )
    return ComposableLearner(context, rule(config), vectors, coupled=False)


_COMPOSABLE = ComposableLearner.capabilities
register(MethodEntry("ita-fft", ITAConfig, _COMPOSABLE, partial(_full, rule=ITARule)))
register(MethodEntry("ita-lora", ITALoRAConfig, _COMPOSABLE, partial(_lora, rule=ITARule)))
register(MethodEntry("ita-ia3", ITAConfig, _COMPOSABLE, partial(_ia3, rule=ITARule)))
register(MethodEntry("iel-fft", IELConfig, _COMPOSABLE, partial(_full, rule=IELRule)))
register(MethodEntry("iel-lora", IELLoRAConfig, _COMPOSABLE, partial(_lora, rule=IELRule)))
register(MethodEntry("iel-ia3", IELConfig, _COMPOSABLE, partial(_ia3, rule=IELRule)))

_FINETUNE, _JOINT = Capabilities(), Capabilities(joint=True)
register(MethodEntry("finetune", FinetuneConfig, _FINETUNE, partial(Finetune, capabilities=_FINETUNE)))
register(MethodEntry("joint", FinetuneConfig, _JOINT, partial(Finetune, capabilities=_JOINT)))
