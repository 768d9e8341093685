"""Run directories: specification, record, trials, results, status, re-evaluations.

Not here: anything that starts a trial (`execution`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
