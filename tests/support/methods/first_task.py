"""Run the first task of a trial in a process of its own, and leave its state and its cache in a folder."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.methods.small_digits import small_digits
from trainables.backbones import Backbone
from trainables.process import settle
from trainables.sequence import IncrementalSequence
from trainables.state import write_state

HYPERPARAMETERS = {"alpha": 1.0, "alpha_cls": 0.1, "alpha_cls_prior": 0.01, "lr": 0.01}


def sequence_in(folder: Path) -> IncrementalSequence:
    return IncrementalSequence(
        small_digits(), "ita-ia3", HYPERPARAMETERS, backbone=Backbone(), cache=folder / "cache", cache_bytes=10**9
    )


if __name__ == "__main__":
    settle(1)
    folder = Path(sys.argv[1])
    begun = sequence_in(folder)
    begun.run_next_task()
    (folder / "state").mkdir()
    write_state(folder / "state", begun.state(), folder / "state")
    begun.close()
