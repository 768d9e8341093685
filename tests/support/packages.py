"""Packages as an installer leaves them: modules, and a `dist-info` folder with entry points."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from tests.support.imports import ROOT

EXAMPLE = ROOT / "examples" / "plugin"


def install(folder: Path, package: str, points: Mapping[str, str], **modules: str) -> None:
    """Write a package to a folder, which stands or will stand on Python's path.

    Args:
        folder: The folder of installed packages.
        package: The package's name.
        points: The target `MODULE:NAME` of each entry point, by `GROUP NAME`, such as `methods mine`.
        modules: The text of each module by its name.
    """
    about = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8")
    lines: dict[str, list[str]] = {}
    for point, target in points.items():
        group, name = point.split(" ")
        lines.setdefault(f"[tausearch.{group}]", []).append(f"{name} = {target}")
    text = "\n".join(line for group, names in lines.items() for line in (group, *names))
    (about / "entry_points.txt").write_text(text + "\n", encoding="utf-8")
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(dedent(source), encoding="utf-8")


def install_example(folder: Path) -> Path:
    """Install the example of a package, as its `pyproject.toml` says, without a build and without the network."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = project["entry-points"].items()
    points = {f"{group.removeprefix('tausearch.')} {name}": to for group, each in groups for name, to in each.items()}
    install(folder, project["name"], points)
    shutil.copytree(EXAMPLE / "tausearch_example", folder / "tausearch_example")
    return folder
