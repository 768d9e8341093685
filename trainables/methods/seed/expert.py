"""An expert: a ViT with a linear bottleneck, whose narrow features allow covariances to be estimated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.data import ImageSet
from trainables.heads import uniform_head
from trainables.methods.contract import Context

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer


class Expert(nn.Module):
    """A ViT, which is not copied, and a bottleneck of width S that starts as `uniform_head`."""

    def __init__(self, vit: VisionTransformer, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.vit = vit
        start = uniform_head(width, vit.num_features, generator)
        self.weight, self.bias = (nn.Parameter(part.to(vit.cls_token.device)) for part in start)

    def features(self, context: Context, images: Tensor) -> Tensor:
        """Return the features `(b, S)` of images `(b, c, h, w)`; the bottleneck never runs under autocast."""
        return F.linear(context.features(self.vit, images), self.weight, self.bias)


@torch.no_grad()
def class_features(
    experts: Sequence[Expert], context: Context, images: ImageSet, classes: range, *, flip: bool
) -> list[list[Tensor]]:
    """Return features `(n, S)` for each expert and class, in one pass over the images.

    With `flip` they are `(2 n, S)`: each image counts a second time, mirrored left to right. The images' transform must
    be deterministic.
    """
    found: list[list[Tensor]] = [[] for _ in experts]
    for batch in images.batches(context.batch_size, None, shuffle=False, device=context.device):
        for expert, parts in zip(experts, found, strict=True):
            parts.append(expert.features(context, batch.x))
            if flip:
                parts.append(expert.features(context, batch.x.flip(-1)))
    order = images.labels.split(context.batch_size)
    labels = torch.cat([part for part in order for _ in range(1 + flip)]).to(context.device)
    return [[torch.cat(parts)[labels == label] for label in classes] for parts in found]
