"""Run the campaigns of the study: one for each variant and benchmark, since a campaign has each method once.

All are searched alike: 12 trials, the three best and the start re-evaluated, three final seeds. The strength has the
range of its curvature's space file: with Kronecker factors most of the diagonal's range is unstable.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checked_input.yaml_text import yaml_of

SPACES = Path(__file__).parents[2] / "examples" / "spaces"
COMPARED = ("ita-fft", "ita-lora", "iel-fft", "iel-lora")
BENCHMARKS = ("digits", "letters", "glyphs")
SEARCH = {"trials": 12, "reevaluate": 3}
TRAIN = {"seeds": [0, 1, 2]}
MEASURED = Path(__file__).with_name("measured")


@dataclass(frozen=True)
class Variant:
    """What is compared: methods with a setting, and space files by the beginning of a method's name."""

    name: str
    methods: tuple[str, ...]
    settings: dict[str, Any]
    spaces: dict[str, Path]


def variants(generic: Path) -> tuple[Variant, ...]:
    """Return all variants; `generic` is the file with TAK's generic references."""
    kronecker = {family: SPACES / f"kronecker-{family}.yaml" for family in ("ita", "iel")}
    return (
        Variant("diagonal", COMPARED, {}, {}),
        Variant("kronecker", COMPARED, {}, kronecker),
        Variant("none", COMPARED, {"regularise": "none"}, {}),
        Variant("tak-past", ("tak",), {}, {}),
        Variant("tak-generic", ("tak",), {"references": "generic", "factors": str(generic)}, {}),
    )


def campaign_name(variant: Variant, benchmark: str) -> str:
    """Return the name of the campaign of a variant on a benchmark."""
    return f"{variant.name}-{benchmark}"


def measured_file(benchmark: str, variant: str, method: str, folder: Path = MEASURED) -> Path:
    """Return the file of what was measured of a cell; it stands for the cell's runs, which may be gone."""
    return folder / f"{benchmark}-{variant}-{method}.json"


def left(variant: Variant, benchmark: str) -> Variant:
    """Return a variant without the methods that were measured on a benchmark."""
    methods = (each for each in variant.methods if not measured_file(benchmark, variant.name, each).exists())
    return replace(variant, methods=tuple(methods))


def run_all(storage: Path, benchmarks: Sequence[str] = BENCHMARKS) -> None:
    """Run or continue every campaign, without the cells that were measured.

    A campaign that does not finish ends the program with its exit code.
    """
    generic = storage.resolve() / "generic.safetensors"
    storage.mkdir(parents=True, exist_ok=True)
    if not generic.exists():
        _run("trainables.methods.tak.make_generic", str(generic))
    for benchmark in benchmarks:
        for variant in (left(each, benchmark) for each in variants(generic)):
            if variant.methods:
                file = storage / f"{campaign_name(variant, benchmark)}.yaml"
                file.write_text(yaml_of(_campaign(variant, benchmark)), encoding="utf-8")
                _run("tausearch", "campaign", "run", str(file), "--storage", str(storage), "--tracking", "none")


def _campaign(variant: Variant, benchmark: str) -> dict[str, Any]:
    return {
        "campaign": campaign_name(variant, benchmark),
        "benchmarks": [benchmark],
        "methods": list(variant.methods),
        "search": {**SEARCH, **({"set": variant.settings} if variant.settings else {})},
        "train": TRAIN,
        "cells": list(_spaces(variant)),
    }


def _spaces(variant: Variant) -> Iterator[dict[str, Any]]:
    for family, file in variant.spaces.items():
        for method in variant.methods:
            if method.startswith(family):
                yield {"method": method, "search": {"space": str(file)}}


def _run(*command: str) -> None:
    ended = subprocess.run([sys.executable, "-m", *command], check=False)
    if ended.returncode:
        raise SystemExit(ended.returncode)
