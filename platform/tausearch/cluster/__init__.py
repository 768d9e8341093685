"""Ray: start or join it with its processes, plan resources, check the nodes.

Not here: trials on Ray Tune (`execution`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
