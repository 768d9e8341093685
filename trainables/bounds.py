"""The two bounds between which a method is expected, by name; read without torch.

`probe` trains classifiers on the frozen backbone, `joint` the whole backbone on all tasks at once.
"""

from __future__ import annotations

LOWER_BOUND = "probe"
UPPER_BOUND = "joint"
BOUNDS = (LOWER_BOUND, UPPER_BOUND)
