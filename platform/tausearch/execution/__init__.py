"""Run trials on Ray Tune: driver, dispatcher, checkpoints, signals, record and tracker of a run.

Not here: which hyperparameters come next (`studies`), and starting Ray (`cluster`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
