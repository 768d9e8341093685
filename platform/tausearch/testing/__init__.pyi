from .backbones import check_backbone
from .benchmark_sources import check_benchmark
from .benchmarks import small_digits
from .callbacks import check_callback
from .curvatures import check_curvature, check_estimate
from .methods import check_method
from .pruners import check_pruner
from .rules import check_rule
from .samplers import check_sampler

__all__ = [
    "check_backbone",
    "check_benchmark",
    "check_callback",
    "check_curvature",
    "check_estimate",
    "check_method",
    "check_pruner",
    "check_rule",
    "check_sampler",
    "small_digits",
]
