"""Large libraries are imported without the garbage collector, which does not look at all of them afterwards."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from tausearch.cluster.importing import uncollected

WAITING = """
import gc, sys
import tausearch.cluster.preload
from trainables.config import TrialConfig
from trainables.trial import TrialTrainable
print(gc.isenabled(), gc.get_freeze_count())
known = set(sys.modules)
given = {"alpha": 1.0, "alpha_cls": 0.1, "alpha_cls_prior": 0.01, "lr": 0.01}
TrialTrainable(
    TrialConfig(
        trial=0,
        benchmark="digits",
        purpose="search",
        split_seed=0,
        method="ita-lora",
        hyperparameters=given,
        backbone="glyph_vit",
    ).as_dict()
)
print(*{name.partition(".")[0] for name in set(sys.modules) - known})
"""
"""A process that has a trial after it has waited for one."""


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_off_meanwhile_and_as_it_was_afterwards(on: bool) -> None:
    was = gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        with pytest.raises(ImportError), uncollected():
            assert not gc.isenabled()
            raise ImportError
        assert gc.isenabled() is on
    finally:
        (gc.enable if was else gc.disable)()


def test_the_collector_stays_off_until_the_last_thread_has_imported() -> None:
    assert gc.isenabled()
    first, second = uncollected(), uncollected()
    for block in (first, second):
        block.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_what_was_made_meanwhile_is_old_afterwards() -> None:
    with uncollected():
        made = [[number] for number in range(10_000)]
    young = {id(each) for generation in (0, 1) for each in gc.get_objects(generation)}
    assert not {id(each) for each in made} & young


def test_what_another_has_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with uncollected():
            pass
        assert gc.get_freeze_count() >= frozen - 100  # some have gone
    finally:
        gc.unfreeze()


def test_a_process_that_waits_for_a_trial_has_all_that_a_trial_imports() -> None:
    done = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True, check=True)
    collected, frozen, *late = done.stdout.split()
    assert collected == "True" and int(frozen) > 100_000
    assert not {"torch", "ray", "pandas", "timm", "torchvision", "sympy"} & {*late}
