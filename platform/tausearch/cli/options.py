"""Options that several commands have, how their text is read, and the application that they belong to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from checked_input.text_files import shown
from tausearch.cli.sections import SectionedGroup
from trainables.errors import InputError

# Python would take other scripts' digits and underlines, too, and numbers of so many digits that it waits for minutes.
WHOLE = re.compile("[0-9]{1,30}")
_DURATION = re.compile(r"[0-9]{0,9}\.?[0-9]{1,9}")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

app = typer.Typer(
    cls=SectionedGroup,
    help="Find the hyperparameters with which a composable incremental learner does best.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},  # every command's
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

StorageOption = Annotated[str, typer.Option("--storage", help="Folder that holds run directories.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ConcurrentOption = Annotated[
    int | None,
    typer.Option(help="Trials at a time [default: as many as fit; for tpe and gp at most a quarter of --trials]."),
]
SeedsConcurrentOption = Annotated[
    int | None, typer.Option("--max-concurrent-trials", help="Trials at a time [default: as many as fit].")
]
OwnConcurrentOption = Annotated[
    int | None,
    typer.Option("--max-concurrent-trials", help="Trials at a time [default: as the search was started with]."),
]
CpusOption = Annotated[int, typer.Option(help="CPU threads of a trial.")]
GpusOption = Annotated[str, typer.Option(help="Share of a GPU per trial: 0, 1 or 1/k.")]
GpusOrAutoOption = Annotated[str, typer.Option(help="Share of a GPU per trial: 0, 1, 1/k, or auto to measure it.")]
NameOption = Annotated[str | None, typer.Option(help="Name of the run [default: made from benchmark and method].")]
ResumeIfExistsOption = Annotated[
    bool,
    typer.Option("--resume-if-exists", help="Continue the run of that --name if there is one."),
]
TrackingOption = Annotated[
    str | None,
    typer.Option(envvar="MLFLOW_TRACKING_URI", help="MLflow tracking URI [default: SQLite in the storage folder]."),
]
OwnTrackingOption = Annotated[
    str | None, typer.Option("--tracking-uri", help="MLflow tracking URI [default: where the run was tracked so far].")
]
AddressOption = Annotated[str | None, typer.Option(help="Ray cluster to use [default: start Ray on this machine].")]
SpaceOption = Annotated[Path | None, typer.Option("--space", help="Search-space file over the method's own.")]
WarmStartOption = Annotated[
    list[str] | None,
    typer.Option(
        "--warm-start",
        help="Try first what is known: paper (its choices on all datasets), searches (their best), best files.",
        metavar="paper | RUN ... | BEST.yaml ...",
    ),
]
ConstraintOption = Annotated[
    list[str] | None,
    typer.Option(
        "--constraint",
        help="Choose only what keeps this, such as 'forgetting <= 5' or 'seconds <= 60'. Repeatable.",
        metavar="'METRIC <= NUMBER'",
    ),
]
ReevaluateOption = Annotated[
    int | None,
    typer.Option(
        "--reevaluate",
        help="Run this many of the best trials again, and choose by that; 0: none [default: 3 on embedded benchmarks"
        " from 12 trials on, else none].",
    ),
]
ReevaluateRunsOption = Annotated[
    int | None,
    typer.Option("--reevaluate-runs", help="How often, each time on a fresh seed and validation split [default: 2]."),
]
OwnReevaluateOption = Annotated[
    int | None,
    typer.Option(
        "--reevaluate", help="Run this many of the best trials again, and choose by that [default: as before]."
    ),
]
OwnReevaluateRunsOption = Annotated[
    int | None, typer.Option("--reevaluate-runs", help="How often [default: as before, or 2].")
]
CacheSizeOption = Annotated[
    float, typer.Option("--cache-size", help="Gigabytes that the pre-consolidation cache may take.")
]
NoCacheOption = Annotated[bool, typer.Option("--no-cache", help="Compute everything in every trial.")]
TimeBudgetOption = Annotated[
    str | None,
    typer.Option(
        help="Stop after this long, Ray's start included, such as 90m or 12h; resume continues [default: no limit]."
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would run and what it would take; start nothing.")
]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="Fix a hyperparameter: KEY=VALUE. Repeatable.")]
DataRootOption = Annotated[
    str | None,
    typer.Option(
        "--data-root", help="Folder of the published datasets [default: $TAUSEARCH_DATA, or ./tausearch-data]."
    ),
]
OwnDataRootOption = Annotated[
    str | None,
    typer.Option("--data-root", help="Folder of the published datasets [default: as the search was started with]."),
]
BackboneOption = Annotated[str | None, typer.Option(help="Backbone, see `backbones` [default: the benchmark's].")]
VariantOption = Annotated[str | None, typer.Option(help="Variant of a published dataset; see docs/data.md.")]
SkipBrokenOption = Annotated[bool, typer.Option("--skip-broken", help="Leave out and list images that cannot be read.")]
LabelColumnOption = Annotated[str | None, typer.Option(help="Column of a Parquet file with the labels.")]
PartialOption = Annotated[bool, typer.Option("--partial", help="Accept fewer images than were published.")]
WithoutDamagedOption = Annotated[
    bool, typer.Option("--without-damaged", help="Put damaged files of the record aside; their trials are run again.")
]


def _allow(benchmarks: list[str] | None) -> list[str] | None:
    if benchmarks:
        from trainables.data import allow_code  # torch takes seconds to import

        for benchmark in benchmarks:
            allow_code(benchmark)
    return benchmarks


AllowCodeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-code",
        callback=_allow,
        help="Let the code of this benchmark run where only a file names it. Repeatable.",
        metavar="MODULE:NAME",
    ),
]


def whole_numbers(option: str, text: str) -> list[int]:
    """Read the value of an option that takes whole numbers.

    Returns:
        The numbers.

    Raises:
        InputError: If a part is no whole number.
    """
    parts = text.replace(",", " ").split()
    if not all(map(WHOLE.fullmatch, parts)):
        raise InputError(f"{option} must be whole numbers, got {shown(text)}")
    return [int(part) for part in parts]


def seconds(text: str | None) -> float | None:
    """Read the duration of `--time-budget`, in seconds; None stays None.

    Returns:
        The seconds.

    Raises:
        InputError: If it is not a positive number with a unit.
    """
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


@app.callback()
def tausearch(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Find the hyperparameters with which a composable incremental learner does best."""
