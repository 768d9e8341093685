"""Campaigns: the cells of one file, planned, driven together, and tabled.

Not here: a single search or final run (`api`), and the loop that runs trials (`execution`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
