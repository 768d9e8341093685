"""Runs methods in a process of its own: reads name to hyperparameters as JSON, writes name to metrics rows."""

from __future__ import annotations

import json
import sys

from tests.support.methods.small_digits import run, seed_of, small_digits
from trainables.backbones import Backbone
from trainables.sequence import IncrementalSequence

if __name__ == "__main__":
    rows = {
        method: run(
            IncrementalSequence(small_digits(), method, hyperparameters, backbone=Backbone(), seed=seed_of(method))
        )
        for method, hyperparameters in json.load(sys.stdin).items()
    }
    json.dump(rows, sys.stdout)
