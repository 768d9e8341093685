"""The small embedded ViT: 32x32 grey images in 16 patches, 4 blocks of width 64, about 0.2 M parameters.

`pretrain_glyph_vit` made its weights from drawings of 338 characters, without digits and without the classes of
`glyphs`. It is a plain timm `VisionTransformer`, as the large ones are.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainables.backbones.inputs import InputSpec, Shape

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer

INPUT = InputSpec(channels=1, size=32, mean=(0.5,), std=(0.5,))
SHAPE = Shape(width=64, depth=4, parameters=205_376)
ARCHITECTURE = {"img_size": 32, "patch_size": 8, "in_chans": 1, "embed_dim": 64, "depth": 4, "num_heads": 4}
CONFIG = {  # in timm's terms, for `timm.data.resolve_model_data_config` and other code that reads a model of timm
    "architecture": "glyph_vit",
    "input_size": (INPUT.channels, INPUT.size, INPUT.size),
    "fixed_input_size": True,
    "mean": INPUT.mean,
    "std": INPUT.std,
    "interpolation": "bicubic",
    "crop_pct": 0.875,
    "crop_mode": "center",
    "pool_size": None,
    "first_conv": "patch_embed.proj",
    "classifier": "head",
}
WEIGHTS = Path(__file__).parent / "weights" / "glyph_vit.safetensors"


def build(num_classes: int = 0) -> VisionTransformer:
    """Build the ViT with fresh weights; without classes it returns the CLS feature `(b, 64)` after the final norm."""
    from timm.models.vision_transformer import VisionTransformer  # takes two seconds to import

    model = VisionTransformer(**ARCHITECTURE, num_classes=num_classes)
    model.pretrained_cfg = model.default_cfg = {**CONFIG, "num_classes": num_classes}
    return model
