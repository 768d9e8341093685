"""Search spaces: one YAML file per method, and the code that reads and checks the files.

The stub beside this file lists the public names. They are imported on first use, because pydantic takes a tenth of a
second.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
