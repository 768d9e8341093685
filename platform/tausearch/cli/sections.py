"""The list of commands in the help of the whole tool: in sections, those first that one needs first."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from tausearch.cli.ending import end_interrupted

SECTIONS = {
    "Search and train": {
        "search": "Search the hyperparameters of a method on a benchmark.",
        "resume": "Go on with a run that was stopped or killed.",
        "extend": "Run more trials of a search.",
        "train": "Train a chosen configuration on several seeds, and test it.",
        "campaign": "Make a whole table: methods by benchmarks, from one file.",
    },
    "Look": {
        "status": "Show what runs, what is done, and the best so far.",
        "report": "Write one HTML file that shows a run.",
        "compare": "Put final runs beside the paper's results.",
        "replay": "Show what another algorithm would have chosen.",
        "ui": "Open MLflow's pages on this machine.",
    },
    "Compose and predict": {
        "compose": "Compose task vectors: all of them, some, or without one.",
        "edit": "Run the paper's protocol of specialising and unlearning.",
        "figures": "Draw the paper's figures of a final run.",
        "predict": "Classify images with what a final run has left.",
    },
    "What there is": {
        "data": "List the benchmarks, and check or prepare their images.",
        "backbones": "List the backbones.",
        "spaces": "Show the search spaces of the methods.",
    },
    "Keep and tidy up": {
        "export": "Write a best configuration, or adapters, to a file.",
        "sync": "Bring MLflow up to date with the record.",
        "note": "Note something of a run.",
        "rename": "Rename a run.",
        "delete": "Delete runs.",
        "cache": "List or clear what trials share on disk.",
    },
}


class SectionedGroup(TyperGroup):
    """The tool as a group of commands whose help has sections."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; without this Typer would end it in silence after Ctrl-C."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            end_interrupted()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, each with its line."""
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))
