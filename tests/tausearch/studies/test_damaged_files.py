"""Space files, best files and specifications of runs under random damage.

Either one line names the file, or what stands there is taken at its word.
"""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from hypothesis import example, given, settings, strategies as st

from tausearch.runs import RunDirectory, read_spec
from tausearch.studies import load_best
from tausearch.studies.best_file import make_best_file
from tausearch.studies.spaces import require_space_fits, space_of
from tausearch.studies.study import SearchStudy
from tests.support.runs.damage import damaged
from tests.support.runs.trials import make_trial, search_spec
from trainables.errors import InputError
from trainables.methods import METHODS

OWN_SPACE = """\
space:
  alpha: {low: 0.01, high: 200, log: true, grid: [1, 50]}
  rank: {low: 1, high: 16, integer: true, grid: [4, 16]}
  formulation: {choices: [paper, official]}
start:
  default: {alpha: 5, rank: 8, formulation: paper}
  digits: {alpha: 1e1}
fixed:
  default: {fisher_passes: all, lr: 0.003}
"""


def best_text() -> str:
    with tempfile.TemporaryDirectory() as folder:
        make_best_file(search_spec(), make_trial(2, value=81.5), competitors=4).save(Path(folder) / "b")
        return (Path(folder) / "b").read_text()


BEST = best_text()
RUN = yaml.safe_dump(search_spec().model_dump(mode="json"), sort_keys=False)


def read(content: bytes, name: str, reader: Callable[[Path], Any]) -> Any:
    """Read what was damaged; None if it was refused as it must be."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / search_spec().name / name  # what a run's directory is called
        path.parent.mkdir()
        path.write_bytes(content)
        try:
            return reader(path)
        except InputError as error:
            assert name in str(error) and len(str(error).splitlines()) == 1, str(error)
            return None


def is_unharmed(content: bytes, text: str) -> bool:
    """Whether a damaged text says what it said before."""
    if len(content) > len(text) + 1000:  # PyYAML takes a second for a thousand brackets
        return False
    try:
        return yaml.safe_load(content.decode()) == _meaning(text)
    except Exception:  # PyYAML raises nearly anything
        return False


@functools.cache
def _meaning(text: str) -> Any:
    return yaml.safe_load(text)


@settings(max_examples=120)
@given(damaged(OWN_SPACE))
@example(OWN_SPACE.encode())
def test_space_files(content: bytes) -> None:
    space = read(content, "own.yaml", lambda path: space_of("ita-lora", "digits", path, {}))
    if is_unharmed(content, OWN_SPACE):
        assert space is not None and space.start["alpha"] == 10.0 and space.fixed["lr"] == 0.003
    if space is not None:
        require_space_fits(METHODS["ita-lora"], space)
        changes = {"space": space.space, "start": space.start, "algorithm": "random"}
        point = SearchStudy(search_spec().model_copy(update=changes)).ask(0)
        assert all(point[name] in dimension for name, dimension in space.space.items())
        assert all(space.start[name] in dimension for name, dimension in space.space.items())
        assert json.loads(json.dumps(space.as_dict(), allow_nan=False))["space"].keys() == space.space.keys()


@settings(max_examples=120)
@given(damaged(BEST))
@example(BEST.encode())
def test_best_files(content: bytes) -> None:
    best = read(content, "best.yaml", load_best)
    if is_unharmed(content, BEST):
        assert best is not None and best.model_dump() == load_text(BEST).model_dump()
    if best is not None:
        assert load_text(yaml.safe_dump(best.model_dump(mode="json"))) == best


@settings(max_examples=80)
@given(damaged(RUN))
@example(RUN.encode())
def test_specifications_of_runs(content: bytes) -> None:
    spec = read(content, "run.yaml", lambda path: read_spec(RunDirectory(path.parent)))
    if is_unharmed(content, RUN):
        assert spec.model_copy(update={"created": None}) == search_spec()  # it had none


def load_text(text: str) -> Any:
    return read(text.encode(), "best.yaml", load_best)


@settings(max_examples=40)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_files_that_are_anything_at_all(content: bytes) -> None:
    assert read(content, "best.yaml", load_best) is None
    read(content, "own.yaml", lambda path: space_of("ita-lora", "digits", path, {}))
