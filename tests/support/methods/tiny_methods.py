"""A tiny method for each way in which a method may be more than a head on class features."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.support.methods.linear_probe import LinearProbe, LinearProbeConfig
from trainables.backbones.token_vit import TokenViT
from trainables.data import Batch, Task
from trainables.heads import WideHead, new_head
from trainables.methods import Capabilities, Context, MethodEntry
from trainables.methods.training import Step, fit, guessing_square, local_loss, require_finite, shuffled_batches
from trainables.metrics import TRAIN_LOSS
from trainables.preconsolidation import Consolidation
from trainables.randomness import make_generator
from trainables.state import State

TARGET = 15.0


class Extendable(LinearProbe):
    """A linear probe of which each step can be another."""

    def trained(self) -> list[nn.Parameter]:
        return self.heads.current

    def loss(self, task: Task, batch: Batch) -> Tensor:
        return local_loss(self.context, self.model, self.heads, batch.x, batch.y - task.classes.start)

    def step(self, task: Task) -> Step:
        optimizer = torch.optim.SGD(self.trained(), lr=self.config.lr)

        def step(batch: Batch, factor: float) -> Tensor:
            loss = self.loss(task, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.param_groups[0]["lr"] = self.config.lr * factor
            optimizer.step()
            return loss.detach()

        return step

    def fit(self, task: Task) -> float:
        return fit(task, self.context, self.step(task))

    def train_task(self, task: Task) -> dict[str, float]:
        loss = self.fit(task)
        require_finite(self.trained(), self.context, task)
        return {TRAIN_LOSS: loss}


class MeanToken(Extendable):
    """All tokens: the head reads the class token plus the mean of all."""

    def __init__(self, context: Context, config: LinearProbeConfig) -> None:
        super().__init__(context, config)
        vit = TokenViT(context.backbone.load(context.device, tokens="all").requires_grad_(False))
        self.model = _Read(vit)

    def trained(self) -> list[nn.Parameter]:
        return [*self.heads.current, *(p for p in self.model.parameters() if p.requires_grad)]


class _Read(nn.Module):
    """What a head reads of a ViT that is open at its tokens: `(b, c, h, w)` to `(b, d)`."""

    def __init__(self, vit: TokenViT) -> None:
        super().__init__()
        self.vit, self.num_features = vit, vit.vit.num_features

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.vit(images)
        return tokens[:, 0] + tokens.mean(1)


class Prefix(MeanToken):
    """Prefix tuning: two rows before the keys and two before the values of the first block are trained."""

    def __init__(self, context: Context, config: LinearProbeConfig) -> None:
        super().__init__(context, config)
        self.model = _Prefixed(self.model.vit)

    def state(self) -> State:
        return super().state() | State({"rows": self.model.rows.detach()})

    def load_state(self, state: State) -> None:
        super().load_state(state)
        self.model.rows.data.copy_(state.tensors["rows"])


class _Prefixed(_Read):
    def __init__(self, vit: TokenViT) -> None:
        super().__init__(vit)
        self.rows = nn.Parameter(torch.zeros(2, 2, self.num_features))

    def forward(self, images: Tensor) -> Tensor:
        return self.vit(images, prefixes={0: (self.rows[0], self.rows[1])})[:, 0]


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


class Rehearsal(Wide):
    """Rehearsal: two examples of each task, known by their rows, join every batch of the tasks after it."""

    def __init__(self, context: Context, config: LinearProbeConfig) -> None:
        super().__init__(context, config)
        self.kept: list[Batch] = []
        self.first: Batch | None = None

    def fit(self, task: Task) -> float:
        def batches(epoch: int) -> Iterator[Batch]:
            for batch in usual(epoch):
                self.first = self.first or batch
                yield Batch(*(torch.cat(parts) for parts in zip(batch, *self.kept, strict=True)))

        usual = shuffled_batches(task, self.context)
        return fit(task, self.context, self.step(task), batches=batches)

    def loss(self, task: Task, batch: Batch) -> Tensor:
        features = self.context.features(self.model, batch.x)
        return F.cross_entropy(self.head.local_logits(features, range(self.seen)), batch.y)

    def end_task(self, task: Task) -> None:
        assert self.first is not None
        rows, self.first = self.first.rows[:2], None
        x = task.unaugmented.prepare(task.unaugmented.pixels(rows), None, self.context.device)
        self.kept.append(Batch(x, task.unaugmented.labels[rows].to(self.context.device), rows))

    def state(self) -> State:
        kept = {f"kept/{k}/{part}": getattr(batch, part) for k, batch in enumerate(self.kept) for part in Batch._fields}
        return super().state() | State(constant=kept, values={"kept": len(self.kept)})

    def load_state(self, state: State) -> None:
        super().load_state(state)
        self.kept = [
            Batch(*(state.constant[f"kept/{k}/{part}"].clone() for part in Batch._fields))
            for k in range(int(str(state.values["kept"])))
        ]


class Square(Wide):
    """A loss of its own scale: squares of the distance to 15 at the true class and to 0 at all others."""

    def fit(self, task: Task) -> float:
        scale = guessing_square(self.context.num_classes, TARGET)
        return fit(task, self.context, self.step(task), guessing=scale)

    def loss(self, task: Task, batch: Batch) -> Tensor:
        logits = self.head.logits(self.context.features(self.model, batch.x))
        return F.mse_loss(logits, TARGET * F.one_hot(batch.y, self.context.num_classes).float())


ENTRIES = {
    "mean-token": MethodEntry("mean-token", LinearProbeConfig, Capabilities(), MeanToken),
    "prefix": MethodEntry("prefix", LinearProbeConfig, Capabilities(), Prefix),
    "wide": MethodEntry("wide", LinearProbeConfig, Capabilities(), Wide),
    "rehearsal": MethodEntry("rehearsal", LinearProbeConfig, Capabilities(rehearsal=True), Rehearsal),
    "square": MethodEntry("square", LinearProbeConfig, Capabilities(), Square),
}
