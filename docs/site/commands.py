"""Make the page of all commands from the help of the command line, whenever the site is built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from tausearch.cli.application import app
from tausearch.cli.sections import OPTIONS, SECTIONS, SectionedCommand, section_of

PAGE = "reference/commands.md"
_INTRODUCTION = """\
# Commands

`tausearch COMMAND --help` says the same in a terminal. This page is made from the help whenever the site is built.
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page."""
    files.append(File.generated(config, PAGE, content="\n\n".join([_INTRODUCTION, *_sections()])))
    return files


def _sections() -> Iterator[str]:
    tool: Any = typer.main.get_command(app)
    context = typer.Context(tool, info_name="tausearch", terminal_width=90)
    for title, names in SECTIONS.items():
        yield f"## {title}"
        for name in names:
            yield from _with_subcommands(name, tool.commands[name], context)


def _with_subcommands(name: str, command: Any, parent: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=name, parent=parent, terminal_width=90)
    yield from _of_command(command, context)
    for each in command.list_commands(context) if hasattr(command, "commands") else ():
        if not command.commands[each].hidden:
            yield from _with_subcommands(each, command.commands[each], context)


def _of_command(command: Any, context: Any) -> Iterator[str]:
    yield f"### {context.command_path}"
    yield f"```\n{command.get_usage(context).removeprefix('Usage: ')}\n```"
    yield _text(command.help or "")
    panels: dict[str, list[str]] = {title: [] for title in ("Arguments", *OPTIONS, "Options")}
    for parameter in command.get_params(context):
        if record := parameter.get_help_record(context):
            kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
            title = section_of(parameter) if isinstance(command, SectionedCommand) else kind
            panels[title].append(f"| `{record[0]}` | {_text(record[1])} |".replace("\n", " "))
    for title, rows in panels.items():
        if rows:
            yield "\n".join([f"| {title} | |", "|---|---|", *rows])


def _text(help_text: str) -> str:
    """Return a help text as Markdown that shows it letter by letter."""
    return help_text.replace("\b", "").replace("<", "&lt;").replace("*", r"\*").replace("|", r"\|").replace("[", r"\[")
