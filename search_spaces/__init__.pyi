from .reading import (
    METHODS_WITH_SPACE as METHODS_WITH_SPACE,
    far_off as far_off,
    for_own_images as for_own_images,
    load_space as load_space,
    paper_benchmarks as paper_benchmarks,
    paper_points as paper_points,
    read_space_file as read_space_file,
)
from .schema import (
    Choices as Choices,
    Dimension as Dimension,
    Range as Range,
    ResolvedSpace as ResolvedSpace,
    SpaceFile as SpaceFile,
)
from .values import Scalar as Scalar, is_number as is_number, parse_assignments as parse_assignments
