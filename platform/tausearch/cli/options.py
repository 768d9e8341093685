"""Options that several commands have, how their text is read, and the application that they belong to."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from checked_input.names import choices
from checked_input.text_files import shown
from tausearch.cli.sections import SectionedGroup
from tausearch.presentation import reserve_stdout, see_page, tool
from trainables.errors import InputError
from trainables.user_code import allow_code

R = TypeVar("R")

# Python would also accept other scripts' digits, underscores, and numbers so long that reading them takes minutes.
_WHOLE = re.compile("[0-9]{1,30}")
_DURATION = re.compile(r"[0-9]{0,9}\.?[0-9]{1,9}")
_SHARE = re.compile(r"[0-9]{0,9}\.?[0-9]{1,9}(/[0-9]{1,9})?")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

app = typer.Typer(
    cls=SectionedGroup,
    help="Find the hyperparameters with which a composable incremental learner does best.",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},  # every command's
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def with_home(path: Path | None) -> Path | None:
    """Return a path with the home folder for `~`, which a shell leaves as it is in `--output=~/page.html`."""
    return None if path is None else Path(os.path.expanduser(path))


def _formats(*allowed: str) -> Any:
    def checked(context: typer.Context, text: str) -> str:
        if text not in allowed:
            raise InputError(f"unknown --format {shown(text)}; {choices(text, allowed)}")
        if text != "text" and not context.resilient_parsing:  # a shell reads the words that it completes from stdout
            reserve_stdout()
        return text

    return typer.Option("--format", callback=checked, metavar="|".join(allowed), help="Print in this form.")


Format = Annotated[str, _formats("text", "json")]
FormatOfPredictions = Annotated[str, _formats("text", "json", "csv")]
FormatOfTables = Annotated[str, _formats("text", "json", "csv", "markdown", "latex")]
Storage = Annotated[str, typer.Option(envvar="TAUSEARCH_STORAGE", help="Folder that holds run directories.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Concurrent = Annotated[
    int | None,
    typer.Option(help="Trials at a time [default: as many as fit; for tpe and gp at most a quarter of --trials]."),
]
ConcurrentSeeds = Annotated[int | None, typer.Option(help="Trials at a time [default: as many as fit].")]
ConcurrentAsBefore = Annotated[int | None, typer.Option(help="Trials at a time [default: as before].")]
Cpus = Annotated[int, typer.Option(help="CPU threads of a trial.")]
Gpus = Annotated[
    str | None,
    typer.Option(
        help="Share of a GPU per trial: 0, 1, 1/k, or auto to measure it [default: the CPU without a GPU, else auto for"
        " the embedded backbone and 1 for others]."
    ),
]
GpusAsBefore = Annotated[
    str | None, typer.Option(help="Share of a GPU per trial from now on: 0, 1 or 1/k [default: as before].")
]
Name = Annotated[str | None, typer.Option(help="Name of the run [default: made from benchmark and method].")]
ResumeIfExists = Annotated[
    bool, typer.Option("--resume-if-exists", help="Continue the run of that --name if there is one.")
]
WithBounds = Annotated[
    bool, typer.Option("--with-bounds", help="Then run probe and joint, where not done yet: the lower and upper bound.")
]
Trackers = Annotated[
    str | None, typer.Option("--tracking", help="mlflow, tensorboard, both with a comma, or none [default: mlflow].")
]
TrackersOfTrain = Annotated[
    str | None,
    typer.Option("--tracking", help="mlflow, tensorboard, both with a comma, or none [default: as the search]."),
]
TrackersAsBefore = Annotated[
    str | None, typer.Option("--tracking", help="mlflow, tensorboard, both with a comma, or none [default: as before].")
]
Callbacks = Annotated[
    list[str] | None,
    typer.Option("--callback", help="Tell your class what happens. Repeatable.", metavar="MODULE:NAME"),
]
Tracking = Annotated[
    str | None,
    typer.Option(envvar="MLFLOW_TRACKING_URI", help="MLflow tracking URI [default: SQLite in the storage folder]."),
]
TrackingAsBefore = Annotated[
    str | None, typer.Option(help="MLflow tracking URI [default: where the run was tracked so far].")
]
Address = Annotated[
    str | None, typer.Option(envvar="RAY_ADDRESS", help="Ray cluster to use [default: start Ray on this machine].")
]
Space = Annotated[Path | None, typer.Option(help="Search-space file over the method's own.")]
WarmStart = Annotated[
    str | None,
    typer.Option(
        help="Try first what is known: paper (its choices on all datasets), searches (their best), best files.",
        metavar="paper,RUN,BEST.yaml,...",
    ),
]
Constraint = Annotated[
    list[str] | None,
    typer.Option(
        help="Choose only trials that satisfy this, such as 'forgetting <= 5', 'seconds <= 60' or, of task vectors,"
        " 'removability >= 20'. Repeatable.",
        metavar="'METRIC <= NUMBER'",
    ),
]
Objective = Annotated[
    list[str] | None,
    typer.Option(
        help="Aim at this metric, such as forgetting, seconds or removability; several give a front. Repeatable"
        " [default: final_accuracy].",
        metavar="METRIC",
    ),
]
Prefer = Annotated[
    str | None,
    typer.Option(
        help="With several objectives, choose the knee of the front or its best METRIC.", metavar="knee | METRIC"
    ),
]
Across = Annotated[
    str | None,
    typer.Option(
        help="How accuracies on several benchmarks become one value: normalised, rank or mean [default: normalised]."
    ),
]
Reevaluate = Annotated[
    int | None,
    typer.Option(
        help="Run this many of the best trials again, and choose by that; 0: none [default: 3 from 12"
        " trials on, on embedded benchmarks and on few images of your own, else none]."
    ),
]
ReevaluateRuns = Annotated[
    int | None, typer.Option(help="Runs of each, every one on a fresh seed and validation split [default: 2].")
]
Patience = Annotated[
    int | None,
    typer.Option(help="End after this many trials in a row without a gain of more than one image [default: never]."),
]
Target = Annotated[
    float | None,
    typer.Option(help="End once a trial comes to this accuracy, %, or value of --objective [default: never]."),
]
PatienceAsBefore = Annotated[
    int | None, typer.Option(help="End after this many trials in a row without a gain [default: as before].")
]
TargetAsBefore = Annotated[
    float | None, typer.Option(help="End once a trial comes to this value [default: as before].")
]
ReevaluateAsBefore = Annotated[
    int | None, typer.Option(help="Run this many of the best trials again, and choose by that [default: as before].")
]
ReevaluateRunsAsBefore = Annotated[int | None, typer.Option(help="How often [default: as before, or 2].")]
CacheSize = Annotated[float, typer.Option(help="Gigabytes that the pre-consolidation cache may take.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Compute everything in every trial.")]
TimeBudget = Annotated[
    str | None,
    typer.Option(
        help="Stop after this long, Ray's start included, such as 90m or 12h; it can be continued [default: no limit]."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would run and what it would take; start nothing.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="Fix a hyperparameter: KEY=VALUE. Repeatable.")]
DataRoot = Annotated[
    str | None,
    typer.Option(envvar="TAUSEARCH_DATA", help="Folder of the published datasets [default: ./tausearch-data]."),
]
DataRootAsBefore = Annotated[str | None, typer.Option(help="Folder of the published datasets [default: as before].")]
Backbone = Annotated[
    str | None, typer.Option(help="Backbone, see `list backbones`, or MODULE:NAME [default: the benchmark's].")
]
Variant = Annotated[str | None, typer.Option(help=f"Variant of a published dataset; {see_page('data')}.")]
SkipBroken = Annotated[bool, typer.Option("--skip-broken", help="Leave out and list images that cannot be read.")]
LabelColumn = Annotated[str | None, typer.Option(help="Column of a Parquet file with the labels.")]
Partial = Annotated[bool, typer.Option("--partial", help="Accept fewer images than were published.")]
WithoutDamaged = Annotated[
    bool, typer.Option("--without-damaged", help="Put damaged files of the record aside; their trials are run again.")
]


def _allow(names: list[str] | None) -> list[str] | None:
    for name in names or ():
        allow_code(name)
    return names


AllowCode = Annotated[
    list[str] | None,
    typer.Option(
        callback=_allow, help="Let this code run where only a file names it. Repeatable.", metavar="MODULE:NAME"
    ),
]


def assignments(texts: list[str] | None, option: str = "--set") -> dict[str, Any]:
    """Read the values of an option; raises `InputError` for text that is no KEY=VALUE."""
    from search_spaces import parse_assignments  # pydantic takes a moment to import

    return parse_assignments(texts or [], option)


def whole_numbers(option: str, text: str) -> list[int]:
    """Read the value of an option that takes whole numbers; raises `InputError` for other text."""
    parts = [part.strip() for part in text.split(",")]
    if not all(map(_WHOLE.fullmatch, parts)):
        raise InputError(f"{option} must be whole numbers with commas between them, got {shown(text)}")
    return [int(part) for part in parts]


def names(text: str | None) -> list[str] | None:
    """Read the value of an option that takes names; None stays None."""
    return None if text is None else [part.strip() for part in text.split(",")]


def numbers(option: str, text: str) -> list[float]:
    """Read the value of an option that takes numbers; raises `InputError` for other text."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} must be numbers with commas between them, got {shown(text)}") from None


def request_of(kind: type[R], given: Mapping[str, Any], **read: Any) -> R:
    """Return the request of a command, whose `locals()` are `given`; what is no field of the request is left out.

    `read` are the fields that are not the parameter of their name, but read from its text or from other parameters.
    """
    own = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in given.items() if name in own} | read)


def drive_request_of(kind: type[R], given: Mapping[str, Any], **read: Any) -> R:
    """Return the request of a command that drives runs; see `request_of`."""
    read["time_budget"], read["callbacks"] = seconds(given["time_budget"]), given["callback"] or ()
    read["progress_to"] = "stderr" if given["format"] == "json" else "stdout"  # which belongs to the JSON
    return request_of(kind, given, **read)


def class_order(text: str | None) -> int | str | None:
    """Read the value of `--class-order`: a seed, or a text for the request; None stays None."""
    return int(text) if text is not None and _WHOLE.fullmatch(text) else text


def gpu_share(text: str | None, *, auto: bool = True) -> Any:
    """Read the value of `--gpus-per-trial`: a number, "auto" or None as it is; raises `InputError` for other text."""
    if text is None or (auto and text == "auto"):
        return text
    try:
        if not _SHARE.fullmatch(text):
            raise ValueError
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError):
        raise InputError(f"--gpus-per-trial must be a number, such as 0, 1, 1/3 or 0.25, got {shown(text)}") from None


def seconds(text: str | None) -> float | None:
    """Read the duration of `--time-budget`; None stays None. Raises `InputError` for other text."""
    if text is None:
        return None
    number, unit = text[:-1], _UNITS.get(text[-1:])
    if unit is None or not _DURATION.fullmatch(number):
        raise InputError(f"--time-budget must be a number and s, m, h or d, such as 90m, got {shown(text)}")
    return float(number) * unit


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"tausearch {version('tausearch')}")
        raise typer.Exit


def require_answer(yes: bool) -> None:
    """Refuse to delete where nobody can be asked; `yes` is the option `--yes`."""
    if not yes and not sys.stdin.isatty():
        raise InputError("delete asks first, and there is no terminal to answer; --yes deletes without asking")


_FIRST = """Find the hyperparameters with which a composable incremental learner does best:

  {tool} search letters ita-lora --name my-search   # try 12 configurations
  {tool} train my-search --name my-model            # train and test the best
  {tool} predict my-model pictures/                 # classify image files

Your own images lie in a folder per class: `folder:PATH` in place of `letters`.

  {tool} list benchmarks                            # what else there is
  {tool} --help                                     # all commands
"""


@app.callback()
def tausearch(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Find the hyperparameters with which a composable incremental learner does best."""
    if context.invoked_subcommand is None:
        print(_FIRST.format(tool=tool()), end="")
