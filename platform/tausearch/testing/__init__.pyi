from .benchmarks import small_digits
from .methods import check_method

__all__ = ["check_method", "small_digits"]
