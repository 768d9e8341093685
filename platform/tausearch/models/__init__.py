"""What final runs have learned: compose task vectors, evaluate, export, load, predict.

Not here: task vectors and networks themselves (`trainables.composition`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
