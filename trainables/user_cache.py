"""The folder of the user who runs this process for what can be made again at any time."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """Return `$XDG_CACHE_HOME/tausearch`, or else `~/.cache/tausearch`; it may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "tausearch"
