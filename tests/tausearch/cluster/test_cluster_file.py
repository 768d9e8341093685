"""`ray_cluster.yaml` passes Ray's own validation, and so do the changes to it that docs/how-to/cloud.md shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

ROOT = Path(__file__).parents[3]
BASE: dict[str, Any] = yaml.safe_load((ROOT / "ray_cluster.yaml").read_text())
TEXT = "\n".join((ROOT / "docs" / "how-to" / page).read_text() for page in ("cloud.md", "kubernetes.md"))
BLOCKS = [yaml.safe_load(b) for b in re.findall(r"```yaml\n(.*?)```", TEXT, re.S)]
CLOUDS = {block["provider"]["type"]: block for block in BLOCKS if "provider" in block}


def test_the_launcher_file_is_valid_as_it_stands() -> None:
    config = prepare_config(BASE)
    validate_config(config)
    (nodes,) = config["available_node_types"].values()
    assert nodes["min_workers"] == nodes["max_workers"] == len(BASE["provider"]["worker_ips"]) > 0
    assert any("make setup" in command for command in BASE["setup_commands"])


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_the_documented_changes_for_a_cloud_are_valid(cloud: str) -> None:
    config = prepare_config({**BASE, **CLOUDS[cloud]})
    validate_config(config)
    assert config["provider"]["type"] == cloud and config["setup_commands"] == BASE["setup_commands"]


def test_validation_would_notice() -> None:
    with pytest.raises(Exception, match="head_nodes"):
        validate_config(prepare_config({**BASE, **CLOUDS["aws"], "head_nodes": {}}))


def test_the_documented_ray_job_names_our_version_of_ray() -> None:
    (job,) = (block for block in BLOCKS if block.get("kind") == "RayJob")
    assert f"ray=={job['spec']['rayClusterSpec']['rayVersion']}" in (ROOT / "constraints.txt").read_text().splitlines()
