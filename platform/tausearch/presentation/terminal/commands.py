"""The commands that messages advise."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from tausearch import runs
from tausearch.runs import storage_option
from trainables.user_code import code_option


def tool() -> str:
    """Return the command of the tool: its name, or its path if the shell would not find the name."""
    if shutil.which("tausearch"):
        return "tausearch"
    beside = Path(sys.executable).with_name("tausearch")
    return shlex.quote(os.path.relpath(beside)) if beside.exists() else "python -m tausearch"


def address_option(address: str | None) -> str:
    """Return ` --address ADDRESS` for a command; empty without a cluster."""
    return "" if address is None else f" --address {shlex.quote(address)}"


def concurrency_option(max_concurrent_trials: int | None) -> str:
    """Return ` --max-concurrent-trials NUMBER` for a command; empty for as many as fit."""
    return "" if max_concurrent_trials is None else f" --max-concurrent-trials {max_concurrent_trials}"


def sync_advice(name: str, error: str, storage_option: str, *, is_run: bool = True) -> str:
    """Return the line about a run or campaign that MLflow lacks in part: the error, and what writes the rest.

    Without the name of a run, `runs sync` writes all runs, and then the tables of campaigns.
    """
    sync = f"{tool()} runs sync{f' {name}' if is_run else ''}{storage_option}"
    return f"MLflow does not have all of {name} ({error}); once MLflow answers: {sync}"


def command_on(verb: str, name: str, root: str | Path) -> str:
    """Return `tausearch VERB NAME` for a run, with its storage root if that is not the default."""
    return f"{tool()} {verb} {name}{storage_option(root)}"


def resume_command(name: str, root: str | Path, code: tuple[str, ...], options: str = "") -> str:
    """Return the command that continues a run; `code` is `RunSpec.code`, `options` are more words after a space."""
    return f"{command_on('resume', name, root)}{code_option(*code)}{options}"


def bounds_line(beside: runs.BesideBounds) -> str:
    """Return an accuracy and its bounds in a line, with the command that measures the missing ones."""
    return beside.line(resume_command(beside.run, beside.root, beside.code, address_option(beside.address)))


def campaign_command(file: str, storage_option: str, code: Iterable[str], options: str = "") -> str:
    """Return the command that continues a campaign; of the names in `code`, it allows those that are code."""
    return f"{tool()} campaign run {shlex.quote(file)}{storage_option}{code_option(*code)}{options}"
