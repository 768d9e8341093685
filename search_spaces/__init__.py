"""What may be tried: one YAML file per method, and the code that reads and checks them.

What others import stands in the stub beside this file. A name is loaded when it is first used: pydantic, which the
schema needs, takes a tenth of a second.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
