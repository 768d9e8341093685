"""Task vectors: three parametrisations of tau_t behind one contract.

Not here: their sum over tasks, and their files (`composition`).
"""

from __future__ import annotations

from trainables.task_vectors.base import Parametrisation as Parametrisation, TaskVectors as TaskVectors
from trainables.task_vectors.dense import FullTaskVectors as FullTaskVectors, IA3TaskVectors as IA3TaskVectors
from trainables.task_vectors.lora import LoRATaskVectors as LoRATaskVectors
