"""What programs read from stdout."""

from __future__ import annotations

import json
from typing import Any


def print_json(content: Any) -> None:
    """Print JSON for a program."""
    print(json.dumps(content, indent=2))
