"""mammoth's `TAK` on a ViT of timm, which is put into the layout of CLIP that it expects.

Their code is unchanged but for its first step: they leave out the step after the first batch of a task, and count from
the second. Here every batch makes a step, counted from the first, as in ours. `factors` says which tasks they are held
by: those before ("past", as ours), or all others ("all", theirs as is), of which the curvature is then taken first.

Their features are divided by their length, and once more before the classifier; ours are not. As it is, their code
learns with heads that are scaled by the length of our features, and with our strength times its square for lambda. In
the runs of `SAME` their code leaves features as long as they are, so that both programs minimise the same.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from benchmarks.authors.checkout import make_runnable
from benchmarks.authors.parity.mammoth import CHECKOUT, Loader, arguments, learner
from benchmarks.authors.parity.ours import sequence
from benchmarks.authors.parity.shared import Learn, Program, Run, answer
from benchmarks.authors.theirs import Dataset
from trainables.backbones import Backbone
from trainables.data import Benchmark, Task
from trainables.heads import Head

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer

TRAIN, EVAL = "train", "eval"  # what their code sets as the transform of a data set
_OURS = {"lr": 0.001, "strength": 0.1, "draws": "all", "lr_pre": 0.03, "epochs_pre": 8}


def _run(factors: str, lengths: str, **changes: Any) -> Run:
    return Run(method="tak", hyperparameters=_OURS | changes, theirs={"factors": factors, "lengths": lengths})


AS_IT_IS = (_run("all", "one"), _run("past", "one"))
SAME = (_run("past", "kept"), _run("none", "kept", regularise="none"))
LENGTHS = (  # where their code divides by a length, and the features without it
    ("models/tak.py", r"nn\.functional\.normalize\((features|image_features), dim=-1\)", r"\1", 3),
    ("models/tak_utils/fisher_kfac.py", r"features / features\.norm\(dim=-1, keepdim=True\)", "features", 1),
)


class _Block(nn.Module):
    """A block of CLIP with the weights and the activation of timm's; its attention is what their surgery replaces."""

    def __init__(self, block: Any) -> None:
        super().__init__()
        own = block.attn
        self.attn = nn.MultiheadAttention(own.qkv.in_features, own.num_heads)
        weights = (own.qkv.weight, own.qkv.bias, own.proj.weight, own.proj.bias)
        names = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
        self.attn.load_state_dict(dict(zip(names, weights, strict=True)))
        self.ln_1, self.ln_2 = block.norm1, block.norm2
        self.mlp = nn.Sequential()
        for name, part in (("c_fc", block.mlp.fc1), ("gelu", block.mlp.act), ("c_proj", block.mlp.fc2)):
            self.mlp.add_module(name, part)

    def forward(self, x: Tensor) -> Tensor:
        normalised = self.ln_1(x)
        x = x + self.attn(normalised, normalised, normalised, need_weights=False, attn_mask=None)[0]
        return x + self.mlp(self.ln_2(x))


class _Transformer(nn.Module):
    def __init__(self, blocks: Sequence[Any]) -> None:
        super().__init__()
        self.resblocks = nn.Sequential(*map(_Block, blocks))

    def forward(self, x: Tensor) -> Tensor:
        return self.resblocks(x)


class _Visual(nn.Module):
    """The image encoder of CLIP; their surgery writes its `forward` and makes `proj` a layer, the identity."""

    def __init__(self, vit: VisionTransformer) -> None:
        super().__init__()
        assert isinstance(vit.patch_embed, nn.Module) and vit.cls_token is not None and vit.pos_embed is not None
        self.conv1 = vit.patch_embed.proj
        self.class_embedding = nn.Parameter(vit.cls_token.detach()[0, 0].clone())
        self.positional_embedding = nn.Parameter(vit.pos_embed.detach()[0].clone())
        self.ln_pre, self.ln_post = vit.norm_pre, vit.norm
        self.transformer = _Transformer(vit.blocks)
        self.proj = nn.Parameter(torch.eye(vit.embed_dim))


class _Clip(nn.Module):
    def __init__(self, vit: VisionTransformer) -> None:
        super().__init__()
        self.visual = _Visual(vit)


def _without_packages(vit: VisionTransformer) -> None:
    """Stand in for the packages that it imports; `clip` loads our network, and `open_clip` names the transforms."""
    empty: dict[str, dict[str, Any]] = {
        "wandb": {},
        "clip": {"load": lambda *_, **__: (_Clip(vit), None)},
        "clip.model": {"CLIP": _Clip},
        "open_clip": {"create_model_and_transforms": lambda *_, **__: (None, TRAIN, EVAL)},
        "datasets.seq_8vision": {"Sequential8Vision": type("Sequential8Vision", (), {})},
        "models.tak_utils.templates": {"get_templates": None},
    }
    for name, attributes in empty.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(attributes)


def _heads(rows: Head, divides: bool) -> Callable[..., Any]:
    """Return what takes the place of their heads of text embeddings: the rows of some or all classes."""
    head = import_module("models.tak_utils.backbone").ClassificationHead

    def build(_: Any, dataset: Any, offset: tuple[int, int], eval: bool = False, all_heads: bool = False) -> Any:
        of = slice(None) if all_heads else slice(0 if eval else offset[0], offset[1])
        return head(divides, *(part[of] for part in rows)).requires_grad_(False)

    return build


def make_model(
    vit: VisionTransformer,
    rows: Head,
    dataset: Any,
    usual: argparse.Namespace,
    *,
    factors: str,
    divides: bool = True,
    **own: Any,
) -> Any:
    """Return their model, whose heads are rows of one over all classes.

    Args:
        vit: Network with a class token, float32; its modules become theirs.
        rows: W `(C, d)` and b `(C,)`.
        dataset: What the model takes for a data set.
        usual: What every model of mammoth reads; see `arguments`.
        factors: Which tasks hold others: "past", or the names of other ways, for which the caller stores factors.
        divides: Whether the head divides features by their length first, as theirs does.
        own: What it is told beside its defaults, by their names.
    """
    _without_packages(vit)
    outer: Any = import_module("models.tak")
    outer.build_classification_head = _heads(rows, divides)
    given = outer.TAK.get_parser(argparse.ArgumentParser()).parse_args([])
    ways = {"fisher_num_samples_expectation": 0, "ft_proj": 0}  # exact; a ViT has no projection after its last norm
    vars(given).update({**vars(usual), "device": "cpu", "non_verbose": 1, **ways, **own})

    class Model(outer.TAK):  # imported in this function
        scheduler1: Callable[[int], None]
        task_iteration = property(lambda self: self._task_iteration + 1)  # the first batch makes a step, too

        def begin_task(self, dataset: Any) -> None:
            super().begin_task(dataset)
            schedule = self.scheduler1
            self.scheduler1 = lambda step: schedule(step - 1)

        def end_task(self, dataset: Any) -> None:
            self.merging.set_alpha(self.current_task + 1)  # it divides by the tasks so far: a sum after each
            super().end_task(dataset)
            if factors == "past":
                self.take_curvature(dataset)
                self.args.load_fisher = 1

        def take_curvature(self, dataset: Any) -> None:
            """Store the factors of the task that the data set is at, as their `begin_task` does."""
            dataset.train_loader.transform = EVAL
            found = self.fisher_computer.compute(self.net, None, self.delta_w_names, dataset, use_head=False)
            self.fisher_loader.store_kfac(self.current_task, *found)

    return Model(None, nn.functional.cross_entropy, given, None, dataset)


class Images(Loader):
    """Our batches; what their code sets as the transform decides whether they are augmented and shuffled."""

    transform = TRAIN

    @property
    def dataset(self) -> Images:
        """Return where their code sets a transform."""
        return self

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        if self.transform == TRAIN:
            yield from super().__iter__()
        else:
            yield from self.task.unaugmented.batches(self.batch_size, None, shuffle=False)


class _Digits(Dataset):
    """Digits, as their model reads them."""

    NAME = "digits"

    def get_class_names(self) -> list[str]:
        """Return no names: the heads are given."""
        return []


def _first_pass(model: Any, dataset: Dataset, benchmark: Benchmark) -> None:
    """Store the factors of all tasks, later ones too: the first of their two passes over the sequence."""
    for t, task in enumerate(benchmark.tasks):
        dataset.test_loaders = [Images(task, benchmark.spec.batch_size, torch.Generator())]
        dataset.train_loader = Images(task, benchmark.spec.batch_size, torch.Generator())
        model._current_task = t
        model.begin_task(dataset)
    model._current_task, model.net.task_id, model.args.load_fisher = 0, 0, 1


def _squared_length(task: Task) -> float:
    """Return the mean squared length of the features of a task's images."""
    vit = Backbone().load()
    with torch.no_grad():
        parts = [vit(batch.x).square().sum(1) for batch in task.unaugmented.batches(256, None, shuffle=False)]
    return float(torch.cat(parts).mean())


def build(run: Run, benchmark: Benchmark) -> Learn:
    """Build its model with the heads that ours begins its tasks with."""
    ours: Any = sequence(run, benchmark).method
    heads = [[part[task.rows] for part in ours.heads_prepared(task).head] for task in benchmark.tasks]
    weight, bias = map(torch.cat, zip(*heads, strict=True))
    dataset, size, factors = _Digits(benchmark), benchmark.spec.batch_size, run.theirs["factors"]
    square = _squared_length(benchmark.tasks[0]) if run.theirs["lengths"] == "one" else 1.0
    steps = benchmark.spec.epochs * -(-len(benchmark.tasks[0].train) // size)
    model = make_model(
        *(Backbone().load(tokens="all"), (square**0.5 * weight, bias), dataset),
        arguments(run, benchmark, optimizer="adamw", optim_wd=0.1),
        factors=factors,
        divides=run.theirs["lengths"] == "one",
        reg_lambda=run.hyperparameters["strength"] * square,
        epochs_factor_reduction=500 / round(0.1 * steps),  # their warm-up takes 500 steps over this
        fisher_cache=tempfile.mkdtemp(),
    )
    if factors == "all":
        _first_pass(model, dataset, benchmark)
    learn = learner(model, run, benchmark, dataset, predict=model, begin=lambda task: None, loader=Images)

    def learn_with_tests(task: Task) -> list[float]:
        dataset.test_loaders = [Images(task, size, torch.Generator())]  # what they print, and nothing reads
        return learn(task)

    return learn_with_tests


PROGRAM = Program("benchmarks.authors.parity.tak", CHECKOUT, SAME, partial(make_runnable, changes=LENGTHS))
PROGRAM_AS_IT_IS = Program("benchmarks.authors.parity.tak", CHECKOUT, AS_IT_IS, make_runnable)

if __name__ == "__main__":
    answer(build)
