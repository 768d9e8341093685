"""Import what a trial needs before there is one.

The processes of a Ray that a driver starts import this module while Ray starts (`RAY_preload_python_modules`), and
those that check the nodes of a cluster.
"""

import atexit
import gc
from importlib import import_module

from tausearch.cluster.importing import uncollected

with uncollected():
    for name in ("trainables.trial", "trainables.backbones.loading"):  # torch and Ray Tune; timm
        import_module(name)
gc.freeze()  # no collection looks at what was imported, but for the last one, at the end of the process
atexit.register(gc.unfreeze)
