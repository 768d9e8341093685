"""Heads that start at embeddings of class names: the rows, who starts there, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from tausearch.api import SearchRequest, TrainRequest, plan_search, plan_training, resume
from tausearch.studies import unsearched_best_file
from tests.support.command_line import Ask
from tests.support.methods.small_digits import ITA, small_digits
from trainables.backbones import Backbone, InputSpec, OwnBackbone
from trainables.backbones.initial_head import head_rows
from trainables.backbones.timm_names import created
from trainables.errors import InputError
from trainables.sequence import IncrementalSequence
from trainables.user_code import allow_code

WIDTH = 64  # of glyph_vit
DIGITS = tuple("0123456789")
FORMS = ("a\u0308", "\u00e4")  # one letter: in folders of a Mac, and as it is typed


def vectors(size: int = WIDTH, names: tuple[str, ...] = DIGITS, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: 3 * torch.randn(size, generator=generator) for name in names}


@pytest.fixture
def head(tmp_path: Path) -> Path:
    save_file(vectors(), tmp_path / "head.safetensors")
    return tmp_path / "head.safetensors"


def test_the_largest_logit_is_that_of_the_largest_cosine_whatever_the_lengths() -> None:
    generator = torch.Generator().manual_seed(1)
    embeddings, projection = torch.randn(7, 5, generator=generator), torch.randn(5, 6, generator=generator)
    features = torch.randn(50, 6, generator=generator)
    cosine = nn.functional.cosine_similarity((features @ projection.T)[:, None], embeddings[None], dim=2)
    rows = head_rows("x", embeddings * torch.arange(1, 8)[:, None], 6, projection)
    assert torch.equal((features @ rows.T).argmax(1), cosine.argmax(1))
    alone = head_rows("x", embeddings[:3], 6, projection)  # no other class has a part in it
    torch.testing.assert_close(rows[:3], alone)
    plain = head_rows("x", embeddings, 5, None)
    torch.testing.assert_close(plain.square().mean(1).sqrt(), torch.full((7,), 0.02))


@pytest.mark.parametrize(
    ("method", "settings"),
    [("finetune", {"lr": 0.1}), ("ita-lora", {**ITA, "formulation": "official"}), ("probe", {"epochs_pre": 1})],
)
def test_a_method_starts_there_and_the_cache_tells_it_apart(
    method: str, settings: dict[str, Any], head: Path, tmp_path: Path
) -> None:
    benchmark = small_digits()

    def sequence(backbone: Backbone) -> IncrementalSequence:
        return IncrementalSequence(benchmark, method, settings, backbone=backbone, cache=tmp_path / "cache")

    rows = Backbone(head=head).initial_head(benchmark.spec.class_names)
    made: Any = sequence(Backbone(head=head)).method
    made.begin_task(benchmark.tasks[0])
    if method == "finetune":
        assert torch.equal(made.head.weight, rows)
    elif method == "ita-lora":
        assert torch.equal(made.heads.current[0], rows[:2])
    else:
        drawn = sequence(Backbone())
        assert drawn.run_next_task()["cache/hit"] == 0.0
        first, second = (sequence(Backbone(head=head)).run_next_task() for _ in range(2))
        assert (first["cache/hit"], second["cache/hit"]) == (1.0, 1.0)  # computed by `made`
        assert not torch.equal(made.heads.current[0], drawn.method.heads.weight)  # type: ignore[attr-defined]


def test_a_class_is_known_in_either_unicode_form(tmp_path: Path) -> None:
    save_file(vectors(names=("b", "\u00e4")), tmp_path / "head.safetensors")
    with_mark, with_sign = (Backbone(head=tmp_path / "head.safetensors").initial_head((a, "b")) for a in FORMS)
    assert with_mark is not None and with_sign is not None and torch.equal(with_mark, with_sign)


def test_embeddings_of_another_size_go_through_the_projection_of_the_pre_training(tmp_path: Path) -> None:
    name = "vit_tiny_patch16_224?img_size=32"
    save_file(created(name, 5).state_dict(), tmp_path / "weights.safetensors")
    save_file(vectors(5, ("a", "b")), tmp_path / "head.safetensors")
    save_file(vectors(4, ("a", "b")), tmp_path / "other.safetensors")
    weights = tmp_path / "weights.safetensors"
    rows = Backbone(name, weights, tmp_path / "head.safetensors").initial_head(("b", "a"))
    assert rows is not None and rows.shape == (2, 192)
    with pytest.raises(InputError, match="embeddings have 4 numbers; the features have 192, and .* a projection to 5$"):
        Backbone(name, weights, tmp_path / "other.safetensors").initial_head(("a", "b"))


@pytest.mark.parametrize(
    ("content", "method", "said"),
    [
        (vectors(names=DIGITS[:8]), "finetune", "lacks the classes '8', '9'"),
        (vectors(9), "finetune", "its embeddings have 9 numbers; the features have 64, and the pre-training has no"),
        ({**vectors(), "3": torch.zeros(WIDTH)}, "finetune", "has an embedding that is zero or not finite"),
        ({**vectors(), "3": torch.zeros(2, WIDTH)}, "finetune", "must have one vector for each class, all of one size"),
        (None, "finetune", "cannot be read as safetensors"),
        (vectors(), "l2p", "--initial-head: the heads of l2p do not start at given rows; those of ita-fft, "),
    ],
)
def test_what_is_wrong_is_one_line(
    content: dict[str, Tensor] | None, method: str, said: str, tmp_path: Path, ask: Ask
) -> None:
    file = tmp_path / "file.safetensors"
    file.write_text("no") if content is None else save_file(content, file)
    words = ("search", "digits", method, "--initial-head", str(file), "--storage", str(tmp_path / "runs"))
    code, out, err = ask(*words)
    assert (code, out, err.count("\n")) == (2, "", 1) and said in err, err
    assert not (tmp_path / "runs").exists()


def test_a_run_keeps_its_head_and_is_not_continued_with_another(head: Path, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"storage": tmp_path / "runs", "name": "s"}
    plan = plan_search(SearchRequest("digits", "finetune", initial_head=head, **asked))
    spec = plan.spec
    assert spec.protocol.initial_head == str(head) == spec.trial_config(0, {}, cache=None).initial_head
    plain = plan_search(SearchRequest("digits", "finetune", **asked)).spec.protocol
    assert plain.initial_head_digest is None is not spec.protocol.initial_head_digest
    assert (
        plan_training(TrainRequest(unsearched_best_file(spec), seeds=[0], storage=tmp_path)).spec.protocol
        == spec.protocol
    )
    with plan.open_locked():
        pass
    save_file(vectors(seed=1), head)
    with pytest.raises(InputError, match="run 's': protocol.initial_head_digest was "):
        resume("s", storage=tmp_path / "runs")


class Rows(nn.Module):
    num_features = 8

    def __init__(self) -> None:
        super().__init__()
        self.only = nn.Linear(8, 8)

    def forward(self, images: Tensor) -> Tensor:
        return self.only(images[:, 0]).mean(1)


def test_a_backbone_of_the_user_declares_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def own(initial_head: Any) -> Backbone:
        reads = InputSpec(channels=1, size=8, mean=(0.5,), std=(0.5,))
        made = OwnBackbone(build=Rows, input=reads, tuned=("only",), initial_head=initial_head)
        module: Any = ModuleType("own_head")
        module.OWN = made
        monkeypatch.setitem(sys.modules, "own_head", module)
        return Backbone("own_head:OWN")

    allow_code("own_head:OWN")
    rows = own(lambda names: torch.eye(8)[: len(names)]).initial_head(("a", "b"))
    torch.testing.assert_close(rows, torch.eye(8)[:2] * 0.02 * 8**0.5)
    assert own(None).initial_head(("a", "b")) is None
    for wrong, said in (
        (lambda names: torch.ones(2), r"initial_head must return a tensor \(2, d\), got \(2,\)"),
        (lambda names: torch.eye(8), r"initial_head must return a tensor \(2, d\), got \(8, 8\)"),
        (lambda names: torch.ones(2, 5), "its embeddings have 5 numbers; the features have 8"),
        (lambda names: 1 / 0, "initial_head failed .ZeroDivisionError"),
    ):
        with pytest.raises(InputError, match=said):
            own(wrong).initial_head(("a", "b"))
