"""What the site shows of the code: every public name, and every name that the pages and examples import."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator

import pytest

from tests.support.imports import ROOT, imports

API = sorted((ROOT / "docs" / "reference" / "api").glob("*.md"))
SHOWN = [name for page in API for name in re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE)]
ROOMS = ("tausearch", "tausearch.tables", "tausearch.testing")
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_EQUATION = re.compile(r"^```math\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOT_SHOWN = {"tausearch.tables"}  # a module, which has a page of its own


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_in_the_reference(room: str) -> None:
    public = {f"{room}.{name}" for name in importlib.import_module(room).__all__} - NOT_SHOWN
    assert public and public == {name for name in SHOWN if name.rpartition(".")[0] == room}


def test_no_name_is_there_twice() -> None:
    assert len(SHOWN) == len(set(SHOWN)) > 60


def imported(blocks: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(blocks)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("tausearch", "trainables"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def in_pages() -> set[str]:
    texts = [page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "how-to").glob("*.md"))]
    blocks = [block for text in texts for block in _PYTHON.findall(text)]
    return {name for block in blocks for name in imported(block)}


def in_examples() -> set[str]:
    files = [path for path in (ROOT / "examples").rglob("*.py") if path.parent.name != "plugin"]
    found = [each for path in files for each in imports(path) if each.name]
    return {f"{each.module}.{each.name}" for each in found if each.module.split(".")[0] in ("tausearch", "trainables")}


def test_what_pages_and_examples_import_is_in_the_reference() -> None:
    named = in_pages() | in_examples()
    assert len(named) > 20
    assert sorted(named - set(SHOWN)) == []


@pytest.mark.parametrize("name", SHOWN)
def test_it_is_explained(name: str) -> None:
    module, _, last = name.rpartition(".")
    found = getattr(importlib.import_module(module), last)
    if inspect.isclass(found) or inspect.isfunction(found):
        written = found.__doc__ or ""
        assert written and not written.startswith(f"{last}(")  # which dataclasses write themselves


def test_the_folder_of_the_site_is_ignored() -> None:
    assert "/site/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_the_picture_of_the_architecture_has_every_name_of_its_source() -> None:
    source, picture = ((ROOT / "docs" / "images" / f"architecture.{end}").read_text() for end in ("mmd", "svg"))
    names = {word for label in re.findall(r"[\[(]+([\w:, ]+)[\])]+", source) for word in re.findall(r"\w+", label)}
    assert len(names) > 20
    assert {name for name in names if name not in picture} == set()


def test_an_equation_is_one_that_github_shows() -> None:
    texts = {page.name: page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "explanation").rglob("*.md")}
    blocks = [(name, block) for name, text in texts.items() for block in _EQUATION.findall(text)]
    assert len(blocks) > 10
    assert [name for name, block in blocks if block.count("\n") != 1 or "\\operatorname" in block] == []
