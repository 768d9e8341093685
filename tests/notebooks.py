"""Run the notebooks and keep their output: `python -m tests.notebooks`."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from tests.support.pages import NOTEBOOKS

MOST_SECONDS = 600  # of one cell: its search took 200 on a slow machine beside other tests


def read(path: Path) -> NotebookNode:
    """Return a notebook as it is stored."""
    return nbformat.read(path, as_version=4)


def executed(path: Path, folder: Path) -> NotebookNode:
    """Return a notebook with the output of a run in a fresh kernel, whose working directory is `folder`.

    Raises:
        CellExecutionError: If a cell raises an error.
    """
    notebook = read(path)
    about = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=MOST_SECONDS, kernel_name="python3", resources=about, record_timing=False)
    client.execute()
    notebook.metadata.pop("language_info", None)  # the version of Python
    for output in (each for cell in notebook.cells for each in cell.get("outputs", [])):
        if "text/html" in output.get("data", {}):
            output.data.pop("text/plain", None)  # it names folders of this machine
    return notebook


def main() -> None:
    """Run each notebook where it lies, and write it with its output."""
    for path in NOTEBOOKS:
        nbformat.write(executed(path, path.parent), path)


if __name__ == "__main__":
    main()
