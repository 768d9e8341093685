"""The command line accepts every command in README, docs and notebooks; quick commands are run.

Tutorials are run as a whole by `tests/system/tutorials`.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import tausearch
import tausearch.cluster
from checked_input.text_files import spreadsheet_cell
from tausearch.cli.application import app, require_commas
from tausearch.presentation import released_stdout
from tests.documented import PAGES, Command, commands, prepare
from tests.support.command_line import get_command, run
from tests.support.imports import ROOT, SOURCES
from tests.support.pages import NOTEBOOKS, cells, markdown

STARTS = ("search", "train")  # run with --dry-run, which checks everything that they would
LOOKS = (
    "status",
    "compare",
    "report",
    "export",
    "list spaces",
    "list backbones",
    "runs replay",
    "runs note",
    "runs cache",
)
NOT_RUN = {
    "evaluate", "figures", "compose", "predict",  # need a final run; the tutorial, and tests of their own
    "resume", "extend", "campaign run",  # start Ray
    "runs ui",  # serves until Ctrl-C
    "runs sync",  # MLflow
    "runs delete", "campaign delete",  # ask first
    "list benchmarks", "data check", "data prepare",  # published data
    "campaign plan", "campaign status", "campaign report",
}  # fmt: skip
ALL = commands()


def parsed(words: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    """The name of the command and its options, as the real command line reads them; nothing is called.

    Raises:
        Exception: Typer's, if it does not take them.
    """
    command: Any = get_command(app)
    rest = list(words)
    require_commas(rest)
    with released_stdout():  # `--format json` reserves it
        context, names = command.make_context("tausearch", rest), []
        while hasattr(command, "commands") and (left := [*context._protected_args, *context.args]):
            name, command, rest = command.resolve_command(context, left)
            names.append(name)
            context = command.make_context(name, rest, parent=context)
    return " ".join(names), context.params


def test_a_command_that_is_only_read_leaves_stdout_to_later_tests() -> None:
    before = sys.stdout
    parsed(("status", "--format", "json"))
    assert sys.stdout is before


@pytest.mark.parametrize("command", ALL, ids=str)
def test_the_command_line_takes_it(command: Command) -> None:
    name, _ = parsed(command.words)
    assert name in {*STARTS, *LOOKS, *NOT_RUN}


@pytest.mark.parametrize(
    "wrong",
    [
        "search digits ewc --trails 3",
        "search digits",
        "serach digits ewc",
        "status a b",
        "runs note",
        "data chekc digits",
    ],
)
def test_what_it_does_not_take_is_noticed(wrong: str) -> None:
    with pytest.raises(Exception, match=r"No such|Missing|unexpected"):
        parsed(tuple(wrong.split()))


def test_the_commands_of_a_notebook_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "`tausearch status no-run` and\n```\ntausearch report one\n```\n"
    cells = [
        {"cell_type": "markdown", "source": text.splitlines(keepends=True)},
        {"cell_type": "code", "source": ["# `tausearch report two`"]},
    ]
    page = tmp_path / "notebook.ipynb"
    page.write_text(json.dumps({"cells": cells}))
    monkeypatch.setattr("tests.documented.PAGES", [page])
    assert [each.words for each in commands()] == [("report", "one"), ("status", "no-run")]
    assert {"1-search.ipynb", "2-compose-and-unlearn.ipynb"} <= {each.name for each in PAGES}


def names_in(notebook: Path) -> set[str]:
    """The names of Python in the code spans of a notebook's Markdown cells, without quoted values."""
    spans = re.findall(r"`([^`]+)`", markdown(notebook))
    return {name for span in spans for name in re.findall(r"[A-Za-z_]\w*", re.sub(r"\"[^\"]*\"|\S*/\S*", "", span))}


def known_names(notebook: Path) -> set[str]:
    """The names that a notebook may mention: of its code, of `tausearch` with parameters and attributes."""
    public = {name: getattr(tausearch, name) for name in tausearch.__all__}
    nodes = [vars(node) for node in ast.walk(ast.parse(cells(notebook, "code")))]
    known = {node[field] for node in nodes for field in ("id", "attr", "arg", "value") if type(node.get(field)) is str}
    known |= {*public}
    for each in public.values():
        if isinstance(each, type):
            known |= {*dir(each), *each.__dict__.get("__dataclass_fields__", ())}
        elif callable(each):
            known |= {*inspect.signature(each).parameters}
    return known


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_names_in_the_text_of_a_notebook_are_there(notebook: Path) -> None:
    assert names_in(notebook) and names_in(notebook) - known_names(notebook) == set()


def test_there_are_many() -> None:
    assert len(ALL) > 90 and {"README.md", "own-images.md", "cluster.md", "campaign.md"} <= {each.page for each in ALL}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("documented")
    prepare(made)
    return made


def chosen(*names: str) -> list[Command]:
    return [each for each in ALL if {each.words[0], " ".join(each.words[:2])} & set(names)]


@pytest.mark.system
@pytest.mark.parametrize("command", chosen(*STARTS), ids=str)
def test_what_it_would_start_can_be_started(
    command: Command, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    assert tausearch.cluster.ray_session, "the package keeps what it was first asked for, which must be no stand-in"
    monkeypatch.setattr("tausearch.cluster.session.ray_session", lambda *_, **__: nullcontext())  # joins no cluster
    monkeypatch.setattr("socket.create_connection", lambda *_, **__: Mock())  # a page's address is nobody's
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 64.0, "GPU": 8.0})
    words = list(command.words)
    if "--space" in words:
        words[words.index("--space") + 1] = "space.yaml"
        (folder / "space.yaml").write_text("space: {lr: {low: 0.001, high: 0.002, grid: [0.001]}}\n")
    if "/shared/tausearch-runs" in words:
        words[words.index("/shared/tausearch-runs")] = "tausearch-runs"
    code, out, err = run([*words, "--dry-run", *_another_name(words)], capsys, monkeypatch)
    assert code == 0 and "nothing was started" in out, err


def _another_name(words: list[str]) -> list[str]:
    return ["--name", "another"] if "--name" in words else []  # the last one given holds, and none is there already


@pytest.mark.system
@pytest.mark.parametrize("command", chosen(*LOOKS), ids=str)
def test_what_only_looks_is_run(
    command: Command, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    code, _, err = run(list(command.words), capsys, monkeypatch)
    assert code == 0, err


def test_no_page_but_those_of_the_reference_has_more_than_150_lines() -> None:
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.parent != ROOT / "docs" / "reference"]
    lines = {page.name: len(page.read_text(encoding="utf-8").splitlines()) for page in pages}
    assert len(lines) > 50 and {name: count for name, count in lines.items() if count > 150} == {}


@pytest.mark.parametrize("page", ["how-to/predict.md", "reference/security.md"])
def test_a_page_about_csv_names_the_signs_that_get_an_apostrophe(page: str) -> None:
    (sentence,) = re.findall(r"[^.]*\bapostrophe\b", (ROOT / "docs" / page).read_text(encoding="utf-8"))
    signs = re.findall(r"`([^\w`])`", sentence)
    assert sorted(signs) == ["+", "-", "=", "@"] and all(spreadsheet_cell(sign) == f"'{sign}" for sign in signs)


def test_what_troubleshooting_quotes_is_what_the_tool_says() -> None:
    page = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    quoted = [text for row in rows for text in re.findall(r"`([^`]+)`", row)]
    sources = [path.read_text(encoding="utf-8") for folder in SOURCES.values() for path in folder.rglob("*.py")]
    assert len(quoted) > 20
    assert [text for text in quoted if not any(text in source for source in sources)] == []
