"""Final runs beside the tables of the paper and beside each other, as text, tables and a figure.

Not here: reading or making runs (`runs`, `api`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
