"""The contract of backbones of the user's code."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from checked_input.fields import require_argument
from trainables.backbones import OwnBackbone
from trainables.backbones.initial_head import head_rows
from trainables.user_code import called, kind_of

_NAME = "under test"


def check_backbone(backbone: OwnBackbone, class_names: Sequence[str] | None = None) -> None:
    """Check a backbone: its layers and features, that it is made alike each time, and sees each image by itself.

    Args:
        backbone: The backbone.
        class_names: Classes for which its `initial_head` has embeddings; without them it is not asked.

    Raises:
        AssertionError: If two builds have other weights, or what is no tensor among them; if it draws from torch's
            global generator while it computes, or changes its input; if the features of some images are of another
            shape, not finite, or depend on the images beside them; or if `initial_head` gives other rows each time.
        InputError: If it is none, it raises, or its fields, layers, features or initial head are not as `OwnBackbone`
            says.
    """
    require_argument(isinstance(backbone, OwnBackbone), "backbone", "an OwnBackbone", backbone)
    backbone.require(_NAME)
    backbone.shape(_NAME)
    first, second = (backbone.network(_NAME).eval() for _ in range(2))
    one, other = first.state_dict(), second.state_dict()
    for name, value in one.items():
        assert isinstance(value, Tensor), f"its state_dict has {name!r}, which is no tensor but {kind_of(value)}"
    for name in {**one, **other}:
        same = name in one and name in other and torch.equal(one[name], other[name])
        assert same, f"build gives other weights each time, as in {name!r}"
    reads, width = backbone.input, int(first.num_features)  # type: ignore[arg-type]  # as `network` has checked
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(3, reads.channels, reads.size, reads.size, generator=generator)
    state = torch.get_rng_state()
    together = _features(first, images, width)
    alone = torch.cat([_features(first, image[None], width) for image in images])
    assert torch.equal(torch.get_rng_state(), state), "draws from torch's global generator while it computes"
    torch.testing.assert_close(together, alone, rtol=1e-3, atol=1e-4, msg="the features of an image depend on others")
    if backbone.initial_head is not None and class_names is not None:
        given = [backbone.embeddings(_NAME, class_names) for _ in range(2)]
        rows, again = (head_rows(f"backbone {_NAME!r}: initial_head", each, width, None) for each in given)
        assert torch.equal(rows, again), "initial_head gives other embeddings each time"


def _features(network: nn.Module, images: Tensor, width: int) -> Tensor:
    before = images.clone()
    with torch.no_grad():
        found = called(f"backbone {_NAME!r}", lambda: network(images))
    assert torch.equal(images, before), "changes the images that it is given"
    got = tuple(found.shape) if isinstance(found, Tensor) else kind_of(found)
    wanted = (len(images), width)
    assert got == wanted, f"gives features {got} of {len(images)} images, not {wanted}"
    assert found.isfinite().all(), "features are not finite"
    return found
