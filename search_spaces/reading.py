"""Find, read and check search-space files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import yaml
from pydantic import ValidationError

from search_spaces.schema import ResolvedSpace, Scalar, SpaceFile, resolve
from search_spaces.values import SpaceError

_FOLDER = Path(__file__).parent
METHODS_WITH_SPACE = tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def load_space(
    method: str,
    benchmark: str,
    *,
    file: Path | None = None,
    overrides: Mapping[str, Scalar] | None = None,
    known: Collection[str] | None = None,
) -> ResolvedSpace:
    """Return what a search of `method` on `benchmark` uses.

    Args:
        method: Name.
        benchmark: Name.
        file: The user's own file (`--space`): its entries go over those of the method's file, key by key.
        overrides: Values fixed by the user (`--set`).
        known: The method's hyperparameters; None checks no names.

    Raises:
        SpaceError: If there is no file for the method, or a file is wrong.
    """
    if method not in METHODS_WITH_SPACE:
        raise SpaceError(f"no search space for method {method!r}; allowed: {', '.join(METHODS_WITH_SPACE)}")
    source = f"{method}.yaml"
    files = [read_space_file(_FOLDER / source)]
    if file is not None:
        files.append(read_space_file(file))
        source = str(file)
    if known is not None:
        named = [name for each in files for name in (*each.space, *(k for part in each.fixed.values() for k in part))]
        unknown = [name for name in named if name not in known]
        if unknown:
            raise SpaceError(f"{source}: unknown hyperparameter {unknown[0]!r}; allowed: {', '.join(known)}")
    return resolve(files, method, benchmark, overrides or {}, source)


def read_space_file(path: Path) -> SpaceFile:
    """Read one file.

    Returns:
        The checked content.

    Raises:
        SpaceError: If it cannot be read, is not YAML, or breaks the schema; the first fault is named.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpaceError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise SpaceError(f"{path}: is not a text file ({error.reason})") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise SpaceError(
            f"{path}: is not valid YAML{where} ({getattr(error, 'problem', None) or 'bad syntax'})"
        ) from error
    if not isinstance(content, dict):
        raise SpaceError(f"{path}: must be a mapping with the keys {', '.join(SpaceFile.model_fields)}")
    try:
        return SpaceFile.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"] if part not in ("range", "choices"))
        raise SpaceError(f"{path}: {key}: {first['msg']}, got {first['input']!r}") from error
