"""The options of `search` and `train` in a campaign's file, under their names on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, create_model

from search_spaces import Scalar
from search_spaces.values import ScalarField
from tausearch.api import SearchRequest, TrainRequest
from tausearch.studies import BestFile

_OF_THE_CELL = {"benchmark", "method", "best", "name", "resume_if_exists"}
OF_THE_COMMAND = ("address", "data_root", "progress_to", "storage", "time_budget", "tracking_uri")


def _share(value: object) -> object:
    """Return the number of a fraction such as 1/3, which YAML reads as text."""
    try:
        return float(Fraction(value)) if isinstance(value, str) else value
    except (ValueError, ZeroDivisionError):
        return value


@cache
def search_options() -> type[BaseModel]:
    """Return the model of the search options of a cell."""
    return _model_of(SearchRequest)


@cache
def train_options() -> type[BaseModel]:
    """Return the model of the options of a cell's final run."""
    return _model_of(TrainRequest)


def _model_of(request: Callable[..., object]) -> type[BaseModel]:
    """Return the model of a request's options without those that the cell or the command line sets."""
    hints = get_type_hints(request, localns={"Scalar": Scalar, "BestFile": BestFile})
    kept = {name: kind for name, kind in hints.items() if name not in _OF_THE_CELL | set(OF_THE_COMMAND) | {"_"}}
    kept["set"] = Mapping[str, ScalarField] | None
    kept["gpus_per_trial"] = Annotated[
        float, BeforeValidator(_share)
    ]  # "auto" needs a pilot before the search, which campaigns do not run
    fields: dict[str, Any] = {name: (kind, None) for name, kind in kept.items()}
    return create_model("Options", __config__=ConfigDict(extra="forbid", strict=True, frozen=True), **fields)
