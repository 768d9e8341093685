"""Composed models: the running sum of a sequence under way, and the files of task vectors.

Not here: how one task vector is parametrised (`task_vectors`), and the commands on final runs (`tausearch.models`).
"""

from __future__ import annotations

from trainables.composition.builtin_rules import RULES as RULES
from trainables.composition.chosen_rules import (
    ChosenRule as ChosenRule,
    choose_rule as choose_rule,
    curvatures_of as curvatures_of,
)
from trainables.composition.curvatures import (
    CURVATURE_FILE as CURVATURE_FILE,
    read_curvature as read_curvature,
)
from trainables.composition.files import (
    VECTOR_FILE as VECTOR_FILE,
    copy_vector as copy_vector,
    packed as packed,
    read_vector as read_vector,
    unpacked as unpacked,
    vector_folders as vector_folders,
    write_vector as write_vector,
)
from trainables.composition.merging import composed as composed, merged as merged
from trainables.composition.networks import ComposedNetwork as ComposedNetwork, network_for as network_for
from trainables.composition.pool import VectorPool as VectorPool
from trainables.composition.reduced_pool import ReducedPool as ReducedPool
from trainables.composition.rules import Merging as Merging, MergingRule as MergingRule, Parameter as Parameter
from trainables.composition.running_sum import Composition as Composition
from trainables.composition.saved import Origin as Origin, SavedVector as SavedVector, saved_vector as saved_vector
