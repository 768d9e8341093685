"""What people look at: terminal output, progress displays, matplotlib figures.

Not here: the HTML page (`reports`) and the tables of each command (`cli.output`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
