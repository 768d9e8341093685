"""The list of commands in the help of the whole tool, in sections; the commands that a user needs first come first."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from tausearch.cli.ending import end_interrupted

SECTIONS = {
    "Search and train": ("search", "train", "resume", "extend", "campaign"),
    "Look": ("status", "report", "compare", "figures"),
    "Compose and predict": ("compose", "evaluate", "predict", "export"),
    "What there is": ("data", "list"),
    "Keep and tidy up": ("runs",),
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
        """Write each command with the first sentence of its help."""
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(limit=100)) for name in names])
