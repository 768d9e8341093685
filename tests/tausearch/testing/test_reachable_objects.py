"""Wherever an object hides, the walk finds it, as images that a method keeps must not pass unseen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tausearch.testing.reachable_objects import reachable


class Hidden:
    """The object that is looked for."""


def in_closure(hidden: Hidden) -> object:
    return lambda: hidden


def as_default(hidden: Hidden) -> object:
    def function(found: object = hidden) -> None: ...

    return function


def as_keyword_default(hidden: Hidden) -> object:
    def function(*, found: object = hidden) -> None: ...

    return function


def as_attribute_of_a_function(hidden: Hidden) -> object:
    function = in_closure(Hidden())
    function.found = hidden  # type: ignore[attr-defined]
    return function


def in_view_of_an_array(hidden: Hidden) -> object:
    return np.array([None, hidden], dtype=object)[:1]


PLACES = [
    in_closure,
    as_default,
    as_keyword_default,
    as_attribute_of_a_function,
    in_view_of_an_array,
    lambda hidden: SimpleNamespace(deep={"in": [(hidden,)]}),
    lambda hidden: partial(print, hidden),
    lambda hidden: np.array([[hidden]], dtype=object),
]


@pytest.mark.parametrize("place", PLACES)
def test_it_is_found(place: Callable[[Hidden], object]) -> None:
    hidden = Hidden()
    assert any(found is hidden for found in reachable({"root": place(hidden)}))


def test_the_whole_of_a_view_of_a_tensor_is_found() -> None:
    whole = torch.zeros(4, 2)
    assert any(found is whole for found in reachable([whole[1]]))


def test_a_walk_that_would_be_too_long_fails() -> None:
    with pytest.raises(AssertionError, match="more than 100 objects can be reached"):
        list(reachable([[number] for number in range(1000, 1200)], limit=100))
