"""What a node says of itself before the first trial, asked of this one."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import pytest

from tausearch.cluster import node_probe
from tausearch.cluster.node_probe import probe_node


def test_a_node_that_has_all(tmp_path: Path) -> None:
    (tmp_path / "driver").write_text("driver")
    report = probe_node(str(tmp_path), "driver", "node", ["numpy", "no-such-package"], ["json"], [str(tmp_path)])
    assert report == {
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "no-such-package": "",
        "import": "",
        "storage": "",
        "missing": "",
    }
    assert (tmp_path / "node").read_text() == "node"


def test_what_a_node_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_probe, "SETTLE_SECONDS", 0.0)
    data = str(tmp_path / "data")
    needed = [str(tmp_path), data, str(tmp_path / "weights")]
    report = probe_node(str(tmp_path), "driver", "node", [], ["no_such_module", "neither"], needed)
    assert report["missing"] == data and report["storage"] == "No such file or directory"
    assert report["import"] == "no_such_module (ModuleNotFoundError: No module named 'no_such_module')"
    assert not (tmp_path / "node").exists()  # it would be taken for a node that sees the folder
    (tmp_path / "driver").write_text("another run's")
    assert probe_node(str(tmp_path), "driver", "node", [], [], [])["storage"] == "it holds something else there"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "driver").write_text("driver")
    (tmp_path / "node").mkdir()  # in the way of the file
    report = probe_node(str(tmp_path), "driver", "node", [], [], [])
    assert report["storage"] == "it cannot write there: Is a directory"
