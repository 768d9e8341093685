"""Task vectors: three parametrisations of tau_t behind one contract.

Not here: their sum over tasks, and their files (`composition`).
"""

from __future__ import annotations

from trainables.task_vectors.base import Parametrisation, TaskVectors
from trainables.task_vectors.dense import FullTaskVectors, IA3TaskVectors
from trainables.task_vectors.lora import LoRATaskVectors

__all__ = ["FullTaskVectors", "IA3TaskVectors", "LoRATaskVectors", "Parametrisation", "TaskVectors"]
