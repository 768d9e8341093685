"""Modules with all their mutants, as mutmut writes them, and their import in place of the sources."""

from __future__ import annotations

import ast
import difflib
import hashlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.metadata import version
from pathlib import Path
from types import CodeType, ModuleType

import libcst as cst
from mutmut.mutation.file_mutation import mutate_file_contents

from tests.mutants.targets import ROOT

CACHE = ROOT / ".mutants"
# Decorators that may as well be applied in a line below the function: mutmut leaves decorated functions alone.
MOVABLE = {"torch.no_grad()", "torch.inference_mode()", "property", "cached_property", "contextmanager"}


@dataclass(frozen=True)
class Mutant:
    """One change of one function."""

    module: str
    function: str  # with the name of its class
    name: str  # mutmut's name of the changed function
    before: str  # the lines that the mutant changes, on one line
    after: str  # the changed lines

    @property
    def key(self) -> str:
        """An identifier that does not depend on mutmut's numbering."""
        text = "\n".join((self.module, self.function, self.before, self.after))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class _MovedDecorators(cst.CSTTransformer):
    """`@d` above `def f` becomes `f = d(f)` below it, in modules and classes; functions within functions stay."""

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef | cst.FlattenSentinel[cst.BaseStatement]:
        names = [cst.Module([]).code_for_node(decorator.decorator) for decorator in updated_node.decorators]
        if not names or not MOVABLE.issuperset(names):
            return updated_node
        value = updated_node.name.value
        for name in reversed(names):
            value = f"{name}({value})"
        below = cst.parse_statement(f"{updated_node.name.value} = {value}")
        return cst.FlattenSentinel([updated_node.with_changes(decorators=()), below])


def mutated_file(source: Path) -> Path:
    """Return a file with a module's functions and all their mutants, written if it is not there yet."""
    text = source.read_text()
    digest = hashlib.sha256(f"{version('mutmut')}\n{sorted(MOVABLE)}\n{text}".encode()).hexdigest()[:16]
    file = CACHE / "sources" / f"{source.stem}-{digest}.py"
    if not file.exists():
        moved = cst.parse_module(text).visit(_MovedDecorators()).code
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(mutate_file_contents(str(source), moved).code)
    return file


def mutants_of(module: str, source: Path) -> list[Mutant]:
    """Return the mutants of a module, in the order of its functions; two of the same text count once."""
    text = mutated_file(source).read_text()
    lines = text.splitlines()
    functions = {
        node.name: lines[node.lineno - 1 : node.end_lineno]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and "__mutmut_" in node.name
    }
    mutants = [
        _described(module, name, functions[re.sub(r"\d+$", "orig", name)], body)
        for name, body in functions.items()
        if not name.endswith("_orig")
    ]
    return list({mutant.key: mutant for mutant in mutants}.values())


def _described(module: str, name: str, before: Sequence[str], after: Sequence[str]) -> Mutant:
    function = name.partition("__mutmut_")[0]
    plain = ".".join(function[2:].split("ǁ")) if "ǁ" in function else function[2:]
    changed = [
        line
        for line in difflib.ndiff(
            [line.replace("__mutmut_orig", "") for line in before],
            [re.sub(r"__mutmut_\d+", "", line) for line in after],
        )
        if line[0] in "-+"
    ]
    old, new = (" ".join(line[2:].strip() for line in changed if line[0] == sign) for sign in "-+")
    return Mutant(module, plain, name, old, new)


class _Loader(SourceFileLoader):
    """Runs the file with the mutants in it; the module's `__file__` stays the source."""

    def get_code(self, fullname: str) -> CodeType | None:
        file = mutated_file(Path(self.path))
        return compile(file.read_text(), str(file), "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def __init__(self, modules: set[str]):
        self.modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in self.modules else None
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin)
        return spec


def import_mutated(modules: set[str]) -> None:
    """Import these modules with all their mutants from now on; none is active."""
    sys.meta_path.insert(0, _Finder(modules))
