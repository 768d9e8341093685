"""Previewing: what a run will do and what it will take, said before it starts anything.

What others may import stands in the stub beside this file. A name is loaded when it is first used, so that whoever
asks for it pays for its imports and for no others.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
