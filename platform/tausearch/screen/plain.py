"""Lines without form: JSON for programs on stdout, what was left out on stderr."""

from __future__ import annotations

import json
import sys
from typing import Any


def print_json(content: Any) -> None:
    """Print JSON for a program."""
    print(json.dumps(content, indent=2))


def say_unreadable(*faults: Exception | str) -> None:
    """Say on stderr, a line each, what is left out because it cannot be read."""
    for fault in faults:
        print(f"tausearch: {fault}", file=sys.stderr)
