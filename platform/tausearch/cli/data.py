"""The commands on what a search can use: data (check, prepare) and list (benchmarks, backbones, spaces)."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import Annotated

import typer

from tausearch import api, studies
from tausearch.cli import completion, options, output
from tausearch.presentation import print_json
from trainables.errors import InputError

data_app = typer.Typer(help="Check or prepare the images of a benchmark. Says what is faulty.", no_args_is_help=True)
list_app = typer.Typer(help="List benchmarks, backbones, or the search spaces of methods.", no_args_is_help=True)
BenchmarkArgument = Annotated[str, typer.Argument(help="Name, folder:PATH or parquet:PATH.")]


@list_app.command()
def benchmarks(data_root: options.DataRoot = None, format: options.Format = "text") -> None:
    """List the benchmarks. Says which are whole, and where to get the rest."""
    states = api.dataset_states(data_root)
    if format == "json":
        print_json([state.as_dict() for state in states])
    else:
        output.show_states(states, data_root)


@data_app.command()
def check(
    benchmark: BenchmarkArgument,
    list_: Annotated[
        str | None,
        typer.Option(
            "--list",
            metavar="train|test|all",
            help="Only list these images, one path a line; csv and json have class and split.",
        ),
    ] = None,
    null: Annotated[
        bool, typer.Option("--null", help="End each path with a NUL byte, for xargs -0: a name may have a line break.")
    ] = False,
    variant: options.Variant = None,
    partial: options.Partial = False,
    data_root: options.DataRoot = None,
    format: options.FormatOfPredictions = "text",
) -> None:
    """Read every image, and name what is faulty. Of prepared data, every file is compared, too."""
    if list_ not in (None, "train", "test", "all"):
        raise InputError(f"--list must be train, test or all, got {list_!r}")
    if list_ is None and format == "csv":
        raise InputError("--format csv: goes with --list")
    if null and (list_ is None or format != "text"):
        raise InputError("--null: goes with --list and without --format")
    from trainables.data.splits import SPLIT_NAMES  # imports torch

    if list_ is not None:
        parts = [part for part in SPLIT_NAMES if list_ in (part, "all")]
        output.show_images(api.list_images(benchmark, data_root, variant, partial, parts), format, null)
        return
    found = api.check_dataset(benchmark, data_root, variant, partial)
    if format == "json":
        print_json(asdict(found))
    else:
        output.show_check(found)
    if found.faults:
        raise typer.Exit(1)


@data_app.command()
def prepare(
    benchmark: BenchmarkArgument,
    layout: Annotated[
        str, typer.Option(help="array (decoded, memory-mapped), parquet (shards of image files), or auto: by size.")
    ] = "auto",
    variant: options.Variant = None,
    partial: options.Partial = False,
    data_root: options.DataRoot = None,
    format: options.Format = "text",
) -> None:
    """Convert a dataset to the tool's own form. Trials share this copy, and need not decode it again."""
    made, replaced = api.prepare_dataset(benchmark, data_root, variant, partial, layout)
    if format == "json":
        print_json({**made.as_dict(), "replaced": replaced})
    else:
        counts = f"train {made.count('train')}, test {made.count('test')}"
        print(f"{made.name}: {made.layout}; images (per class): {counts}")
        print(f"written to {made.prepared}{', in place of the earlier one' if replaced else ''}")


@list_app.command()
def backbones(
    word: Annotated[str, typer.Argument(help="List those of timm whose names contain it, such as base_patch16.")] = "",
    format: options.Format = "text",
) -> None:
    """List the backbones. These are the embedded one, those whose weights are here, and those of timm."""
    from trainables.backbones.offered import offers  # timm takes seconds to import; --help must not

    found = list(offers(word))
    if format == "json":
        print_json([asdict(each) for each in found])
    else:
        output.show_backbones(found, word)


@list_app.command()
def spaces(
    method: Annotated[
        str | None, typer.Argument(help="Method; all methods without it.", autocompletion=completion.methods)
    ] = None,
    benchmark: Annotated[
        str | None,
        typer.Option(help='Whose values to show [default: digits]; "folder:birds?tasks=5" and MODULE:NAME are opened.'),
    ] = None,
    backbone: options.Backbone = None,
    space: options.Space = None,
    set_: options.Set = None,
    format: options.Format = "text",
) -> None:
    """Show the search spaces of the methods. A search would use exactly these."""
    from search_spaces import METHODS_WITH_SPACE, parse_assignments  # pydantic takes a moment to import

    if method is None and (set_ or space is not None):
        raise InputError("--set, --space: are about one method; name it: list spaces METHOD")
    overrides = parse_assignments(set_ or [])
    opening = cache(api.open_benchmark)  # once for all methods
    resolved = [
        api.space_for(
            api.SearchRequest(benchmark or "digits", each, space=space, set=overrides, backbone=backbone), opening
        )
        for each in (METHODS_WITH_SPACE if method is None else [method])
    ]
    if format == "json":
        plain = [{**found.as_dict(), "defaults": studies.defaults(found)} for found in resolved]
        print_json(plain if method is None else plain[0])
    elif method is not None:
        output.show_space(resolved[0], output.other_values(benchmark))
    else:
        output.show_spaces(resolved, output.other_values(benchmark))
