"""`imagenet_r`: artistic renditions of 200 ImageNet classes (Hendrycks et al. 2021, https://arxiv.org/abs/2006.16241).

The dataset has no split of its own. The one that the field uses is CODA-Prompt's, two YAML files with 24,000 training
and 6,000 test images; the class order is that of their labels, which is not the order of the class folders' names.
"""

from __future__ import annotations

from trainables.data.disk.listing import Listing
from trainables.data.disk.tree import Tree
from trainables.data.published.publication import STANDARD, Expected, Publication, find_parquet, listing_from_yaml
from trainables.data.transforms.recipes import UNIT, Recipe

_SPLITS = ("imagenet-r_train.yaml", "imagenet-r_test.yaml")


def find(tree: Tree, variant: str) -> Listing | None:
    """Return the official folder or archive with the split files, or the Hugging Face form."""
    listing = listing_from_yaml(
        tree,
        _SPLITS,
        components=2,
        class_of=lambda path: path.split("/")[0],
        layout="class folders with CODA-Prompt's split files",
    )
    return listing or find_parquet(tree)


IMAGENET_R = Publication(
    name="imagenet_r",
    tasks=10,
    epochs=30,
    recipe=Recipe(normalise=UNIT),
    expected={STANDARD: Expected(200, {"train": 24_000, "test": 6_000})},
    find=find,
    looks_for="imagenet-r.tar or imagenet-r/<wnid>/*.jpg, with imagenet-r_train.yaml and imagenet-r_test.yaml;"
    " or Parquet",
    source="https://people.eecs.berkeley.edu/~hendrycks/imagenet-r.tar and the split files in"
    " https://github.com/GT-RIPL/CODA-Prompt (dataloaders/splits)",
)
