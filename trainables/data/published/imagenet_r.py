"""`imagenet_r`: artistic renditions of 200 ImageNet classes (Hendrycks et al. 2021, https://arxiv.org/abs/2006.16241).

The dataset has no split of its own. The one that the field uses is CODA-Prompt's, two YAML files with 24,000 training
and 6,000 test images; the class order is that of their labels, which is not the order of the class folders' names.
"""

from __future__ import annotations

from trainables.data.disk.listing import Listing, from_split_file, listed_files
from trainables.data.disk.tree import Tree
from trainables.data.published._reading import STANDARD, ending, find_parquet, names_by_label, split_from_yaml
from trainables.data.published.publication import Expected, Publication
from trainables.data.transforms.recipes import UNIT, Recipe

_SPLITS = ("imagenet-r_train.yaml", "imagenet-r_test.yaml")


def find(tree: Tree, variant: str) -> Listing | None:
    """List the official folder or archive with the split files, or the Hugging Face form."""
    found = [tree.find(name) for name in _SPLITS]
    train_file, test_file = found
    if train_file is None or test_file is None:
        return find_parquet(tree)
    files = {ending(path, 2): entry for path, entry in tree.entries.items() if path.endswith(".jpg")}
    parts = []
    for split in (train_file, test_file):
        paths, labels = split_from_yaml(tree, split)
        parts.append(from_split_file(files, [ending(path, 2) for path in paths], labels, split_file=split))
    names = names_by_label(parts[0].labels, [name.split("/")[0] for name in parts[0].names], train_file)
    return Listing(names, listed_files(*parts), "class folders with CODA-Prompt's split files")


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
