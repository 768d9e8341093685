"""What a search of twelve trials buys on few pictures of one's own: `ita-lora` beside `probe`, `joint` and chance.

Two sets, on the embedded backbone: the forty pictures of docs/tutorials/own-images.md, and textures, which fill the
picture and have no outline. No default was chosen on the textures. Test pictures are drawn anew, fifty of each class.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import tausearch
from tausearch.runs import RunDirectory, read_spec, read_status
from tausearch.studies import BestFile, unsearched_best_file

_TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorials" / "own-images.md"
_SIDE = 48  # pixels
_TEST = 50  # pictures of each class
_SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Pictures:
    """A set of drawn pictures: `draw` fills a folder with `train` and `test`."""

    name: str
    tasks: int
    draw: Callable[[Path], None]

    @property
    def chance(self) -> float:
        """Accuracy of a guess, percent; each task has two classes."""
        return 100 / (2 * self.tasks)


def _shapes(folder: Path) -> None:
    """Run the tutorial's program: once as it is for `train`, once with another seed and more pictures for `test`."""
    draw_shapes(folder / "train", seed=0, number=10)
    draw_shapes(folder / "test", seed=1, number=_TEST)


def draw_shapes(folder: Path, seed: int, number: int) -> None:
    """Run the tutorial's program with another seed and number of pictures of each shape."""
    (program,) = re.findall(r"```python\n(import random\n.*?)```", _TUTORIAL.read_text(), re.DOTALL)
    text = program.replace("seed(0)", f"seed({seed})").replace("range(10)", f"range({number})")
    exec(text.replace('"shapes"', "home").replace('f"shapes/', 'f"{home}/'), {"home": str(folder)})


def _textures(folder: Path) -> None:
    for part, seed, number in (("train", 0, 12), ("test", 1, _TEST)):
        draws = np.random.default_rng(seed)
        for name, pattern in TEXTURES.items():
            (folder / part / name).mkdir(parents=True)
            for index in range(number):
                _texture(pattern, draws).save(folder / part / name / f"{index}.png")


def _texture(pattern: Callable[..., np.ndarray], draws: np.random.Generator) -> Image.Image:
    """Return a picture in two random colours, the pattern's phase and pitch (6 to 14 pixels) drawn at random."""
    x, y = np.meshgrid(np.arange(_SIDE), np.arange(_SIDE))
    pitch = draws.uniform(6, 14)
    on = pattern(x + draws.uniform(0, pitch), y + draws.uniform(0, pitch), pitch, draws)
    dark, light = draws.integers(0, 110, 3), draws.integers(150, 256, 3)
    grain = draws.normal(0, 8, (_SIDE, _SIDE, 3))
    return Image.fromarray(np.clip(np.where(on[..., None], dark, light) + grain, 0, 255).astype("uint8"))


def _half(along: np.ndarray, pitch: float) -> np.ndarray:
    return along % pitch < pitch / 2


TEXTURES: Mapping[str, Callable[..., np.ndarray]] = {
    "checks": lambda x, y, pitch, draws: _half(x, pitch) ^ _half(y, pitch),
    "dots": lambda x, y, pitch, draws: np.hypot(x % pitch - pitch / 2, y % pitch - pitch / 2) < pitch / 3,
    "rings": lambda x, y, pitch, draws: _half(np.hypot(x - _SIDE / 2, y - _SIDE / 2), pitch),
    "standing": lambda x, y, pitch, draws: _half(x, pitch),
}
SETS = (Pictures("the tutorial's shapes", 2, _shapes), Pictures("textures", 2, _textures))


def measure(pictures: Pictures, folder: Path) -> Iterator[dict[str, Any]]:
    """Search and train the choice, by one split and by re-evaluation; then train the start of the space, and bounds."""
    images, storage = folder / "pictures", folder / "runs"
    pictures.draw(images)
    how: dict[str, Any] = {"storage": storage, "progress_to": "stderr"}

    def row(what: str, run: str) -> dict[str, Any]:
        score = read_status(RunDirectory(storage / run)).score
        assert score is not None, f"{run} has not ended"
        return {"pictures": pictures.name, "what": what, "mean": score.mean, "std": score.std}

    def trained(what: str, best: BestFile | None, **options: Any) -> dict[str, Any]:
        assert best is not None, "all trials diverged"
        return row(what, tausearch.train(best, seeds=_SEEDS, **options, **how).name)

    benchmark = f"folder:{images}?tasks={pictures.tasks}"
    options: dict[str, Any] = {"backbone": "glyph_vit", "trials": 12, "name": "search"}
    yield trained("12 trials", tausearch.search(benchmark, "ita-lora", reevaluate=0, **options, **how).best)
    again = tausearch.extend("search", trials=12, reevaluate=3, reevaluate_runs=2, **how)
    yield trained("12 trials and re-evaluation", again.best)
    spec = read_spec(RunDirectory(storage / "search"))
    yield trained("start", unsearched_best_file(spec), name="start", with_bounds=True)
    yield from (row(bound, f"start-{bound}") for bound in ("probe", "joint"))


def run() -> list[dict[str, Any]]:
    """Measure both sets."""
    with tempfile.TemporaryDirectory() as folder:
        return [row for pictures in SETS for row in measure(pictures, Path(folder, pictures.name.rpartition(" ")[2]))]
