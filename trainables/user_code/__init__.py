"""Code of the user, which stands behind a name: `MODULE:NAME`, or what an installed package brings.

All seams find code by the rules of this module. Nothing is imported before it is named. `MODULE:NAME` is imported only
if the user named it, and not if only a file does. What an installed package brings counts as allowed, because the user
installed it: it has a name by an entry point of the group `tausearch.methods`, `tausearch.rules` and so on. An error of
the code becomes one line with file and line number.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pickle
import pkgutil
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, TypeVar

from checked_input.names import choices, meant
from trainables.errors import DivergedError, InputError
from trainables.user_code.imported import digest_at_import, digest_now, stale

T = TypeVar("T")
Ours = TypeVar("Ours")

_ANYTHING = (Exception, SystemExit, GeneratorExit)  # all errors of a module but Ctrl-C
_LIBRARIES = (
    "mlflow",
    "numpy",
    "optuna",
    "pandas",
    "peft",
    "PIL",
    "pydantic",
    "ray",
    "scipy",
    "sklearn",
    "timm",
    "torch",
)
_OURS = {"checked_input", "search_spaces", "tausearch", "trainables"}
NOT_THEIRS = {*_OURS, *_LIBRARIES, *sys.stdlib_module_names}
_MODULE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
BY_CODE = "MODULE:NAME or what an installed package brings"  # the other names of every seam, in errors
_NO_MODULES = ("folder:", "parquet:", "optuna:")  # the images of a benchmark, and a class of Optuna
_INSTALLED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # such a name can be a part of the names of runs and files
OURSELVES = "tausearch itself"  # who else has a name that a package brings
_allowed: dict[str, str] = {}  # MODULE:NAME that this process may import, to the module's folder
_commands = 0
_modules: dict[str, str] = {}  # a name behind which code was found, to the module that has the code


def is_code(name: str) -> bool:
    """Whether a name has the form `MODULE:NAME`; options behind a `?` do not count."""
    return _MODULE.fullmatch(_bare(name)) is not None and not name.startswith(_NO_MODULES)


def allow_code(name: str, folder: str | Path | None = None) -> None:
    """Allow this process to import code of the user, also where only a file names it.

    Args:
        name: `MODULE:NAME`; options behind a `?` do not count.
        folder: Folder of the module, after Python's own path; by default the working folder.

    Raises:
        InputError: If `name` has another form.
    """
    if not isinstance(name, str) or not is_code(name):
        raise InputError(f"only code of the form MODULE:NAME can be allowed, got {name!r}")
    _allowed[_bare(name)] = os.getcwd() if folder is None else str(folder)


def allow_typed(*names: str | None) -> None:
    """Allow the code among names that the user typed; other names need no permission."""
    for name in names:
        if name is not None and is_code(name):
            allow_code(name)


def folders_of(names: Iterable[str]) -> dict[str, str]:
    """Return the folder given to `allow_code` for each name that is allowed code, for `allow_code` in a worker."""
    return {name: _allowed[name] for name in map(_bare, names) if name in _allowed}


def code_among(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are code, each once and without its options."""
    return tuple(dict.fromkeys(map(_bare, filter(is_code, names))))


def code_option(*names: str) -> str:
    """Return ` --allow-code NAME` for each name that is code, for a command that reads these names from a file."""
    return "".join(f" --allow-code {name}" for name in code_among(names))


def forbidden(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are code which this process may not import."""
    return tuple(name for name in code_among(names) if name not in _allowed)


def require_allowed(names: Iterable[str]) -> None:
    """Refuse, by one InputError, several names of code that only a file names; of a single one `find` says it."""
    if len(lacking := forbidden(names)) > 1:
        calls = ", ".join(f"tausearch.allow_code({name!r})" for name in lacking)
        raise InputError(
            f"a file names the code {' and '.join(lacking)}, you did not; if you trust it, let it run with"
            f"{code_option(*lacking)} (in Python: {calls})"
        )


def require_current(names: Iterable[str | None]) -> None:
    """Refuse code that this process imported before its file changed; a command asks when it starts.

    It is not asked later: what runs goes on with what it has imported. From here on another command runs; see
    `commands_started`.

    Raises:
        InputError: If a new process would import another file, or another text of it.
    """
    global _commands
    _commands += 1
    for name in map(_bare, filter(None, names)):
        module = name.partition(":")[0] if is_code(name) else ""
        for each in (module, _modules.get(name, module)):
            if why := stale(each, _allowed.get(name)):
                raise InputError(f"{name!r}: {why}; restart Python (in a notebook: the kernel)")


def commands_started() -> int:
    """Return how often `require_current` was asked: code of the user may compute other things for another command."""
    return _commands


def installed(kind: str) -> tuple[str, ...]:
    """Return the names of a kind that installed packages bring, in order; nothing is imported."""
    return tuple(sorted({point.name for point in _points(kind)}))


def find(kind: str, name: str, builtins: Mapping[str, Ours], must_be: type[T]) -> Ours | T:
    """Return what a name stands for.

    Args:
        kind: What is named, such as "method"; packages bring methods in the group `tausearch.methods`.
        name: A name of `builtins`, `MODULE:NAME`, or a name that an installed package brings.
        builtins: Our own.
        must_be: The type of what code brings; `type` for a class.

    Raises:
        InputError: If nothing has the name, more than one thing has it, or it is code that is not allowed, cannot be
            imported or is of another type.
    """
    require_sole(kind, name, *([OURSELVES] if name in builtins else []))
    points = _claiming(kind, name)
    if name in builtins:
        return builtins[name]
    if points:
        module, attribute, what = points[0].module, points[0].attr, f"{kind} {name!r} of {_package(points[0])}"
        found = _imported(what, module, attribute)
    elif is_code(name):
        module, _, attribute = name.partition(":")
        what = f"{kind} {name!r}"
        with _on_path(folder := _folder_of(kind, name)):
            found = _imported(what, module, attribute, folder)
    else:
        allowed = choices(name, (*builtins, *installed(kind)), BY_CODE)
        raise InputError(f"unknown {kind} {name!r}; {allowed}{_as_code(name)}")
    if found is None or not isinstance(found, must_be):
        wanted = "class" if must_be is type else must_be.__name__
        got = _nothing(attribute, sys.modules[module]) if found is None else type(found).__name__
        raise InputError(f"{what}: {attribute!r} must be a{'n' * (wanted[0] in 'AEIOUaeiou')} {wanted}, got {got}")
    _modules[_bare(name)] = found.__module__ if isinstance(found, type) else module
    for each in (module, _modules[_bare(name)]):
        digest_at_import(each)
    return found


def require_sole(kind: str, name: str, *others: str) -> None:
    """Refuse, by an InputError with all givers, a name that several packages give. Each of `others` gives it, too."""
    if fault := clash(kind, name, *others):
        raise InputError(fault)


def clash(kind: str, name: str, *others: str) -> str | None:
    """Return the message of `require_sole`; None for a name that at most one gives."""
    claims = [*others, *(f"{_package(each)} ({each.value})" for each in _claiming(kind, name))]
    if len(claims) <= 1:
        return None
    return f"{kind} {name!r}: {' and '.join(claims)} have one of this name; uninstall all but one"


def digests_of(names: Iterable[str], *, in_workers: bool = False) -> dict[str, str]:
    """Return the sha256 of the module's file as it was imported, for each name behind which `find` has found code.

    With `in_workers` it is that of the file as it is now: a worker that starts imports this. What the module imports
    does not count.
    """
    digest_of = digest_now if in_workers else digest_at_import
    names = filter(_modules.__contains__, map(_bare, names))
    return {name: digest for name in names if (digest := digest_of(_modules[name])) is not None}


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names whose code has another digest now; a name that either side lacks has not changed."""
    return [name for name, digest in now.items() if before.get(name, digest) != digest]


def file_name(name: str) -> str:
    """Return a name as a part of the names of runs and files: letters, digits, `.`, `_` and `-`."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-._")


def _function(method: Any) -> Callable[..., Any]:
    """Return the function of a class method, whose first argument is the class; any other method as it is."""
    return method.__func__ if isinstance(method, classmethod) else method


def require_members(what: str, found: type, protocol: type) -> None:
    """Refuse a class that lacks a method of a protocol, or takes other arguments in one, by an InputError."""
    wanted = {name: each for owner in protocol.__mro__ for name, each in vars(owner).items() if name[0] != "_"}
    if missing := [f"{name}()" for name in wanted if not callable(getattr(found, name, None))]:
        raise InputError(
            f"{what}: the class {found.__name__} lacks {', '.join(missing)} of the protocol {protocol.__name__}"
        )
    for name, method in wanted.items():
        first, *parameters = inspect.signature(_function(method)).parameters.values()
        named = {each.name: each for each in parameters if each.kind is each.KEYWORD_ONLY}
        ordered = [each.name for each in parameters if each.name not in named]
        try:
            inspect.signature(_function(inspect.getattr_static(found, name))).bind(first, *ordered, **named)
        except TypeError as error:
            asked = ", ".join((*ordered, *(f"{each}=" for each in named)))
            raise InputError(f"{what}: {found.__name__}.{name} must take ({asked}) ({error})") from error


def called(what: str, function: Callable[[], T]) -> T:
    """Return what the user's code returns; all it raises but Ctrl-C becomes an InputError that begins with `what`."""
    try:
        return function()
    except InputError:
        raise
    except _ANYTHING as error:
        raise InputError(f"{what} failed ({explained(error)})") from error


@contextmanager
def as_breach(what: str = "") -> Iterator[None]:
    """Have what a check of the user's code raises be a breach of its contract, in one line that begins with `what`.

    An `InputError` or a divergence of ours is said as it is. An `AssertionError` of the check itself goes on.

    Raises:
        AssertionError: If the block raises anything but Ctrl-C.
    """
    try:
        yield
    except (InputError, DivergedError) as error:
        raise AssertionError(f"{what}{error}") from error
    except _ANYTHING as error:
        if isinstance(error, AssertionError) and not _reached_theirs_last(error):
            raise
        raise AssertionError(f"{what}{explained(error)}") from error


@contextmanager
def explaining() -> Iterator[None]:
    """Add to an error that leaves the block a line with its place in the user's code, the last of its traceback.

    Raises:
        RuntimeError: For an error that another process cannot read, and for those of code of the user that would be
            taken for something else: a `SystemExit`, which would end the process without a traceback, a
            `KeyboardInterrupt`, of which Ray says that the task was cancelled, and an `OSError`, which would be one of
            the storage.
        SystemExit: If a signal asks the process to end.
        KeyboardInterrupt: If one interrupts code that is not of the user.
    """
    try:
        yield
    except Exception as error:
        if not _can_be_sent(error) or (isinstance(error, OSError) and _raised_by_theirs(error)):
            told = _retold(error)
            raise told from None
        error.add_note(explained(error))
        raise
    except (SystemExit, KeyboardInterrupt) as error:
        if not _is_theirs(_frames(error)[0][0]):
            raise  # a signal's
        told = _retold(error)
        raise told from None


def explained(error: BaseException) -> str:
    """Return an error in one line, with file and line number of the code of the user that was reached last, if any.

    An error in a library is of the code that called the library.
    """
    theirs = (f" in {each.f_code.co_filename}, line {line}" for each, line in _frames(error) if _is_theirs(each))
    where = next(theirs, "")
    said = str(error)
    if isinstance(error, SyntaxError) and error.filename is not None:
        said, where = error.msg, f" in {error.filename}, line {error.lineno}"
    said = " ".join(said.split())[:200]
    if isinstance(error, InputError):
        return f"{said}{where}"
    return f"{type(error).__name__}{f': {said}' if said else ''}{where}"


def kind_of(value: object) -> str:
    """Return the type of a value in an error."""
    return "nothing" if value is None else type(value).__name__


def _can_be_sent(error: BaseException | None) -> bool:
    """Whether another process can read an error and its causes; not where a constructor takes several arguments."""
    while error is not None:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return False
        error = error.__cause__
    return True


def _retold(error: BaseException) -> RuntimeError:
    """Return an error that has the traceback of another as text."""
    told = RuntimeError(explained(error))
    told.add_note("".join(traceback.format_exception(error)))
    told.add_note(explained(error))
    return told


def _frames(error: BaseException) -> list[tuple[FrameType, int]]:
    """Return frames and line numbers of an error, the innermost first."""
    return list(traceback.walk_tb(error.__traceback__))[::-1]


def _raised_by_theirs(error: BaseException) -> bool:
    """Whether code that the user named raised an error, or a library that it called, and not code of ours."""
    # Frames of other packages decide nothing: our code calls libraries, too, such as that of file locks.
    theirs = {module.partition(".")[0] for module in _modules.values()} - NOT_THEIRS
    packages = (_package_of(frame) for frame, _ in _frames(error))
    return next((each in theirs for each in packages if each in theirs or each in _OURS), False)


def _reached_theirs_last(error: BaseException) -> bool:
    """Whether code of the user, or a library that it called, raised an error, and not code of ours."""
    packages = (_package_of(frame) for frame, _ in _frames(error))
    return next((each not in _OURS for each in packages if each in _OURS or each not in NOT_THEIRS), False)


def _is_theirs(frame: FrameType) -> bool:
    """Whether a frame is in code of the user."""
    return _package_of(frame) not in NOT_THEIRS


def _package_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _bare(name: str) -> str:
    return name.partition("?")[0]


def _as_code(name: str) -> str:
    """Return `; as MODULE:NAME: 'a.b:C'` for `a/b.py:C` or `a.b.C`; nothing for a name of another form."""
    path, colon, attribute = name.removesuffix(".py").replace(".py:", ":").replace("/", ".").rpartition(":")
    if not colon:
        path, _, attribute = attribute.rpartition(".")
    code = f"{path}:{attribute}"
    return f"; as MODULE:NAME: {code!r}" if is_code(code) else ""


def _folder_of(kind: str, name: str) -> str:
    if _bare(name) != name:
        raise InputError(f"{kind} {name!r}: code takes no options behind ?; write {_bare(name)!r}")
    if name not in _allowed:
        raise InputError(
            f"{kind} {name!r}: a file names this code, you did not; if you trust it, let it run with"
            f" --allow-code {name} (in Python: tausearch.allow_code({name!r}))"
        )
    return _allowed[name]


def _imported(what: str, module: str, attribute: str, folder: str | None = None) -> Any:
    """Return an attribute of a module, or None if it has none of that name; `folder` is that of the module."""
    try:
        return getattr(importlib.import_module(module), attribute, None)
    except _ANYTHING as error:
        why = f"{explained(error)}{_looked(error, module, folder)}"
        raise InputError(f"{what}: module {module!r} cannot be imported ({why})") from error


def _nothing(attribute: str, module: ModuleType) -> str:
    """Return that a module lacks a name, with its file: another module of its name may come first on Python's path."""
    file = getattr(module, "__file__", None)
    return f"nothing of that name{f' in {file}' if file else ''}{meant(attribute, vars(module))}"


def _looked(error: BaseException, module: str, folder: str | None) -> str:
    """Return where a module was looked for that is missing itself, and similar names there, or its dangling link."""
    missing = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    if not missing or not f"{module}.".startswith(f"{missing}."):
        return ""
    package, dot, name = missing.rpartition(".")
    folders = list(getattr(sys.modules.get(package), "__path__", ()) if package else filter(None, [folder]))
    names = [f"{package}{dot}{each.name}" for each in pkgutil.iter_modules(folders)]
    places = f"; looked in {folder} and on Python's path" if folder and not package else ""
    links = [file for file in (Path(each, f"{name}.py") for each in folders) if file.is_symlink() and not file.exists()]
    return places + (f"; {links[0]} is a link that leads nowhere" if links else meant(missing, names))


@contextmanager
def _on_path(folder: str) -> Iterator[None]:
    """Append a folder to Python's path while the block runs.

    Libraries import optional packages later; a file of the same name in the working folder must not take their place.
    """
    known = folder in sys.path
    if not known:
        sys.path.append(folder)
    try:
        yield
    finally:
        if not known and folder in sys.path:  # the module may have changed the path
            sys.path.remove(folder)


def _points(kind: str) -> Sequence[EntryPoint]:
    return _points_on(f"tausearch.{kind.replace(' ', '_')}s", tuple(sys.path))


@cache
def _points_on(group: str, path: tuple[str, ...]) -> Sequence[EntryPoint]:
    """Return the entry points of a group; to read those of 200 packages takes a moment, so each path is read once."""
    return [point for point in entry_points(group=group) if _INSTALLED.fullmatch(point.name)]


def _claiming(kind: str, name: str) -> list[EntryPoint]:
    return [point for point in _points(kind) if point.name == name]


def _package(point: EntryPoint) -> str:
    return "an unnamed package" if point.dist is None else f"package {point.dist.name!r}"
