"""What to type to call the tool: the commands that messages advise."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from tausearch.runs import DEFAULT_STORAGE


def tool() -> str:
    """Return what to type to call the tool again: its name, or its path where the name would not be found."""
    if shutil.which("tausearch"):
        return "tausearch"
    beside = Path(sys.executable).with_name("tausearch")
    return shlex.quote(os.path.relpath(beside)) if beside.exists() else "python -m tausearch"


def storage_words(root: str | Path) -> str:
    """Return what to add to a command so that it finds a storage root: nothing for the default one."""
    is_default = Path(root).absolute() == Path(DEFAULT_STORAGE).absolute()
    return "" if is_default else f" --storage {shlex.quote(str(root))}"


def code_words(*benchmarks: str) -> str:
    """Return what to add to a command that takes these benchmarks from files, so that their own code may run."""
    from trainables.data import BenchmarkRef  # torch takes seconds to import

    names = dict.fromkeys(ref.name for ref in map(BenchmarkRef.parse, benchmarks) if ref.is_module)
    return "".join(f" --allow-code {name}" for name in names)


def command_on(verb: str, name: str, root: str | Path) -> str:
    """Return the command to give for a run: `tausearch VERB NAME`, and the storage root where it is not the default."""
    return f"{tool()} {verb} {name}{storage_words(root)}"
