"""One HTML page of runs and campaigns, with interactive plots.

Not here: matplotlib figures (`presentation`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
