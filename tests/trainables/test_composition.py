"""Saved task vectors: reading back what was written, composing them, and refusing damaged files."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.support.garbage import old_objects_frozen
from tests.support.tiny_vit import make_tiny_vit
from trainables.composition import (
    VECTOR_FILE,
    Composition,
    Origin,
    SavedVector,
    composed,
    copy_vector,
    files,
    read_vector,
    saved_vector,
    vector_folders,
    write_vector,
)
from trainables.composition.adapter import ADAPTER_FILE, read_adapter
from trainables.data import TransformSpec
from trainables.errors import InputError
from trainables.task_vectors import FullTaskVectors, IA3TaskVectors, LoRATaskVectors, TaskVectors
from trainables.tensor_files import digest_of

KINDS: dict[str, Callable[..., TaskVectors]] = {
    "full": FullTaskVectors,
    "ia3": IA3TaskVectors,
    "lora": lambda model: LoRATaskVectors(model, rank=2),
}
HEAD = (torch.arange(16.0).reshape(2, 8), torch.tensor([1.0, 2.0]))
ANCHOR = (HEAD[0] / 3, HEAD[1] / 3)


def origin(t: int = 1) -> Origin:
    classes = range(2 * t - 2, 2 * t)
    return Origin(method="ita-any", task=t, classes=classes, backbone="tiny", backbone_digest="abc")


@pytest.fixture(params=KINDS)
def vectors(request: pytest.FixtureRequest) -> TaskVectors:
    return KINDS[request.param](make_tiny_vit(dtype=torch.float32))


def learn(vectors: TaskVectors, seed: int) -> SavedVector:
    """Give tau a random value, and save that."""
    generator = torch.Generator().manual_seed(seed)
    vectors.begin(1.0, generator)
    with torch.no_grad():
        for parameter in vectors.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
    return saved_vector(vectors, HEAD, ANCHOR, origin(seed + 1))


def assert_same(a: SavedVector, b: SavedVector) -> None:
    assert (a.parametrisation, a.scale, a.origin) == (b.parametrisation, b.scale, b.origin)
    pairs = [*zip((*a.head, *a.anchor), (*b.head, *b.anchor), strict=True)]
    assert a.parameters.keys() == b.parameters.keys()
    for name, parts in a.parameters.items():
        assert parts.keys() == b.parameters[name].keys()
        pairs += [(value, b.parameters[name][part]) for part, value in parts.items()]
    assert all(torch.equal(one, other) for one, other in pairs)


def test_what_is_written_is_read_back_and_its_dense_form_is_the_live_one(vectors: TaskVectors, tmp_path: Path) -> None:
    saved = learn(vectors, 0)
    live = {name: vectors.dense(name).detach().clone() for name in vectors.theta_0}
    learn(vectors, 1)  # what was saved is no part of the network any more
    folder = write_vector(tmp_path, saved)
    assert folder == tmp_path / "task_1" and [path.name for path in tmp_path.iterdir()] == ["task_1"]
    found = read_vector(folder)
    assert_same(found, saved)
    assert all(torch.equal(found.dense(name, vectors.theta_0[name]), tau) and tau.any() for name, tau in live.items())
    assert (folder / "adapter").exists() == (vectors.parametrisation == "lora")
    with safe_open(folder / VECTOR_FILE, framework="pt") as file:
        assert file.metadata() == {
            "format": "pt",
            "version": "1",
            "parametrisation": vectors.parametrisation,
            "scale": "1.0",
            "heads": "concatenated",
            "method": "ita-any",
            "task": "1",
            "classes": "0-2",
            "backbone": "tiny",
            "backbone_digest": "abc",
            "content digest": digest_of(load_file(folder / VECTOR_FILE)),
        }


def test_peft_reads_the_adapter_of_a_saved_vector(images: Tensor, tmp_path: Path) -> None:
    vectors = LoRATaskVectors(make_tiny_vit(dtype=torch.float32), rank=2)
    folder = write_vector(tmp_path, learn(vectors, 3))
    loaded = PeftModel.from_pretrained(
        make_tiny_vit(dtype=torch.float32),  # type: ignore[arg-type]
        str(folder / "adapter"),
    )
    torch.testing.assert_close(loaded(images.float()), vectors.model(images.float()))


def test_an_adapter_is_read_back_or_refused(tmp_path: Path) -> None:
    vectors = LoRATaskVectors(make_tiny_vit(dtype=torch.float32), rank=2)
    folder = write_vector(tmp_path, learn(vectors, 0)) / "adapter"
    for name, tau in read_adapter(folder, vectors.theta_0).items():
        assert torch.equal(tau, vectors.dense(name))
    tensors, path = load_file(folder / ADAPTER_FILE), folder / ADAPTER_FILE
    first = "base_model.model.blocks.0.attn.qkv.lora_A.weight"
    for wrong, fault in (
        ({**tensors, "more": torch.zeros(1)}, "'more' is not a part of it"),
        ({**tensors, first: tensors[first][1:]}, r"'blocks.0.attn.qkv.weight' has the factors \(5, 8\) and \(24, 6\)"),
        (
            {**tensors, first: tensors[first][:, 1:].clone()},
            r"'blocks.0.attn.qkv.weight' has the factors \(6, 7\) and \(24, 6\)",
        ),
        ({name: value for name, value in tensors.items() if name != first}, r"has the factors \(0,\) and"),
    ):
        save_file(wrong, path)
        with pytest.raises(ValueError, match=fault):
            read_adapter(folder, vectors.theta_0)


def test_an_origin_is_read_back_and_the_scale_is_a_factor_of_the_dense_form(
    vectors: TaskVectors, tmp_path: Path
) -> None:
    transform = TransformSpec(channels=1, size=8, mean=(0.3,), std=(0.2,))
    about = replace(origin(), class_names=("wren", "crow"), transform=transform)
    saved = replace(learn(vectors, 0), scale=0.25, origin=about)
    found = read_vector(write_vector(tmp_path, saved))
    assert found.origin == about
    name = next(iter(vectors.theta_0))
    assert torch.equal(found.dense(name, vectors.theta_0[name]), 0.25 * vectors.dense(name))


def test_a_dense_form_has_memory_of_its_own() -> None:
    vectors = FullTaskVectors(make_tiny_vit(dtype=torch.float32))
    saved = learn(vectors, 0)
    for name, parts in saved.parameters.items():
        assert saved.dense(name, vectors.theta_0[name]).data_ptr() != parts["tau"].data_ptr()


def test_a_task_that_is_run_again_replaces_its_vector_whole(
    vectors: TaskVectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = learn(vectors, 0)
    folder = write_vector(tmp_path, first)
    (folder / "left").touch()  # by an earlier attempt
    (tmp_path / ".task_1.abc.tmp").mkdir()
    (tmp_path / ".task_10.abc.tmp").mkdir()  # not of this task
    second = replace(learn(vectors, 1), origin=origin(1))
    with monkeypatch.context() as patch:
        patch.setattr(files, "save_tensors", lambda path, tensors, header: path.touch() or 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write_vector(tmp_path, second)
    assert_same(read_vector(folder), first)  # nothing half written was put in its place
    assert {path.name for path in tmp_path.iterdir()} == {"task_1", ".task_10.abc.tmp"}
    write_vector(tmp_path, second)
    assert_same(read_vector(folder), second)
    assert not (folder / "left").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"task_1", ".task_10.abc.tmp"}


def test_vectors_are_found_in_the_order_of_the_tasks(tmp_path: Path) -> None:
    vectors = IA3TaskVectors(make_tiny_vit(dtype=torch.float32))
    for t in (10, 2, 1):
        write_vector(tmp_path, learn(vectors, t - 1))
    for other in (".task_3.abc.tmp", "task_3.old", "task_03"):
        (tmp_path / other).mkdir()
    assert [path.name for path in vector_folders(tmp_path)] == ["task_1", "task_2", "task_10"]
    for other in (tmp_path / "task_1", tmp_path / "gone"):
        with pytest.raises(InputError, match=f"^{other}: holds no task vectors"):
            vector_folders(other)


class TestComposed:
    @pytest.fixture
    def three(self, vectors: TaskVectors) -> list[SavedVector]:
        return [learn(vectors, seed) for seed in range(3)]

    def test_one_weight_of_one_gives_that_learner(self, vectors: TaskVectors, three: list[SavedVector]) -> None:
        for t, vector in enumerate(three):
            found = composed(vectors.theta_0, three, [float(s == t) for s in range(3)])
            for name, weight in vectors.theta_0.items():
                assert torch.equal(found[name], weight + vector.dense(name, weight))
                assert found[name].data_ptr() != weight.data_ptr()

    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_equal_weights_give_the_running_sum_bit_for_bit(self, vectors: TaskVectors, count: int) -> None:
        composition, saved = Composition(vectors.theta_0), []
        for seed in range(count):
            saved.append(learn(vectors, seed))
            composition.add(vectors.dense)
        found = composed(vectors.theta_0, saved, [1 / count] * count)
        loaded = Composition(vectors.theta_0)
        loaded.load_state(composition.state())
        assert loaded.count == count
        loaded.apply(vectors, 1 / count)
        vectors.disable()
        x = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        plain = make_tiny_vit(dtype=torch.float32)
        plain.load_state_dict({**plain.state_dict(), **found})
        torch.testing.assert_close(plain(x), vectors.model(x))
        for name, weight in vectors.theta_0.items():
            assert torch.equal(found[name], weight + 1 / count * composition.sums[name])

    def test_one_vector_is_held_at_a_time(self, vectors: TaskVectors) -> None:
        living: list[weakref.ref[SavedVector]] = []
        most = 0

        def reading() -> Iterator[SavedVector]:
            nonlocal most
            for seed in range(4):
                gc.collect()
                most = max(most, sum(each() is not None for each in living))
                vector = learn(vectors, seed)
                living.append(weakref.ref(vector))
                yield vector
                del vector

        with old_objects_frozen():
            composed(vectors.theta_0, reading(), [0.25, 0.25, 0.0, -0.25])
        assert most == 0 and len(living) == 4  # none of the earlier ones lives while the next is read

    def test_each_vector_has_a_weight(self, vectors: TaskVectors, three: list[SavedVector]) -> None:
        with pytest.raises(ValueError, match="4 weights for 3 task vectors"):
            composed(vectors.theta_0, three, [0.25] * 4)
        for count in (0, 2):
            with pytest.raises(ValueError, match=f"{count} weights for more task vectors"):
                composed(vectors.theta_0, three, [0.5] * count)


def test_a_copy_is_of_checked_files_and_follows_no_link(tmp_path: Path) -> None:
    vectors = LoRATaskVectors(make_tiny_vit(dtype=torch.float32), rank=2)
    folder = write_vector(tmp_path, learn(vectors, 0))
    for with_adapter in (True, False):
        target = tmp_path / f"copy {with_adapter}"
        copy_vector(folder, target, with_adapter=with_adapter)
        assert_same(read_vector(target), read_vector(folder))
        assert (target / "adapter" / "adapter_config.json").is_file() == with_adapter
    assert not (write_vector(tmp_path / "alone", learn(vectors, 0), with_adapter=False) / "adapter").exists()
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "seed").symlink_to(tmp_path)
    for through in (tmp_path / "link", tmp_path / "seed" / "task_1"):
        with pytest.raises(InputError, match="is a link, which is not followed"):
            copy_vector(through, tmp_path / "new")
    moved = (tmp_path / "copy False" / "adapter", folder / "adapter")
    moved[0].symlink_to(moved[1])
    with pytest.raises(InputError, match="adapter: is a link, which is not followed"):
        copy_vector(moved[0].parent, tmp_path / "new")
    (folder / "adapter" / "other").symlink_to(tmp_path)
    with pytest.raises(InputError, match="is a link, which is not followed"):
        copy_vector(folder, tmp_path / "new")
    (folder / "adapter" / "other").unlink()
    (folder / VECTOR_FILE).write_bytes(b"")
    with pytest.raises(InputError, match="cannot be read as a task vector"):
        copy_vector(folder, tmp_path / "new")
    assert not (tmp_path / "new").exists()


class TestDamage:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        vectors = LoRATaskVectors(make_tiny_vit(dtype=torch.float32), rank=2)
        return write_vector(tmp_path, learn(vectors, 0)) / VECTOR_FILE

    def refused(self, path: Path, words: str) -> None:
        with pytest.raises(InputError) as caught:
            read_vector(path.parent)
        line = str(caught.value)
        assert line.startswith(f"{path}: ") and words in line and "\n" not in line

    def rewrite(self, path: Path, tensors: dict[str, Tensor | None], **header: str) -> None:
        with safe_open(path, framework="pt") as file:
            then = {name: text for name, text in file.metadata().items() if name != "content digest"}
        changed = {**load_file(path), **tensors}
        save_file({n: t for n, t in changed.items() if t is not None}, path, metadata={**then, **header})

    def test_unreadable_files(self, path: Path) -> None:
        whole = path.read_bytes()
        for part in (whole[:-1], whole[:100], b"", b"PK\x03\x04" + whole):
            path.write_bytes(part)
            self.refused(path, "cannot be read as a task vector")
        path.unlink()
        self.refused(path, "cannot be read as a task vector")

    def test_a_bit_that_has_flipped(self, path: Path) -> None:
        whole = bytearray(path.read_bytes())
        whole[-3] ^= 4  # of a number: it is still a safetensors file, of the same shapes
        path.write_bytes(whole)
        self.refused(path, "is not a task vector (its content is not what was written)")
        self.rewrite(path, {})
        read_vector(path.parent)  # a digest is checked only where there is one

    @pytest.mark.parametrize(
        ("tensors", "header", "words"),
        [
            ({"head.weight": None}, {}, "'head.weight' is missing"),
            ({"anchor.bias": None}, {}, "'anchor.bias' is missing"),
            ({"blocks.0.attn.qkv.weight.B": None}, {}, "'blocks.0.attn.qkv.weight.B' is missing"),
            ({"other": torch.zeros(1)}, {}, "'other' is no part of one"),
            ({"blocks.0.attn.qkv.weight.A": torch.zeros(6)}, {}, "'blocks.0.attn.qkv.weight' has A (6,), B (24, 6)"),
            ({"blocks.0.attn.qkv.weight.A": torch.zeros(5, 8)}, {}, "has A (5, 8), B (24, 6)"),
            ({"head.weight": torch.zeros(2)}, {}, "head is (2,) and (2,), must be (c, d) and (c,)"),
            ({"head.bias": torch.zeros(3)}, {}, "head is (2, 8) and (3,), must be (c, d) and (c,)"),
            ({}, {"version": "2"}, "format version 2, this version reads 1"),
            ({}, {"parametrisation": "mine"}, "parametrisation 'mine' is not known"),
            ({}, {"classes": "0-3"}, "3 classes, but the head has 2 rows"),
            ({}, {"classes": "2-2"}, "classes '2-2'"),
            ({}, {"classes": "0-200001"}, "classes '0-200001'"),
            ({}, {"class_names": '["a"]'}, "1 names for 2 classes"),
            ({}, {"class_names": '["a", 2]'}, "class_names is not a list of names"),
            ({}, {"scale": "x"}, "could not convert"),
            ({}, {"scale": "1e7"}, "scale 1e7 is not a finite number other than 0"),
            ({}, {"scale": "0"}, "scale 0 is not a finite number other than 0"),
            ({}, {"scale": "nan"}, "scale nan is not a finite number other than 0"),
        ],
    )
    def test_files_that_are_no_task_vector(
        self, path: Path, tensors: dict[str, Tensor | None], header: dict[str, str], words: str
    ) -> None:
        self.rewrite(path, tensors, **header)
        self.refused(path, words)

    def test_foreign_files(self, path: Path) -> None:
        with safe_open(path, framework="pt") as file:
            header = {**file.metadata(), "parametrisation": "full"}
        header.pop("content digest")
        rows = {
            f"{name}.{part}": HEAD[k].clone()
            for name in ("head", "anchor")
            for k, part in enumerate(("weight", "bias"))
        }
        save_file(rows, path)
        self.refused(path, "format version unknown, this version reads 1")
        save_file({"weight": torch.zeros(2, 2)}, path, metadata=header)
        self.refused(path, "'head.weight' is missing")
        save_file(rows, path, metadata=header)
        self.refused(path, "no tuned weight in it")
        save_file({**rows, "norm.weight": torch.zeros(3)}, path, metadata=header)
        self.refused(path, "'norm.weight' has tau (3,)")
