"""Search spaces of a run, searchers, pruners, the Optuna study, warm starts, best files, replay.

Not here: the YAML of a space (`search_spaces`), and running trials (`execution`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
