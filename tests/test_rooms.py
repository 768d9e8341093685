"""The packages of the platform: imports only go down, to a package's public names, never in a circle."""

from __future__ import annotations

import ast
import importlib
import subprocess
from pathlib import Path

import pytest

from tests.support.imports import ROOT, SOURCES, circle, files, import_nodes, imports

FLOORS = [
    {"cli", "testing"},
    {"campaigns"},
    {"api", "reports"},
    {"execution", "models"},
    {"cluster", "presentation", "studies", "tracking"},
    {"runs"},
]
OUTPUT = ("cli", "cli.output")
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
INNER = {  # folders in a room
    *("api.plans", "cli.output", "presentation.figures", "presentation.terminal"),
    *("models.removal", "models.rule_search", "reports.comparison", "reports.html"),
    *("runs.objectives", "studies.recorded"),
    *("runs.parts", "studies.parts"),  # of searches on several benchmarks
    *("runs.record", "runs.specs"),
}
MOST_MODULES = 16  # in one folder
LONGEST = 60  # lines of a function's body, without its docstring
PLATFORM = SOURCES["tausearch"]
TOP = {
    *(".dockerignore", ".github", "CITATION.cff", "Dockerfile", "hatch_build.py", "notebooks"),
    *(".ci", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile"),
    *("README.md", "benchmarks", "constraints.txt", "docs", "examples", "mkdocs.yml", "platform", "pyproject.toml"),
    *("ray_cluster.yaml", "search_spaces", "tests", "trainables"),
}


def faults(root: Path) -> list[str]:
    """Return the wrong imports of the packages in a folder, one line each."""
    found = []
    doors = {room: public(root, room) for room in [*FLOOR, "cli.output"]}
    for path in sorted(root.glob("*/**/*.py")):
        room, arrows = _room(root, path), _arrows(path)
        for other, module, name in arrows:
            where = f"{room}/{path.name} imports {module}" + (f".{name}" if name else "")
            if other != room and FLOOR[other.split(".")[0]] <= FLOOR[room.split(".")[0]] and (room, other) != OUTPUT:
                found.append(f"{where}: not downwards")
            if other != room and module != f"tausearch.{other}":
                found.append(f"{where}: past the door of {other}")
            if other != room and name is not None and name not in doors[other]:
                found.append(f"{where}: not public")
            if other == room and module == f"tausearch.{other}" and name in doors[other]:
                found.append(f"{where}: through its own door")
    for room in sorted(FLOOR):
        if way := circle(_inside(root, room)):
            found.append(f"{room}: {' > '.join(way)}")
    return found


def _room(root: Path, path: Path) -> str:
    """Return the package that exports a module's public names; `cli.output` has its own."""
    first, *inner = path.relative_to(root).parts[:-1]
    return "cli.output" if (first, *inner) == ("cli", "output") else first


def _arrows(path: Path) -> list[tuple[str, str, str | None]]:
    """Room, module and name of everything that a module imports from the platform."""
    found = []
    for each in imports(path):
        if each.module == "tausearch" and each.name is not None:
            found.append((each.name, f"tausearch.{each.name}", None))
        elif (each.module, each.name) == ("tausearch.cli", "output"):
            found.append(("cli.output", "tausearch.cli.output", None))
        elif each.module.startswith("tausearch."):
            room = "cli.output" if each.module.startswith("tausearch.cli.output") else each.module.split(".")[1]
            found.append((room, each.module, each.name))
    return found


def _inside(root: Path, room: str) -> dict[str, list[str]]:
    """Module to the modules of the same package that it imports."""
    modules = {_dotted(root, path): path for path in (root / room).rglob("*.py") if path.stem != "__init__"}
    return {
        module: [each for _, m, name in _arrows(path) for each in (m, f"{m}.{name}") if each in modules]
        for module, path in modules.items()
    }


def _dotted(root: Path, path: Path) -> str:
    return ".".join(("tausearch", *path.relative_to(root).with_suffix("").parts))


def public(root: Path, room: str) -> dict[str, str]:
    """Return the public names of a package, and their modules."""
    stub = root / room.replace(".", "/") / "__init__.pyi"
    if not stub.exists():  # cli, which no other package imports
        return {}
    nodes = [node for node in import_nodes(stub.read_text(encoding="utf-8")) if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in nodes for alias in node.names}


def test_imports_only_go_down_and_through_doors_and_never_in_a_circle() -> None:
    assert faults(PLATFORM) == []


def test_every_room_has_a_floor() -> None:
    folders = {path.name for path in PLATFORM.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(FLOOR)
    assert {path.name for path in PLATFORM.glob("*.py")} == {"__init__.py", "__main__.py", "tables.py"}


@pytest.mark.parametrize("room", sorted({*FLOOR, "cli.output"} - {"cli"}))
def test_a_door_opens_to_everything_that_its_stub_names(room: str) -> None:
    door, names = importlib.import_module(f"tausearch.{room}"), public(PLATFORM, room)
    assert sorted(names) == sorted(door.__all__) and len(names) > 1
    for name, module in names.items():
        assert getattr(door, name) is getattr(importlib.import_module(f"tausearch.{room}.{module}"), name)
    # A module that is imported becomes an attribute of its room and would hide a function of the same name.
    assert not set(names) & {path.stem for path in (PLATFORM / room.replace(".", "/")).iterdir()}


def test_no_folder_is_crowded() -> None:
    sources = [*SOURCES.values(), ROOT / "tests", ROOT / "benchmarks"]
    folders = {path.parent for source in sources for path in source.rglob("*.py")}
    assert len(folders) > 30 and {ROOT / "tests" / "support", ROOT / "benchmarks" / "authors"} <= folders
    for folder in folders:
        modules = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert len(modules) <= MOST_MODULES, f"{folder} has {len(modules)} modules"


def long_functions(text: str) -> dict[str, int]:
    """Name to lines of each function whose body is too long; the docstring does not count."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[ast.get_docstring(node) is not None :] or node.body
            found[node.name] = (body[-1].end_lineno or 0) - body[0].lineno + 1
    return {name: lines for name, lines in found.items() if lines > LONGEST}


def test_no_function_is_long() -> None:
    sources = [*map(files, SOURCES), (ROOT / "benchmarks").rglob("*.py")]
    for path in (path for source in sources for path in source):
        assert long_functions(path.read_text(encoding="utf-8")) == {}, path


@pytest.mark.parametrize(("lines", "found"), [(60, {}), (61, {"f": 61})])
def test_a_long_function_is_noticed(lines: int, found: dict[str, int]) -> None:
    parameters, body = "\n".join(f"    p{i}," for i in range(70)), "\n".join(["    ..."] * lines)
    assert long_functions(f'def f(\n{parameters}\n):\n    """Long."""\n{body}\n') == found


def test_few_packages_have_folders_inside() -> None:
    inner = {_dotted(PLATFORM, path.parent) for path in PLATFORM.rglob("*.py") if path.parent.parent != PLATFORM.parent}
    inner = {name.removeprefix("tausearch.") for name in inner if name.count(".") > 1}
    assert inner == INNER and len(FLOOR) <= 13 and len(FLOORS) <= 6


@pytest.mark.parametrize(
    ("module", "line", "fault"),
    [
        ("runs/directories.py", "from tausearch.studies import load_best", "not downwards"),
        ("runs/directories.py", "def f():\n    from tausearch import api", "not downwards"),
        ("studies/best_file.py", "from tausearch.presentation import console", "not downwards"),
        ("execution/driver.py", "from tausearch.runs.directories import RunDirectory", "past the door of runs"),
        ("execution/driver.py", "from tausearch.runs import T", "not public"),
        ("runs/specs/run.py", "from tausearch.runs import Storage", "through its own door"),
        ("runs/directories.py", "from tausearch.runs.specs.search import SearchSpec", "runs: "),
    ],
)
def test_a_wrong_import_is_noticed(module: str, line: str, fault: str, tmp_path: Path) -> None:
    for path in [*PLATFORM.glob("*/**/*.py"), *PLATFORM.glob("*/**/*.pyi")]:
        copy = tmp_path / path.relative_to(PLATFORM)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    assert faults(tmp_path) == []
    (tmp_path / module).write_text(f"{(tmp_path / module).read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    (found,) = [each for each in faults(tmp_path)]
    assert fault in found


def test_nothing_lies_about_at_the_top() -> None:
    """Files that runs leave behind are not committed."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a clone")
    assert {name.split("/")[0] for name in listed.stdout.splitlines()} == TOP
