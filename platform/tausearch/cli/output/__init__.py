"""What each command prints: tables for a terminal, plain values for programs.

Not here: parsing (`cli`), and general terminal helpers (`presentation`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
