"""The pre-trained ViT of the prompt methods: open at its tokens, none of its weights trained."""

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
    """Return the backbone open at its tokens, without gradients for its weights."""
    from trainables.backbones.token_vit import TokenViT  # imports timm, which takes two seconds

    return TokenViT(context.backbone.load(context.device, tokens="all").requires_grad_(False))


def require_open(method: str, scenario: Scenario) -> None:
    """Raise if the backbone cannot be opened at its tokens.

    Raises:
        InputError: If it cannot; says why.
    """
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
    """Return the class token as the first block is given it, the same for all images, `(d,)`."""
    assert vit.vit.cls_token is not None
    return vit.vit.norm_pre(vit.vit.cls_token[0, 0] + class_position(vit))


class Queries:
    """q(x), the class token's feature of the frozen ViT, `(b, d)`: what prompts are chosen or weighted by.

    It does not change with training. Where the benchmark does not augment, that of every training image is computed
    once per task and looked up afterwards.

    Args:
        context: The method's context.
        vit: The frozen ViT.
    """

    def __init__(self, context: Context, vit: TokenViT) -> None:
        self.context = context
        self.vit = vit
        self.known: Tensor | None = None  # (n, d), of the task's training images

    def begin(self, task: Task) -> None:
        """Compute the queries of a task's images, if every epoch will see the same pixels."""
        self.known = None
        if task.train.transform == task.unaugmented.transform:
            batches = task.unaugmented.batches(self.context.batch_size, None, shuffle=False, device=self.context.device)
            self.known = torch.cat([self.compute(batch.x) for batch in batches])

    def of(self, batch: Batch) -> Tensor:
        """Return the queries of a batch of the task begun last."""
        if self.known is None:
            return self.compute(batch.x)
        return self.known[batch.rows.to(self.known.device)]

    def compute(self, images: Tensor) -> Tensor:
        """Return the queries of images: `(b, c, h, w)` to `(b, d)`."""
        return self.context.features(lambda x: self.vit(x, read=CLASS_TOKEN)[:, 0], images)
