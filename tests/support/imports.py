"""The imports of a source file, read without running it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = {
    "checked_input": ROOT / "platform" / "checked_input",
    "tausearch": ROOT / "platform" / "tausearch",
    "trainables": ROOT / "trainables",
    "search_spaces": ROOT / "search_spaces",
}


@dataclass(frozen=True)
class Import:
    """One imported module, or name of a module.

    Attributes:
        module: Its absolute name, such as `tausearch.runs`.
        name: What is taken out of it; None for the module itself.
    """

    module: str
    name: str | None


def imports(path: Path) -> Iterator[Import]:
    """All imports of a file, wherever in it: in functions and for type checking, too."""
    for node in import_nodes(path.read_text(encoding="utf-8")):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, None) for alias in node.names)
        else:
            assert node.level == 0, f"{path}: relative import"
            yield from (Import(node.module or "", alias.name) for alias in node.names)


@functools.cache  # several tests ask for the same files, some for copies of them
def import_nodes(text: str) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """All import statements of a source text."""
    return tuple(node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom))


def files(package: str) -> list[Path]:
    """All modules of a package."""
    found = sorted(SOURCES[package].rglob("*.py"))
    assert len(found) > 3, f"the walk found nothing in {package}"
    return found


def circle(arrows: Mapping[str, Sequence[str]]) -> list[str]:
    """The first circle that is found in a graph, from a node back to itself; empty without one."""
    done: set[str] = set()

    def walk(node: str, way: list[str]) -> list[str]:
        if node in way:
            return [*way[way.index(node) :], node]
        if node in done:
            return []
        found = next((c for other in arrows.get(node, ()) if (c := walk(other, [*way, node]))), [])
        done.add(node)
        return found

    return next((c for node in arrows if (c := walk(node, []))), [])
