"""A tiny method for each way in which a method may be more than a head on class features."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.func import functional_call, jvp

from tests.support.methods.linear_probe import LinearProbe, LinearProbeConfig
from trainables.backbones.recording import recorded
from trainables.backbones.token_vit import TokenViT
from trainables.composition import Origin
from trainables.data import Batch, Task
from trainables.heads import WideHead, new_head
from trainables.methods import Capabilities, Context, ExtraMetric, MethodEntry
from trainables.methods.training import (
    CHANCE_BINARY_CROSS_ENTROPY,
    chance_square_loss,
    fit,
    gradient_steps,
    local_loss,
    shuffled_batches,
)
from trainables.metrics import TRAIN_LOSS
from trainables.preconsolidation import Consolidation
from trainables.randomness import make_generator
from trainables.state import State

TARGET = 15.0
KEEPING = 0.1  # weight of the square loss on kept logits


class Extendable(LinearProbe):
    """A linear probe of which each step can be another."""

    def trained(self) -> list[nn.Parameter]:
        return self.heads.current

    def loss(self, task: Task, batch: Batch) -> Tensor:
        return local_loss(self.context, self.model, self.heads, batch.x, batch.y - task.classes.start)

    def fit(self, task: Task, **options: Any) -> float:
        step = gradient_steps(torch.optim.SGD(self.trained(), lr=self.config.lr), partial(self.loss, task))
        return fit(task, self.context, step, self.trained(), **options)

    def train_task(self, task: Task) -> dict[str, float]:
        return {TRAIN_LOSS: self.fit(task)}


class Inside(Extendable):
    """A head on what a `_Read` makes of the network; whatever may be trained of that one is trained too."""

    def __init__(self, context: Context, config: LinearProbeConfig) -> None:
        super().__init__(context, config)
        self.model = self.read(make_generator(context.seed, "inside", 0)).to(context.device)

    def read(self, generator: torch.Generator) -> nn.Module:
        raise NotImplementedError

    def opened(self) -> TokenViT:
        return TokenViT(self.context.backbone.load(tokens="all").requires_grad_(False))

    def inside(self) -> dict[str, nn.Parameter]:
        return {name: part for name, part in self.model.named_parameters() if part.requires_grad}

    def trained(self) -> list[nn.Parameter]:
        return [*self.heads.current, *self.inside().values()]

    def state(self) -> State:
        return super().state() | State({name: part.detach() for name, part in self.inside().items()})

    def load_state(self, state: State) -> None:
        super().load_state(state)
        for name, part in self.inside().items():
            part.data.copy_(state.tensors[name])


class _Read(nn.Module):
    """What a head reads of a ViT that is open at its tokens: `(b, c, h, w)` to `(b, d)`."""

    def __init__(self, vit: TokenViT) -> None:
        super().__init__()
        self.vit, self.num_features = vit, vit.vit.num_features

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.vit(images)
        return tokens[:, 0] + tokens.mean(1)


class MeanToken(Inside):
    """All tokens: the head reads the class token plus the mean of all."""

    def read(self, generator: torch.Generator) -> nn.Module:
        return _Read(self.opened())


class Prefix(Inside):
    """Prefix tuning: two rows before the keys and two before the values of the first block are trained."""

    def read(self, generator: torch.Generator) -> nn.Module:
        return _Prefixed(self.opened())


class _Prefixed(_Read):
    def __init__(self, vit: TokenViT) -> None:
        super().__init__(vit)
        self.rows = nn.Parameter(torch.zeros(2, 2, self.num_features))

    def forward(self, images: Tensor) -> Tensor:
        return self.vit(images, prefixes={0: (self.rows[0], self.rows[1])})[:, 0]


class Prompt(Inside):
    """Prompt tuning: two tokens after the class token are trained and read, and seen by nobody but themselves."""

    def read(self, generator: torch.Generator) -> nn.Module:
        return _Prompted(self.opened(), generator)


class _Prompted(_Read):
    def __init__(self, vit: TokenViT, generator: torch.Generator) -> None:
        super().__init__(vit)
        start = vit.embed(torch.zeros(1, *_shape(vit)))[0, 0]
        self.prompt = nn.Parameter(start + 0.02 * torch.randn(2, self.num_features, generator=generator))

    def tokens(self, images: Tensor) -> Tensor:
        count = 1 + len(self.prompt) + self.vit.vit.patch_embed.num_patches
        prompts = torch.zeros(count, dtype=torch.bool, device=images.device)
        prompts[1 : 1 + len(self.prompt)] = True
        mask = prompts[:, None] | ~prompts  # a prompt may attend to all, the others to all but prompts
        return self.vit(images, insert=self.prompt, mask=mask)

    def forward(self, images: Tensor) -> Tensor:
        return self.tokens(images)[:, 1 : 1 + len(self.prompt)].mean(1)


def _shape(vit: TokenViT) -> tuple[int, ...]:
    embed = vit.vit.patch_embed
    return (embed.proj.in_channels, *embed.img_size)


class Tangent(Inside):
    """A linearised network: its features plus their derivative along tau, which is trained in place of the weights."""

    def read(self, generator: torch.Generator) -> nn.Module:
        return _Linearised(self.context.backbone.load(attention="plain").requires_grad_(False))


class _Linearised(nn.Module):
    """f(theta_0) + J tau, for the first norm's weight; forward mode goes through the attention of every block."""

    def __init__(self, vit: VisionTransformer) -> None:
        super().__init__()
        self.vit, self.num_features = vit, vit.num_features
        self.tau = nn.Parameter(torch.zeros_like(vit.blocks[0].norm1.weight))

    def forward(self, images: Tensor) -> Tensor:
        def features(weight: Tensor) -> Tensor:
            return functional_call(self.vit, {"blocks.0.norm1.weight": weight}, images)

        value, along = jvp(features, (self.vit.blocks[0].norm1.weight,), (self.tau,))
        return value + along


class Moment(Extendable):
    """Accumulates the second moment of what the last block's qkv reads of every task's images, and writes it."""

    def __init__(self, context: Context, config: LinearProbeConfig) -> None:
        super().__init__(context, config)
        self.layer = f"blocks.{len(self.model.blocks) - 1}.attn.qkv"
        width = self.model.num_features
        self.moment = torch.zeros(width, width, device=context.device)

    def train_task(self, task: Task) -> dict[str, float]:
        return {**super().train_task(task), MOMENT.name: float(self.moment.trace())}

    @torch.no_grad()
    def end_task(self, task: Task) -> None:
        super().end_task(task)
        with recorded({self.layer: self.model.get_submodule(self.layer)}) as seen:
            for batch in task.unaugmented.batches(8, None, shuffle=False, device=self.context.device):
                self.context.features(self.model, batch.x)
                read = seen[self.layer][0].flatten(0, 1).float()
                self.moment += read.T @ read

    def save_artifacts(self, folder: Path, origin: Origin) -> None:
        (folder / f"task_{origin.task}").mkdir()
        save_file({"moment": self.moment}, folder / f"task_{origin.task}" / "moment.safetensors")

    def state(self) -> State:
        return super().state() | State({"moment": self.moment})

    def load_state(self, state: State) -> None:
        super().load_state(state)
        self.moment.copy_(state.tensors["moment"])


class Wide(Extendable):
    """One head over all classes from the start, trained on the local cross-entropy."""

    def __init__(self, context: Context, config: LinearProbeConfig) -> None:
        super().__init__(context, config)
        self.head = WideHead(self.model.num_features, context.device)
        width, generator = self.model.num_features, make_generator(context.seed, "head", 0)
        self.head.grow(new_head(context.num_classes, width, generator))
        self.seen = 0

    def begin_task(self, task: Task, consolidation: Consolidation | None) -> None:
        self.seen = task.classes.stop

    def trained(self) -> list[nn.Parameter]:
        return self.head.parameters()

    def loss(self, task: Task, batch: Batch) -> Tensor:
        features = self.context.features(self.model, batch.x)
        return F.cross_entropy(self.head.masked_logits(features, task.classes), batch.y)

    def end_task(self, task: Task) -> None:
        pass

    @torch.inference_mode()
    def predict(self, images: Tensor) -> Tensor:
        return self.head.local_logits(self.context.features(self.model, images), range(self.seen))

    def state(self) -> State:
        return self.head.state().within("head") | State(values={"seen": self.seen})

    def load_state(self, state: State) -> None:
        self.head.load_state(state.part("head"))
        self.seen = int(str(state.values["seen"]))


class Grown(Wide):
    """One head that grows by the rows of each task, trained on a binary cross-entropy of them."""

    def __init__(self, context: Context, config: LinearProbeConfig) -> None:
        super().__init__(context, config)
        self.head = WideHead(self.model.num_features, context.device)

    def begin_task(self, task: Task, consolidation: Consolidation | None) -> None:
        super().begin_task(task, consolidation)
        generator = make_generator(self.context.seed, "head", task.index)
        self.head.grow(new_head(len(task.classes), self.model.num_features, generator))

    def fit(self, task: Task, **options: Any) -> float:
        return super().fit(task, chance_loss=CHANCE_BINARY_CROSS_ENTROPY)

    def loss(self, task: Task, batch: Batch) -> Tensor:
        logits = self.head.local_logits(self.context.features(self.model, batch.x), task.classes)
        hot = F.one_hot(batch.y - task.classes.start, len(task.classes))
        return F.binary_cross_entropy_with_logits(logits, hot.float())


class Kept(NamedTuple):
    """Examples of one task, in the order of its classes."""

    pixels: Tensor  # uint8, on the CPU, before any transform
    labels: Tensor
    logits: Tensor  # over the classes seen by the end of the task


class Rehearsal(Wide):
    """Rehearsal: an example of each class joins every batch of later tasks, augmented anew, and keeps its logits."""

    def __init__(self, context: Context, config: LinearProbeConfig) -> None:
        super().__init__(context, config)
        self.kept: list[Kept] = []

    def fit(self, task: Task, **options: Any) -> float:
        def batches(epoch: int) -> Iterator[Batch]:
            for batch in usual(epoch):
                parts = [batch]
                for kept in self.kept:
                    x = task.train.prepare(kept.pixels, generator, self.context.device)
                    parts.append(Batch(x, kept.labels, torch.full((len(x),), -1)))  # no rows of this task
                yield Batch(*map(torch.cat, zip(*parts, strict=True)))

        usual = shuffled_batches(task, self.context)
        generator = make_generator(self.context.seed, "kept", task.index)
        return super().fit(task, batches=batches)

    def loss(self, task: Task, batch: Batch) -> Tensor:
        logits = self.head.local_logits(self.context.features(self.model, batch.x), range(self.seen))
        loss = F.cross_entropy(logits, batch.y)
        own = int((batch.rows >= 0).sum())
        for part, kept in zip(logits[own:].split([len(k.labels) for k in self.kept]), self.kept, strict=True):
            loss = loss + KEEPING * F.mse_loss(part[:, : kept.logits.shape[1]], kept.logits)
        return loss

    def end_task(self, task: Task) -> None:
        rows = torch.stack([(task.train.labels == label).nonzero()[0, 0] for label in task.classes])
        pixels = task.train.pixels(rows)
        assert isinstance(pixels, Tensor)
        logits = self.predict(task.unaugmented.prepare(pixels, None, self.context.device)).clone()
        self.kept.append(Kept(pixels, task.train.labels[rows].to(self.context.device), logits))

    def state(self) -> State:
        kept = {f"kept/{k}/{name}": part for k, each in enumerate(self.kept) for name, part in each._asdict().items()}
        return super().state() | State(constant=kept, values={"kept": len(self.kept)})

    def load_state(self, state: State) -> None:
        super().load_state(state)
        self.kept = []
        for k in range(int(str(state.values["kept"]))):
            pixels, labels, logits = (state.constant[f"kept/{k}/{name}"] for name in Kept._fields)
            self.kept.append(Kept(pixels, labels.to(self.context.device), logits.to(self.context.device)))


class Square(Wide):
    """A loss of its own scale: squares of the distance to 15 at the true class and to 0 at all others."""

    def fit(self, task: Task, **options: Any) -> float:
        return super().fit(task, chance_loss=chance_square_loss(self.context.num_classes, TARGET))

    def loss(self, task: Task, batch: Batch) -> Tensor:
        logits = self.head.logits(self.context.features(self.model, batch.x))
        return F.mse_loss(logits, TARGET * F.one_hot(batch.y, self.context.num_classes).float())


MOMENT = ExtraMetric("train/moment", "1")
ENTRIES = {
    entry.name: entry
    for entry in (
        MethodEntry("mean-token", LinearProbeConfig, Capabilities(), MeanToken),
        MethodEntry("prefix", LinearProbeConfig, Capabilities(), Prefix),
        MethodEntry("prompt", LinearProbeConfig, Capabilities(), Prompt),
        MethodEntry("tangent", LinearProbeConfig, Capabilities(), Tangent),
        MethodEntry(
            "moment", LinearProbeConfig, Capabilities(writes_artifacts=True, tasks_to_peak=2), Moment, (MOMENT,)
        ),
        MethodEntry("wide", LinearProbeConfig, Capabilities(), Wide),
        MethodEntry("grown", LinearProbeConfig, Capabilities(), Grown),
        MethodEntry("rehearsal", LinearProbeConfig, Capabilities(rehearsal=True), Rehearsal),
        MethodEntry("square", LinearProbeConfig, Capabilities(), Square),
    )
}
