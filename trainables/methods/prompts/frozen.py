"""The pre-trained ViT of the prompt methods: its tokens accessible, its weights frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trainables.data import Batch, Task
from trainables.errors import InputError
from trainables.methods.contract import Context, Scenario

if TYPE_CHECKING:
    from trainables.backbones.token_vit import TokenViT

CLASS_TOKEN = slice(0, 1)


def load_frozen(context: Context) -> TokenViT:
    """Return the backbone with all its tokens, without gradients for its weights."""
    from trainables.backbones.token_vit import TokenViT  # imports timm, which takes two seconds

    return TokenViT(context.backbone.load(context.device, tokens="all").requires_grad_(False))


def require_open(method: str, scenario: Scenario) -> None:
    """Refuse a backbone that cannot be opened at its tokens, by an InputError with the reason."""
    closed = scenario.backbone.shape.closed
    if closed is not None:
        raise InputError(
            f"{method}: backbone {scenario.backbone.name!r} cannot be opened at its tokens: {closed};"
            " allowed: a timm VisionTransformer with a class token and plain attention"
        )


def class_position(vit: TokenViT) -> Tensor:
    """Return the position that the ViT adds to its class token, `(d,)`; zeros where it adds none."""
    positions = vit.vit.pos_embed
    if positions is None or vit.vit.no_embed_class:
        return torch.zeros(vit.vit.num_features, device=vit.vit.patch_embed.proj.weight.device)
    return positions[0, 0]


def embedded_class_token(vit: TokenViT) -> Tensor:
    """Return the first block's class token, `(d,)`; the same for all images."""
    assert vit.vit.cls_token is not None
    return vit.vit.norm_pre(vit.vit.cls_token[0, 0] + class_position(vit))


class Queries:
    """q(x), the class token's feature of the frozen ViT, `(b, d)`, by which prompts are chosen or weighted.

    q(x) does not change with training. Without augmentation, the queries of all training images are computed once per
    task and looked up afterwards.
    """

    def __init__(self, context: Context, vit: TokenViT) -> None:
        self.context = context
        self.vit = vit
        self.known: Tensor | None = None  # (n, d), of the task's training images

    def begin(self, task: Task) -> None:
        """Compute the queries of a task's images, if every epoch has the same pixels."""
        self.known = None
        if task.train.transform == task.unaugmented.transform:
            batches = task.unaugmented.batches(self.context.batch_size, None, shuffle=False, device=self.context.device)
            self.known = torch.cat([self.compute(batch.x) for batch in batches])

    def of(self, batch: Batch) -> Tensor:
        """Return the queries of a batch of the current task."""
        if self.known is None:
            return self.compute(batch.x)
        return self.known[batch.rows.to(self.known.device)]

    def compute(self, images: Tensor) -> Tensor:
        """Return the queries of images: `(b, c, h, w)` to `(b, d)`."""
        return self.context.features(lambda x: self.vit(x, read=CLASS_TOKEN)[:, 0], images)
