"""Task vectors: three parametrisations of tau_t behind one contract, and their composition."""

from __future__ import annotations

from trainables.task_vectors.base import TaskVectors
from trainables.task_vectors.composition import Composition
from trainables.task_vectors.full import FullTaskVectors
from trainables.task_vectors.ia3 import IA3TaskVectors
from trainables.task_vectors.lora import LoRATaskVectors

__all__ = ["Composition", "FullTaskVectors", "IA3TaskVectors", "LoRATaskVectors", "TaskVectors"]
