"""Task vectors: three parametrisations of tau_t behind one contract, and their composition.

LoRA's is in `trainables.task_vectors.lora`, which needs peft and so takes a second to import.
"""

from __future__ import annotations

from trainables.task_vectors.base import TaskVectors
from trainables.task_vectors.composition import Composition
from trainables.task_vectors.full import FullTaskVectors
from trainables.task_vectors.ia3 import IA3TaskVectors

__all__ = ["Composition", "FullTaskVectors", "IA3TaskVectors", "TaskVectors"]
