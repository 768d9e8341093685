"""The sections of the help: of the commands of the whole tool, and of the options of commands that have many."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer import TyperException
from typer.core import TyperCommand, TyperGroup

from tausearch.cli.exit_codes import end_interrupted
from trainables.errors import InputError

_VALUE = re.compile(r"Invalid value for '(.+?)': ")  # as Typer begins
SECTIONS = {
    "Search and train": ("search", "train", "resume", "extend", "export", "campaign"),
    "Look": ("status", "report", "compare", "figures"),
    "Compose and predict": ("compose", "evaluate", "predict"),
    "What there is": ("data", "list"),
    "Keep and tidy up": ("runs",),
}


# By their names, which mean the same in every command; where one does not, its parameter names the section.
OPTIONS = {
    "Search": "trials algorithm sampler-option scheduler pruner-option seed patience target",
    "Hyperparameters": "set space warm-start",
    "Choice": "objective constraint prefer across reevaluate reevaluate-runs",
    "What to compose": "keep drop coefficient forget retrain-later weights",
    "Merging rule": "rule density search search-seed",
    "Protocol": (
        "seeds class-orders benchmark tasks classes-per-task task class-order epochs backbone backbone-weights"
        " initial-head precision save-curvature"
    ),
    "Data": "data-root variant partial skip-broken label-column",
    "Resources": ("max-concurrent-trials cpus-per-trial gpus-per-trial device time-budget address cache-size no-cache"),
    "Run and tracking": (
        "name resume-if-exists with-bounds without-damaged storage tracking tracking-uri callback allow-code"
    ),
    "Output": "dry-run export forms register format help",
}
_SECTION = {name: title for title, names in OPTIONS.items() for name in names.split()}


def section_of(option: Any) -> str:
    """Return the title of the section of an option, or of an argument."""
    if option.param_type_name == "argument":
        return "Arguments"
    name = max(option.opts, key=len).removeprefix("--")
    return getattr(option, "rich_help_panel", None) or _SECTION.get(name, "Options")


class SectionedCommand(TyperCommand):
    """A command whose help has sections."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, each in its section."""
        params = self.get_params(ctx)
        for title in ("Arguments", *OPTIONS, "Options"):
            rows = [each.get_help_record(ctx) for each in params if section_of(each) == title]
            if any(rows):
                with formatter.section(title):
                    formatter.write_dl([row for row in rows if row])


class SectionedGroup(TyperGroup):
    """The tool as a group of commands whose help has sections, and whose errors have one line."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Read the options before the command."""
        with _in_one_line():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; without this Typer would end it in silence after Ctrl-C."""
        try:
            with _in_one_line():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            end_interrupted()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in the order of the sections."""
        return [name for names in SECTIONS.values() for name in names]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with the first sentence of its help."""
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(limit=100)) for name in names])


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Raise what Typer says of a wrong word as an `InputError`; Typer itself would print the usage before it."""
    try:
        yield
    except TyperException as error:
        context, said = getattr(error, "ctx", None), error.format_message()
        if "\n" in said:  # the whole help, of a group without a command
            raise
        command = "tausearch" if context is None else context.command_path
        raise InputError(f"{_in_our_words(said.rstrip('.'), error.__cause__)} (see `{command} --help`)") from None


def _in_our_words(said: str, cause: BaseException | None) -> str:
    """Return what Typer says; of a value that pydantic, which Typer reads values with, has refused, what it must be."""
    option, errors = _VALUE.match(said), getattr(cause, "errors", None)
    if option is None or errors is None:
        return said
    from checked_input.schema import fault_words  # pydantic takes a tenth of a second to import

    return f"{option[1]} {fault_words(errors()[0])}"
