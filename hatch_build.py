"""Makes the page of the package on an index from README.md, whose pictures and linked pages are not there."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"!\[[^]]*\]\((?!https?:)[^)]*\)\n\n\*[^*]+\*\n\n")  # with the caption below it
_LINK = re.compile(r"\[([^]]+)\]\((?!https?:)[^)]*\)")


class PageOfThePackage(MetadataHookInterface):
    """Adds the README without local pictures; of local links only the text stays."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the field `readme`."""
        text = _PICTURE.sub("", (Path(self.root) / "README.md").read_text(encoding="utf-8"))
        metadata["readme"] = {"content-type": "text/markdown", "text": _LINK.sub(r"\1", text)}
