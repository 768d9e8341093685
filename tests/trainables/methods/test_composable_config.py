"""Which hyperparameters of ITA and IEL reach pre-consolidation, and which suit one's own images."""

from __future__ import annotations

import pytest

from trainables.backbones import EMBEDDED, Backbone
from trainables.data import get_source
from trainables.methods import get_method
from trainables.preconsolidation import PreconsolidationConfig


@pytest.mark.parametrize("method", ["ita-lora", "iel-fft"])
@pytest.mark.parametrize(("given", "passes"), [("all", None), (3, 3)])
def test_probing_and_fisher_are_as_they_are_asked_for(method: str, given: int | str, passes: int | None) -> None:
    name = "alpha" if method.startswith("ita") else "beta"
    strengths = {each: 1.0 for each in (name, f"{name}_cls", f"{name}_cls_prior")}
    asked = {"lr": 0.1, "lr_pre": 0.07, "epochs_pre": 5, "fisher_passes": given, **strengths}
    config = get_method(method).parse(asked)
    wanted = PreconsolidationConfig(lr_pre=0.07, epochs_pre=5, fisher_passes=passes)
    assert config.preconsolidation == wanted  # type: ignore[attr-defined]


def test_probing_of_own_images_is_the_papers_at_the_papers_width_and_takes_larger_steps_below_it() -> None:
    spec, vit = get_source("digits").spec, "vit_base_patch16_224.augreg_in21k"
    for name in ("ita-lora", "iel-fft"):
        entry = get_method(name)
        large, small = (entry.setting(spec, Backbone(backbone)) for backbone in (vit, EMBEDDED))
        assert entry.suited(large, 8) == {"lr_pre": 0.01, "epochs_pre": 38}  # of eight batches an epoch, 300 steps
        assert entry.suited(small, 8) == {"lr_pre": 0.12, "epochs_pre": 38}
        assert entry.suited(large, 1000)["epochs_pre"] == 3
    ewc = get_method("ewc")
    assert ewc.suited(ewc.setting(spec, Backbone()), 8) == {}
