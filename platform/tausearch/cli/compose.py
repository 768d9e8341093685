"""The commands on what final runs leave: compose, evaluate, figures, predict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from checked_input.text_files import shown
from tausearch import api, models
from tausearch.api import ComposeRequest, EvaluateRequest, FiguresRequest
from tausearch.cli import completion, options, output
from tausearch.cli.exit_codes import leave
from tausearch.cli.options import app
from tausearch.cli.sections import SectionedCommand
from tausearch.presentation import LongWork, print_json, print_notices, say_loading
from tausearch.runs import DEFAULT_STORAGE, open_storage, storage_option
from trainables.errors import InputError
from trainables.task_names import split_names

Runs = Annotated[
    list[str], typer.Argument(help="Final run, or folder of exported task vectors.", autocompletion=completion.runs)
]
Seeds = Annotated[str | None, typer.Option(help="Seeds to compose [default: all of the run].", metavar="0,1,...")]
BackboneWeights = Annotated[
    Path | None, typer.Option(help="Local weights file of the backbone [default: that of the run].")
]
Device = Annotated[
    str | None, typer.Option(help="cpu or cuda [default: as the run was trained; for exports a GPU if there is one].")
]


@app.command(cls=SectionedCommand)
def compose(
    runs: Annotated[
        list[str], typer.Argument(help="Final run, or folder of exported task vectors; of several, RUN:1,2 RUN:3,4,5.")
    ],
    keep: Annotated[
        str | None, typer.Option(help="Compose these tasks alone: numbers or names, as 1,5,animals.")
    ] = None,
    drop: Annotated[str | None, typer.Option(help="Unlearn these tasks, by number or name.")] = None,
    coefficient: Annotated[
        str | None, typer.Option(help="How to unlearn: drop, negate or subtract [default: drop].")
    ] = None,
    forget: Annotated[
        list[str] | None,
        typer.Option(help="Take out these classes for good: class names or task numbers, such as zebra,3; repeatable."),
    ] = None,
    retrain_later: Annotated[
        bool,
        typer.Option(
            "--retrain-later",
            help="With --forget: train again, in a run of its own, the tasks that have learned from these classes;"
            " says the price first.",
        ),
    ] = False,
    weights: Annotated[str | None, typer.Option(help="A weight for each task, such as 0.3,0.3,-0.4.")] = None,
    rule: Annotated[
        str, typer.Option(help="linear, ties, magnitude, dare, dare-ties, fisher, regmean or MODULE:NAME.")
    ] = ComposeRequest.rule,
    density: Annotated[
        float | None, typer.Option(help="Share of entries that a rule keeps [default: 0.2].")
    ] = ComposeRequest.density,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A parameter of the rule, such as density=0.3. Repeatable.", rich_help_panel="Merging rule"
        ),
    ] = None,
    search: Annotated[
        int | None, typer.Option(help="Try this many values of the rule's parameters on validation images.")
    ] = None,
    search_seed: Annotated[int | None, typer.Option(help="Seed of --search [default: 0].")] = None,
    seeds: Seeds = None,
    export: Annotated[
        Path | None, typer.Option(envvar="TAUSEARCH_EXPORT", help="Empty folder for what was composed.")
    ] = None,
    forms: Annotated[
        str | None, typer.Option(help="adapter, timm, models or vectors [default: all].", metavar="timm,vectors,...")
    ] = None,
    register: Annotated[
        bool, typer.Option("--register", help="Make it a version of MLflow's registered model of the benchmark.")
    ] = False,
    backbone_weights: BackboneWeights = None,
    device: Device = None,
    data_root: options.DataRootAsBefore = None,
    allow_code: options.AllowCode = None,
    storage: options.Storage = DEFAULT_STORAGE,
    format: options.Format = "text",
) -> None:
    """Compose task vectors: all of them, some, or without one. Tests the composition; --export writes it."""
    request = options.request_of(
        ComposeRequest,
        locals(),
        keep=_tasks("keep", keep),
        drop=_tasks("drop", drop),
        weights=None if weights is None else options.numbers("--weights", weights),
        set=options.assignments(set_),
        forms=options.names(forms),
        seeds=_seeds(seeds),
    )
    say_loading()
    try:
        done = api.compose_with(request)
    except api.StoppedError as error:
        leave(error.number, False, "the same command", False)
        raise
    if format == "json":
        print_json(output.composed_as_dict(done))
    else:
        output.show_composed(done, storage_option(storage))


@app.command()
def evaluate(
    runs: Runs,
    seeds: Seeds = None,
    backbone_weights: BackboneWeights = None,
    device: Device = None,
    data_root: options.DataRootAsBefore = None,
    allow_code: options.AllowCode = None,
    storage: options.Storage = DEFAULT_STORAGE,
    format: options.Format = "text",
) -> None:
    """Run the paper's protocol of specialising and unlearning.

    It specialises on the first, central and last task, and unlearns each task in three ways.
    """
    request = options.request_of(EvaluateRequest, locals(), seeds=_seeds(seeds))
    say_loading()
    done = api.evaluate_with(request)
    if format == "json":
        print_json([output.evaluated_as_dict(each) for each in done])
    else:
        output.show_evaluated(done, storage_option(storage))


@app.command()
def figures(
    runs: Annotated[list[str], typer.Argument(help="Runs; those with task vectors are in all figures.")],
    output: Annotated[
        Path | None,
        typer.Option(envvar="TAUSEARCH_FIGURES", help="Folder to draw to [default: figures of the first run]."),
    ] = None,
    seeds: Seeds = None,
    backbone_weights: BackboneWeights = None,
    device: Device = None,
    data_root: options.DataRootAsBefore = None,
    allow_code: options.AllowCode = None,
    storage: options.Storage = DEFAULT_STORAGE,
    format: options.Format = "text",
) -> None:
    """Draw the paper's figures of a final run.

    These are risk against its bound, alignment and time per task, each with its numbers as CSV.
    """
    request = options.request_of(FiguresRequest, locals(), seeds=_seeds(seeds))
    say_loading()
    drawn = api.draw_with(request)
    if format == "json":
        print_json({"pictures": {k: str(path) for k, path in drawn.pictures.items()}, "left_out": drawn.left_out})
        return
    for name, path in drawn.pictures.items():
        print(f"{name}: {path}")
    for line in drawn.left_out:
        print(f"only in time: {line}")


@app.command()
def predict(
    model: Annotated[
        str, typer.Argument(help="Final run, its folder, or an exported folder.", autocompletion=completion.runs)
    ],
    images: Annotated[list[str], typer.Argument(help="Images; of a folder, every one in and below it.")],
    seed: Annotated[int | None, typer.Option(help="Seed of the run [default: its first].")] = None,
    keep: Annotated[
        str | None, typer.Option(help="Compose these tasks alone, such as 1,animals [default: all].")
    ] = None,
    skip_broken: Annotated[bool, typer.Option("--skip-broken", help="Leave out images that cannot be read.")] = False,
    max_image_bytes: Annotated[
        int | None, typer.Option(help="Refuse larger image files [default: 268,435,456].", min=1)
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            callback=options.with_home,
            help="Picture of the most and least confident predictions; beside a PNG the same as PDF.",
        ),
    ] = None,
    confusion: Annotated[
        Path | None,
        typer.Option(
            callback=options.with_home,
            help="Picture of the confusion matrix; beside it its numbers as CSV, a PNG as PDF.",
        ),
    ] = None,
    backbone_weights: BackboneWeights = None,
    device: Device = None,
    allow_code: options.AllowCode = None,
    storage: options.Storage = DEFAULT_STORAGE,
    format: options.FormatOfPredictions = "text",
) -> None:
    """Classify images with the model that a final run has left. Prints the probabilities, too."""
    chosen = _tasks("keep", keep)
    say_loading()

    no_images: list[str] = []
    paths = models.image_paths(images, no_images)
    pictures = {"--figure": figure, "--confusion": confusion}
    for option, path in pictures.items():
        if path is not None:
            output.require_figure(option, path, paths, open_storage(storage, write=False))
    if figure is not None and confusion is not None:
        output.require_two_files(figure, confusion)
    opened = models.open_model(model, models.ModelOptions(seed, chosen, backbone_weights, device), storage)
    print_notices(*opened.notes)
    if confusion is not None:
        output.require_truth(opened, paths, confusion)
    print_notices(*no_images)
    left_out: list[str] = []
    with LongWork() as work:
        tick = work.start("predict", len(paths))
        limit = {} if max_image_bytes is None else {"max_image_bytes": max_image_bytes}
        found = opened.predict(paths, skip_broken=skip_broken, left_out=left_out, tick=tick, **limit)
    print_notices(*left_out)
    if not found:
        raise InputError("no image is left that can be read")
    output.show_predictions(opened, found, left_out, format)
    lines = [*(output.draw(opened, found, figure) if figure is not None else ())]
    lines += [*(output.draw_confusion(opened, found, confusion) if confusion is not None else ())]
    for line in lines:
        print(line, file=sys.stderr)


def _seeds(text: str | None) -> list[int] | None:
    return None if text is None else options.whole_numbers("--seeds", text)


def _tasks(option: str, text: str | None) -> list[int | str] | None:
    """Read tasks, each a number or a name, with commas between them; a name may have quotes."""
    if text is None:
        return None
    parts = split_names(text)
    if not parts or not all(parts):
        raise InputError(f"--{option} must be tasks, numbers or names, with commas between them, got {shown(text)}")
    return [int(part) if part.isdecimal() and len(part) < 10 else part for part in parts]
