"""Shared fixtures: the command line, a tiny ViT in float64, and random images for it.

torch and timm take seconds to import, so the controller of pytest-xdist does not import them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    import torch
    from timm.models.vision_transformer import VisionTransformer

    from tests.support.command_line import Ask, Command

# The same examples in every run and on every machine, so that a failure repeats.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")

_VISIBLE = {name: os.environ[name] for name in ("CUDA_VISIBLE_DEVICES",) if name in os.environ}


@pytest.fixture(scope="session", autouse=True)
def _threads() -> None:
    """Compute with one thread: tiny products take longer with more, and much longer on a busy machine."""
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Hide the machine's GPUs from the processes of all tests but those in `gpu`: trials would use them by default."""
    if _needs_gpu(item.path):
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        os.environ.update(_VISIBLE)
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


@pytest.fixture(autouse=True)
def _no_gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide them from this process, too, which may have asked CUDA before."""
    if not _needs_gpu(request.path):
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)


def _needs_gpu(path: Path) -> bool:
    return "gpu" in path.relative_to(Path(__file__).parent).parts


@pytest.fixture(scope="session", autouse=True)
def _own_cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep notes about images out of the cache folder of the user who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Call the command line in this process; returns exit code, stdout and stderr."""
    from tests.support.command_line import run

    return lambda *arguments: run(list(arguments), capsys, monkeypatch)


@pytest.fixture
def command(ask: Ask) -> Command:
    def call(*words: object, code: int = 0) -> tuple[str, str]:
        got, out, err = ask(*map(str, words))
        assert got == code, err
        return out, err

    return call


@pytest.fixture
def tiny_vit() -> VisionTransformer:
    from tests.support.tiny_vit import make_tiny_vit

    return make_tiny_vit()


@pytest.fixture
def generator() -> torch.Generator:
    import torch

    return torch.Generator().manual_seed(0)


@pytest.fixture
def images(generator: torch.Generator) -> torch.Tensor:
    import torch

    return torch.randn(12, 1, 8, 8, generator=generator, dtype=torch.float64)
