"""Composed models: the running sum of a sequence under way, and the one place that writes and reads task vectors."""

from __future__ import annotations

from trainables.composition.composing import composed
from trainables.composition.files import VECTOR_FILE, read_vector, vector_folders, write_vector
from trainables.composition.running_sum import Composition
from trainables.composition.saved import Origin, SavedVector, saved_vector

__all__ = [
    "VECTOR_FILE",
    "Composition",
    "Origin",
    "SavedVector",
    "composed",
    "read_vector",
    "saved_vector",
    "vector_folders",
    "write_vector",
]
