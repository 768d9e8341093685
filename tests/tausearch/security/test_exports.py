"""Whatever writes outside of its run writes into a folder of its own, whole or not at all, and follows no link."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tausearch import compose
from tausearch.runs import Storage
from tests.tausearch.security.conftest import Refused
from trainables.composition import VECTOR_FILE, vector_folders

EXPORT = ("compose", "letters", "--forms", "vectors", "--export")


@pytest.fixture
def storage(trained: Storage, tmp_path: Path) -> Storage:
    """A copy of the storage root, to be edited."""
    return Storage(Path(shutil.copytree(trained.root, tmp_path / "runs")))


def everything(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    "inside",
    [
        "letters/task_vectors/new",
        "letters/new",
        "other/state/new",
        "campaigns/new",
        "mlflow-artifacts/new",
        "cache/new",
    ],
)
def test_not_among_the_files_of_a_storage(inside: str, storage: Storage, refused: Refused, tmp_path: Path) -> None:
    before = everything(tmp_path)
    err = refused(*EXPORT, str(storage.root / inside), "--storage", str(storage.root))
    assert "lies among the files of" in err and everything(tmp_path) == before


def test_not_over_somebody_elses_files(storage: Storage, refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").touch()
    for folder, why in (("there", "is not empty"), ("there/mine", "is not a folder")):
        assert why in refused(*EXPORT, folder, "--storage", str(storage.root))


def test_a_damaged_vector_leaves_nothing_behind(storage: Storage, refused: Refused, tmp_path: Path) -> None:
    last = vector_folders(storage.run("letters").artifacts / "seed_1")[-1] / VECTOR_FILE
    content = bytearray(last.read_bytes())
    content[-1] ^= 255
    last.write_bytes(content)
    before = everything(tmp_path)
    err = refused(*EXPORT, "out", "--storage", str(storage.root))
    assert "its content is not what was written" in err and everything(tmp_path) == before


@pytest.mark.parametrize("what", ["seed_1", "seed_0/task_2", f"seed_0/task_2/{VECTOR_FILE}", "seed_0/task_2/adapter"])
def test_no_link_is_followed(what: str, storage: Storage, refused: Refused, tmp_path: Path) -> None:
    place, elsewhere = storage.run("letters").artifacts / what, tmp_path / "elsewhere"
    shutil.move(place, elsewhere)
    place.symlink_to(elsewhere)
    before = everything(tmp_path)
    err = refused(*EXPORT, "out", "--storage", str(storage.root))
    kept = str(storage.run("letters").compositions)  # the evaluation costs more than the export
    made = set(everything(tmp_path)).symmetric_difference(before)
    assert "is a link" in err and all(each.startswith(kept) for each in made)


def test_a_link_beside_the_vectors_is_not_copied(storage: Storage, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine")
    (storage.run("letters").artifacts / "seed_0" / "task_1" / "adapter" / "more").symlink_to(secret)
    compose(["letters"], forms=["vectors"], export=tmp_path / "out", storage=storage.root)
    assert (tmp_path / "out" / "vectors" / "seed_0" / "task_1" / VECTOR_FILE).is_file()
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_symlink() or path.name == "more"]
