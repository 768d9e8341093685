"""The contract of backbones of the user's code."""

from __future__ import annotations

import torch

from checked_input.fields import require_argument
from trainables.backbones import OwnBackbone


def check_backbone(backbone: OwnBackbone) -> None:
    """Check a backbone: its layers and features, that it is made alike each time, and sees each image by itself.

    Raises:
        AssertionError: If two builds have other weights, it draws from torch's global generator while it computes, or
            the features of an image depend on the images beside it.
        InputError: If it is none, or its layers or features are not as `OwnBackbone` says.
    """
    require_argument(isinstance(backbone, OwnBackbone), "backbone", "an OwnBackbone", backbone)
    backbone.shape("under test")
    first, second = (backbone.network("under test").eval() for _ in range(2))
    other = {name: value for name, value in second.state_dict().items()}
    for name, value in first.state_dict().items():
        assert torch.equal(value, other[name]), f"build gives other weights each time, as in {name!r}"
    reads = backbone.input
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(3, reads.channels, reads.size, reads.size, generator=generator)
    state = torch.get_rng_state()
    with torch.no_grad():
        together, alone = first(images), torch.cat([first(image[None]) for image in images])
    assert torch.equal(torch.get_rng_state(), state), "draws from torch's global generator while it computes"
    torch.testing.assert_close(together, alone, rtol=1e-3, atol=1e-4, msg="the features of an image depend on others")
