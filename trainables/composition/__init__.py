"""Composed models: the running sum of a sequence under way, and the files of task vectors.

Not here: how one task vector is parametrised (`task_vectors`), and the commands on final runs (`tausearch.models`).
"""

from __future__ import annotations

from trainables.composition.files import (
    VECTOR_FILE,
    copy_vector,
    packed,
    read_vector,
    unpacked,
    vector_folders,
    write_vector,
)
from trainables.composition.merging import RULES, MergingRule, composed, merged
from trainables.composition.networks import ComposedNetwork, network_for
from trainables.composition.pool import VectorPool
from trainables.composition.reduced_pool import ReducedPool
from trainables.composition.running_sum import Composition
from trainables.composition.saved import Origin, SavedVector, saved_vector

__all__ = [
    "RULES",
    "VECTOR_FILE",
    "ComposedNetwork",
    "Composition",
    "MergingRule",
    "Origin",
    "ReducedPool",
    "SavedVector",
    "VectorPool",
    "composed",
    "copy_vector",
    "merged",
    "network_for",
    "packed",
    "read_vector",
    "saved_vector",
    "unpacked",
    "vector_folders",
    "write_vector",
]
