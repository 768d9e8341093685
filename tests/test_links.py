"""Links and names of pages: every file and heading that a page links to is there, and every page that a file names."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.imports import ROOT, SOURCES
from tests.support.pages import SUFFIXES, markdown

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
_NAMED = re.compile(r"(?<![\w/.:-])docs/[\w/-]+\.(?:md|csv|py)\b")
_SEE_PAGE = re.compile(r"see_page\(['\"]([\w-]+)['\"]\)")


@cache
def tracked() -> tuple[Path, ...]:
    names = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    return tuple(path for name in names if (path := ROOT / name).is_file())


def pages() -> list[Path]:
    return [path for path in tracked() if path.suffix in SUFFIXES]


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: list[str] = []
    for heading in _HEADING.findall(_BLOCK.sub("", markdown(page))):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return frozenset(found)


def broken(page: Path) -> Iterator[str]:
    for link in _LINK.findall(_CODE.sub("", markdown(page))):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists():
            yield f"{page.relative_to(ROOT)}: {link}"
        elif anchor and target.suffix in SUFFIXES and anchor not in anchors(target):
            yield f"{page.relative_to(ROOT)}: {link} (no such heading)"


def test_every_link_leads_somewhere() -> None:
    assert len(pages()) > 40 and sum(page.suffix == ".ipynb" for page in pages()) == 2
    assert [fault for page in pages() for fault in broken(page)] == []


def test_a_broken_link_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.test_links.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# One & two\n[here](#one--two) `[code](none.md)` [gone](none.md) [lost](page.md#three)\n")
    assert list(broken(page)) == ["page.md: none.md", "page.md: page.md#three (no such heading)"]


def test_a_broken_link_of_a_notebook_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.test_links.ROOT", tmp_path)
    page, link = tmp_path / "notebook.ipynb", "[here](#one) [gone](none.md) [lost](notebook.ipynb#code)"
    cells = [
        {"cell_type": "markdown", "source": ["# One\n", link]},
        {"cell_type": "code", "source": ["# Code\n", "[gone](code.md)"]},
    ]
    page.write_text(json.dumps({"cells": cells}))
    assert list(broken(page)) == ["notebook.ipynb: none.md", "notebook.ipynb: notebook.ipynb#code (no such heading)"]


def test_every_page_that_a_file_names_is_there() -> None:
    texts = {path: path.read_bytes().decode("utf-8", errors="ignore") for path in tracked()}
    named = [(path, name) for path, text in texts.items() for name in _NAMED.findall(text)]
    assert len(named) > 40
    assert [(str(path.relative_to(ROOT)), name) for path, name in named if not (ROOT / name).exists()] == []


def test_messages_name_pages_that_are_there() -> None:
    texts = [path.read_text(encoding="utf-8") for folder in SOURCES.values() for path in folder.rglob("*.py")]
    named = {name for text in texts for name in _SEE_PAGE.findall(text)}
    assert len(named) > 3
    assert named <= {page.stem for page in (ROOT / "docs").rglob("*.md")}


def test_the_platform_says_no_path_of_a_page_which_a_wheel_lacks() -> None:
    found = [path for path in SOURCES["tausearch"].rglob("*.py") if any("docs/" in text for text in texts_of(path))]
    assert found == []


def texts_of(path: Path) -> Iterator[str]:
    """The strings of a file, docstrings among them, which are the help of commands; comments are not."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
