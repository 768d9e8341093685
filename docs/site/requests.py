"""Show griffe, which reads the code without running it, the functions that `with_fields_of` makes.

Each takes the fields of a request and calls a function that takes the request.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import griffe


class FunctionsOfFields(griffe.Extension):
    """Put functions with parameters and docstrings in the place of the attributes that griffe finds."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **_: Any) -> None:
        """Replace them in a package that has been read as a whole."""
        griffe.DataclassesExtension().on_package(pkg=pkg, loader=loader)  # griffe's own comes later
        for module in _modules(pkg):
            for name, member in list(module.members.items()):
                if not member.is_alias and member.is_attribute and _is_made(member.value):
                    request, call = (_found(module, str(each), loader) for each in member.value.arguments)
                    module.set_member(name, _function(name, member.lineno, request, call))


def _modules(module: griffe.Module) -> Iterator[griffe.Module]:
    yield module
    for each in module.modules.values():
        if not each.is_alias:
            yield from _modules(each)


def _is_made(value: Any) -> bool:
    return isinstance(value, griffe.ExprCall) and str(value.function) == "with_fields_of"


def _found(module: griffe.Module, name: str, loader: griffe.GriffeLoader) -> Any:
    found: Any = loader.modules_collection[module.resolve(name)]
    return found.final_target if found.is_alias else found


def _function(name: str, line: int | None, request: Any, call: Any) -> griffe.Function:
    made = griffe.Function(name, lineno=line, returns=call.returns, parameters=griffe.Parameters(*_parameters(request)))
    text = inspect.cleandoc(call.docstring.value)
    summary, _, rest = text.partition("\n\n")
    fields = "\n".join(_fields(each) for each in [request, *request.mro()] if each.docstring)
    made.docstring = griffe.Docstring(f"{summary}\n\nArgs:\n{fields}\n\n{rest}", parent=made)
    return made


def _parameters(request: Any) -> Iterator[griffe.Parameter]:
    """Yield the fields as parameters, with the defaults of those that are checked."""
    for each in request.parameters:
        if each.name != "self":
            checked = isinstance(each.default, griffe.ExprCall) and str(each.default.function) == "within"
            default = each.default.arguments[1] if checked else each.default
            yield griffe.Parameter(each.name, annotation=each.annotation, kind=each.kind, default=default)


def _fields(request: Any) -> str:
    """Return what a class says of its own fields."""
    _, _, fields = inspect.cleandoc(request.docstring.value).partition("Attributes:\n")
    return fields.rstrip()
