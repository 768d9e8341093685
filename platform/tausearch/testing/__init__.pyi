from .backbones import check_backbone as check_backbone
from .benchmark_sources import check_benchmark as check_benchmark
from .benchmarks import small_digits as small_digits
from .callbacks import check_callback as check_callback
from .curvatures import check_curvature as check_curvature, check_estimate as check_estimate
from .methods import check_method as check_method
from .pruners import check_pruner as check_pruner
from .rules import check_rule as check_rule
from .samplers import check_sampler as check_sampler
