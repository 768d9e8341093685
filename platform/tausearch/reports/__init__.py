"""Results for readers: final runs beside each other and beside the tables of the paper; the HTML page of runs.

Not here: reading or making runs (`runs`, `api`); matplotlib figures (`presentation`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
