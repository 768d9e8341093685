"""Default batch size and epochs for the user's own images, which may be few.

Training needs steps, not epochs. With the paper's batches of 128, a task of a hundred images has one step per epoch;
after so few steps the model keeps only the last task.
"""

from __future__ import annotations

from trainables.data.published import PAPER_BATCH

STEPS = 300  # fewest of a task; the paper's benchmarks have between 25 (MIT-67) and 780 (CIFAR-100)
EPOCHS = 5  # fewest for any number of images
_SMALLEST_BATCH, _BATCHES = 8, 8


def batch_size_of(images: int) -> int:
    """Return the largest power of two that divides a task's images into eight batches; between 8 and 128."""
    return min(PAPER_BATCH, max(_SMALLEST_BATCH, 1 << max(images // _BATCHES, 1).bit_length() - 1))


def steps_of(images: int, batch_size: int) -> int:
    """Return the number of batches in an epoch, at least 1."""
    return max(1, -(-images // batch_size))


def epochs_of(steps: int, least: int = EPOCHS) -> int:
    """Return the number of epochs for `STEPS` steps, from the steps per epoch; at least `least`."""
    return max(least, -(-STEPS // steps))
