"""What mkdocs calls while it builds the site: the navigation, and pages for files outside `docs/`.

docs/README.md is the navigation: its sections, and the pages that they link to, in their order. Pages link to files
such as CHANGELOG.md and examples, which GitHub shows; the site shows each on a page of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
COMMANDS = "reference/commands.md"  # made by commands.py
PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md")
_LINK = re.compile(r"(?<=\]\()[^)#\s:]+(?=(?:#[^)\s]*)?\))")
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_TITLED = re.compile(r"\[([^\]]+)\]\(([\w/-]+\.md)(?:#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the navigation from docs/README.md; below a page come those of its folder that it alone links to."""
    _, *sections = _SECTION.split((DOCS / "README.md").read_text(encoding="utf-8"))
    listed = [_pages_of(text) for text in sections[1::2]]
    placed = {path for pages in listed for path in pages}
    config.nav = [{"Home": "README.md"}]
    for title, pages in zip(sections[::2], listed, strict=True):
        entries: list[Any] = [{"Commands": COMMANDS}] if title == "Reference" else []
        config.nav.append({title: [*entries, *(_entry(path, name, placed) for path, name in pages.items())]})
    config.nav.append({"Project": [{Path(name).stem.capitalize(): _page_of(ROOT / name)} for name in PROJECT]})
    return config


def _pages_of(text: str) -> dict[str, str]:
    """Return the pages that a section links to, in their order, with the words of the first link to each."""
    first_words = {path: words for words, path in reversed(_TITLED.findall(text))}
    return dict(reversed(first_words.items()))


def _entry(path: str, name: str, placed: set[str]) -> dict[str, Any]:
    linked = dict.fromkeys(_page_of(target) for target in _linked(DOCS / path) if target.is_relative_to(DOCS))
    folder = path.split("/")[0]
    below = [each for each in linked if each.startswith(f"{folder}/") and each not in placed and each.endswith(".md")]
    placed |= set(below)
    return {name[0].upper() + name[1:]: [{"Overview": path}, *below] if below else path}


def _linked(page: Path) -> list[Path]:
    """Return the files and folders that a page links to."""
    links = _LINK.findall(page.read_text(encoding="utf-8"))
    return [target for link in links if (target := _target(page, link))]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside `docs/` that a page links to."""
    left = [*sorted(DOCS.rglob("*.md")), *(ROOT / name for name in PROJECT)]
    seen = set(left)
    while left:
        source = left.pop()
        if not source.is_relative_to(DOCS):
            inclusion = InclusionLevel.INCLUDED if source.name in PROJECT else InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, _page_of(source), content=_shown(source), inclusion=inclusion))
        if source.suffix == ".md":
            linked = set(_linked(source))
            left += sorted(linked - seen)
            seen |= linked
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files outside `docs/` into links to their pages."""
    uri = page.file.src_uri
    source = ROOT / uri.removeprefix("repository/") if uri.startswith("repository/") else DOCS / uri
    return _LINK.sub(lambda link: _rebased(source, link[0], uri), markdown)


def _rebased(source: Path, link: str, page: str) -> str:
    target = _target(source, link)
    return link if target is None else os.path.relpath(_page_of(target), Path(page).parent)


def _target(source: Path, link: str) -> Path | None:
    """Return the file or folder of the repository that a link of a file leads to; None if it is not there."""
    target = Path(os.path.normpath(source.parent / link))
    return target if target.exists() and target.is_relative_to(ROOT) else None


def _page_of(path: Path) -> str:
    """Return where the site has a file or folder of the repository."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return f"repository/{path.relative_to(ROOT).as_posix()}{'' if path.suffix == '.md' else '.md'}"


def _shown(path: Path) -> str:
    """Return the Markdown of a file, or of all files of a folder."""
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    return "\n\n".join([f"# `{path.relative_to(ROOT)}`", *_blocks(path)])


def _blocks(path: Path) -> Iterator[str]:
    for file in [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.suffix in _LANGUAGES):
        if file != path:
            yield f"## `{file.relative_to(path)}`"
        yield f"````{_LANGUAGES[file.suffix]}\n{file.read_text(encoding='utf-8')}````"


_LANGUAGES = {".py": "python", ".yaml": "yaml", ".json": "json", ".toml": "toml"}
