"""MLflow: runs, metrics, tags, registered models, written from the record.

Not here: the record itself (`runs`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
