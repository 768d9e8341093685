"""What a task of a composable method may keep of images of tasks before it, in words for a removal.

Each function takes the hyperparameters that are known of a run; a missing one counts as what keeps most. It yields
predicates of a task; see `MethodEntry.remnants`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

H0 = (
    "h0, to which its rows of the classifier are tied, was aligned with draws from the mixtures of all classes up to"
    " it, forgotten ones among them."
)


def ita(known: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a task of ITA may keep: h0, and the curvature that held it."""
    yield H0
    held = {"all": "its task vector and rows were", "head": "its rows were"}.get(known.get("regularise", "all"))
    if held:
        yield (
            f"how firmly {held} held is the mean curvature (Fisher) over all tasks up to it, forgotten images among"
            " them."
        )


def iel(known: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a task of IEL may keep: what one of ITA does, and what it was trained inside of."""
    yield from ita(known)
    yield (
        "IEL trained its vector inside the composition of all vectors up to it, those that are gone among them; so it"
        " has adapted to them."
    )


def tak(known: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a task of TAK may keep: h0, and the curvature of past tasks."""
    yield H0
    if known.get("regularise", "all") != "none" and known.get("references", "past") == "past":
        yield (
            "how firmly its task vector was held is the curvature of the features on all tasks before it, forgotten"
            " images among them."
        )
