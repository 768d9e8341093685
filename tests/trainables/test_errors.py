"""Errors that callers tell apart: said together, and sent from a worker to the driver."""

from __future__ import annotations

import pickle

import pytest

from trainables.errors import DivergedError, Faults, InputError, NotFetchedError


def test_mistakes_of_several_parts_are_said_together_and_one_as_it_is() -> None:
    faults, one = Faults(), NotFetchedError("no weights")
    with faults:
        pass
    faults.raise_all()
    with faults:
        raise one
    with pytest.raises(NotFetchedError) as caught:
        faults.raise_all()
    assert caught.value is one
    with faults:
        raise InputError("two", "lines")
    with pytest.raises(InputError, match="^no weights\ntwo\nlines$"):
        faults.raise_all()


def test_another_error_goes_on_and_is_not_kept() -> None:
    faults = Faults()
    with pytest.raises(KeyError), faults:
        raise KeyError("ours")
    faults.raise_all()


def test_divergence_keeps_its_place_between_processes() -> None:
    sent = pickle.loads(pickle.dumps(DivergedError(3, 7, "weights are not finite")))
    assert (sent.task, sent.step, sent.what) == (3, 7, "weights are not finite")
    assert str(sent) == "weights are not finite at task 3, step 7"
    assert str(pickle.loads(pickle.dumps(DivergedError(3, what="logits are NaN")))) == "logits are NaN at task 3"
