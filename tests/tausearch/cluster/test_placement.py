"""What trials ask Ray for."""

from __future__ import annotations

from tausearch.cluster import placement_of


def test_trials_with_equal_resources_share_one_object_which_tune_keeps() -> None:
    whole, *halves = ({"cpus_per_trial": 2, "gpus_per_trial": gpus, "trial": gpus} for gpus in (1.0, 0.5, 0.5))
    assert placement_of(halves[0]) is placement_of(halves[1])
    assert placement_of(whole).required_resources == {"CPU": 2, "GPU": 1}
    assert placement_of(halves[0]).required_resources == {"CPU": 2, "GPU": 0.5}
