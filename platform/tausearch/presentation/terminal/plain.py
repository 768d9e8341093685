"""Lines without form: JSON for programs on stdout, what was left out on stderr."""

from __future__ import annotations

import json
import sys
from typing import Any

from checked_input.text_files import printable


def print_json(content: Any) -> None:
    """Print JSON for a program."""
    print(json.dumps(content, indent=2))


def say_loading() -> None:
    """Say to a person at a terminal that libraries are being imported, which takes seconds; nothing once they are."""
    if sys.stderr.isatty() and "torch" not in sys.modules:
        print("loading torch and Ray ...", file=sys.stderr, flush=True)


def say_unreadable(*faults: Exception | str) -> None:
    """Say on stderr, a line each, what is left out because it cannot be read."""
    for fault in faults:
        print(f"tausearch: {printable(str(fault))}", file=sys.stderr)
