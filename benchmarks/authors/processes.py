"""Programs that are compared run in processes of their own, each on so many threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def python(*arguments: str, threads: int) -> str:
    """Run Python on so many threads and return its standard output; a RuntimeError has the standard error."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "TQDM_DISABLE": "1"}
    environment["PYTHONPATH"] = f"{ROOT}{os.pathsep}{environment.get('PYTHONPATH', '')}"
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout
