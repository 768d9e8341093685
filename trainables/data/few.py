"""Batch size and epochs where nobody has said them: of one's own images, of which there may be few.

Learning goes in steps, not in epochs. With the paper's batches of 128 a task of a hundred images has one step an epoch,
and with so few steps only the last task would be kept.
"""

from __future__ import annotations

from trainables.data.published import PAPER_BATCH

STEPS = 300  # of a task, at least; the paper's benchmarks have between 25 (MIT-67) and 780 (CIFAR-100)
EPOCHS = 5  # however many images there are
_SMALLEST_BATCH, _BATCHES = 8, 8


def batch_size_of(images: int) -> int:
    """Return the largest power of two that cuts so many images of a task into eight batches; between 8 and 128."""
    return min(PAPER_BATCH, max(_SMALLEST_BATCH, 1 << max(images // _BATCHES, 1).bit_length() - 1))


def steps_of(images: int, batch_size: int) -> int:
    """Return the number of batches of an epoch over so many images; at least 1."""
    return max(1, -(-images // batch_size))


def epochs_of(steps: int, least: int = EPOCHS) -> int:
    """Return how many epochs make `STEPS` steps, at so many steps per epoch; at least `least`."""
    return max(least, -(-STEPS // steps))
