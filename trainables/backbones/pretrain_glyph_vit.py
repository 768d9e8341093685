"""Make the weights of the embedded ViT: classify drawings of 338 characters, drawn afresh for every batch.

Run `python -m trainables.backbones.pretrain_glyph_vit OUT.safetensors`. It takes about 20 minutes on two cores and no
data. The head is thrown away; only the backbone is saved.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from trainables.backbones.glyph_vit import build
from trainables.data.embedded.characters import PRETRAINING
from trainables.data.embedded.drawing import TRAIN_FACES, draw, render

STEPS = 12000
WARM_UP = 300
BATCH = 128
LEARNING_RATE = 1.5e-3
LABEL_SMOOTHING = 0.1
SEED = 0


def learning_rate(step: int, steps: int) -> float:
    """Return the factor of the learning rate at `step`: linear warm-up, then half a cosine down to zero."""
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / max(1, steps - WARM_UP)))


def pretrain(steps: int, out: Path) -> None:
    """Train for `steps` batches and write the backbone's weights to `out`."""
    torch.manual_seed(SEED)  # timm draws the initial weights from the global generator
    generator = torch.Generator().manual_seed(SEED)
    model = build(num_classes=len(PRETRAINING))
    rendered = render(PRETRAINING, TRAIN_FACES)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate(step, steps))
    start, correct = time.monotonic(), 0.0
    for step in range(1, steps + 1):
        labels = torch.randint(len(PRETRAINING), (BATCH,), generator=generator)
        images = draw(rendered, labels, generator).float().div_(127.5).sub_(1)
        logits = model(images)
        loss = F.cross_entropy(logits, labels, label_smoothing=LABEL_SMOOTHING)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        correct += (logits.argmax(1) == labels).float().mean().item()
        if step % 200 == 0:
            elapsed = time.monotonic() - start
            print(f"step {step}/{steps}  accuracy {correct / 2:.1f} %  {elapsed:.0f} s", flush=True)
            correct = 0.0
    weights = {name: value.contiguous() for name, value in model.state_dict().items() if not name.startswith("head.")}
    save_file(weights, out)


def main() -> None:
    """Read the command line and pre-train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="where to write the weights (safetensors)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"batches of {BATCH} drawings (default {STEPS})")
    arguments = parser.parse_args()
    pretrain(arguments.steps, arguments.out)


if __name__ == "__main__":
    main()
