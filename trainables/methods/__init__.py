"""Methods: incremental learners, one file each, and the registry of their names."""

from __future__ import annotations

from trainables.methods._composable import EULER_LIMIT
from trainables.methods.protocol import Capabilities, Context, Method
from trainables.methods.registry import METHODS, MethodEntry, get_method, register

__all__ = ["EULER_LIMIT", "METHODS", "Capabilities", "Context", "Method", "MethodEntry", "get_method", "register"]
