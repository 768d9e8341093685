"""Turn the equations of pages into MathML when the site is built, which browsers show without a script.

GitHub shows the same blocks by itself.
"""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

_BLOCK = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace each block of a page."""
    return _BLOCK.sub(
        lambda block: f'<div class="equation">{convert(block[1].strip(), display="block")}</div>', markdown
    )
