"""`mit67`: 67 kinds of indoor scenes (Quattoni and Torralba 2009), the official split, classes by name.

The split files name 80 training and 20 test images of almost every class, 6,700 of the 15,620 images.
"""

from __future__ import annotations

from trainables.data.disk.listing import FileRows, Listing, from_split_file, listed_files
from trainables.data.disk.tree import Tree
from trainables.data.published.publication import STANDARD, Expected, Publication, class_folders, find_parquet
from trainables.data.transforms.recipes import IMAGENET, Recipe
from trainables.errors import InputError

_SPLITS = ("TrainImages.txt", "TestImages.txt")


def find(tree: Tree, variant: str) -> Listing | None:
    """Return the official folder or archive with the split files, or the Hugging Face form."""
    folder, train, test = tree.folder_of("Images"), *(tree.find(name) for name in _SPLITS)
    if folder is None or train is None or test is None:
        return find_parquet(tree)
    files = tree.below(folder)
    names = class_folders(files)

    def listed(split: str) -> FileRows:
        paths = [line.strip() for line in tree.text(split).splitlines() if line.strip()]
        unknown = [path for path in paths if path.split("/")[0] not in names]
        if unknown:
            raise InputError(f"{tree.root / split}: there is no class folder for {unknown[0]!r}")
        return from_split_file(files, paths, [names.index(path.split("/")[0]) for path in paths], split_file=split)

    return Listing(names, listed_files(listed(train), listed(test)), "class folders with the official split files")


MIT67 = Publication(
    name="mit67",
    tasks=10,
    epochs=5,
    recipe=Recipe(
        IMAGENET, train_resize=256, train_keep_ratio=True, test_keep_ratio=True, test_interpolation="bilinear"
    ),
    expected={STANDARD: Expected(67, {"train": 5_360, "test": 1_340})},
    find=find,
    looks_for="indoorCVPR_09.tar or Images/<class>/*.jpg, with TrainImages.txt and TestImages.txt; or Parquet",
    source="http://groups.csail.mit.edu/vision/LabelMe/NewImages/indoorCVPR_09.tar and"
    " https://web.mit.edu/torralba/www/{TrainImages,TestImages}.txt",
)
