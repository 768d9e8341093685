"""The Markdown of pages: of `.md` files, and of the cells of notebooks."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.imports import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SUFFIXES = (".md", ".ipynb")


def markdown(page: Path) -> str:
    """Return the Markdown of a page; of a notebook, that of its Markdown cells with blank lines between them."""
    return page.read_text(encoding="utf-8") if page.suffix == ".md" else cells(page, "markdown")


def cells(notebook: Path, kind: str) -> str:
    """Return the cells of one kind of a notebook, "markdown" or "code", with blank lines between them."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    return "\n\n".join("".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == kind) + "\n"
