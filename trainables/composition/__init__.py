"""Composed models: the running sum of a sequence under way, and the files of task vectors.

Not here: how one task vector is parametrised (`task_vectors`), and the commands on final runs (`tausearch.models`).
"""

from __future__ import annotations

from trainables.composition.builtin_rules import RULES
from trainables.composition.chosen_rules import ChosenRule, choose_rule, curvatures_of
from trainables.composition.curvatures import CURVATURE_FILE, read_curvature, require_curvature
from trainables.composition.files import (
    VECTOR_FILE,
    copy_vector,
    packed,
    read_vector,
    unpacked,
    vector_folders,
    write_vector,
)
from trainables.composition.merging import composed, merged
from trainables.composition.networks import ComposedNetwork, network_for
from trainables.composition.pool import VectorPool
from trainables.composition.reduced_pool import ReducedPool
from trainables.composition.rules import Merging, MergingRule, Parameter
from trainables.composition.running_sum import Composition
from trainables.composition.saved import Origin, SavedVector, saved_vector

__all__ = [
    "CURVATURE_FILE",
    "RULES",
    "VECTOR_FILE",
    "ChosenRule",
    "ComposedNetwork",
    "Composition",
    "Merging",
    "MergingRule",
    "Origin",
    "Parameter",
    "ReducedPool",
    "SavedVector",
    "VectorPool",
    "choose_rule",
    "composed",
    "copy_vector",
    "curvatures_of",
    "merged",
    "network_for",
    "packed",
    "read_curvature",
    "read_vector",
    "require_curvature",
    "saved_vector",
    "unpacked",
    "vector_folders",
    "write_vector",
]
