"""Contract tests that anybody can run against their own code; an error is an AssertionError that says what is broken.

Not here: tests of the tool itself (`tests`), which use the same checks.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
