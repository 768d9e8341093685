"""What is published: the package's metadata, the image, and the files that both are made from."""

from __future__ import annotations

import re
import tomllib
from email import message_from_string
from pathlib import Path

import pytest

from tests.support.imports import ROOT

PACKAGING = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = PACKAGING["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
FILES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "constraints.txt")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_that_it_is_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


def test_the_changelog_begins_with_what_is_not_released_and_then_this_version() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert headings[:2] == ["Unreleased", PACKAGING["project"]["version"]]


def test_the_build_of_an_image_gets_what_the_package_is_made_from_and_nothing_else() -> None:
    everything, *rules = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()[1:]
    sent = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    roots = {package.split("/")[0] for package in PACKAGES}
    assert everything == "*" and sent == {*roots, *FILES}
    assert all((ROOT / name).exists() for name in sent)


def test_an_image_has_the_python_of_the_tests_and_runs_as_nobody_special() -> None:
    bases = re.findall(r"^FROM python:([\d.]+)-", DOCKERFILE, re.M)
    workflow = (ROOT / ".github/workflows/gate.yml").read_text(encoding="utf-8")
    assert set(bases) == set(re.findall(r'python-version: "([\d.]+)"', workflow)) and len(bases) == 2
    user, after = DOCKERFILE.rpartition("\nUSER ")[2].split("\n", 1)
    assert user not in ("root", "0") and "RUN" not in after


def test_an_image_has_the_dashboard_by_which_kuberay_submits_a_job() -> None:
    extra, pins = PACKAGING["project"]["optional-dependencies"]["kubernetes"], (ROOT / "constraints.txt").read_text()
    assert "'/source[kubernetes]'" in DOCKERFILE and extra == ["ray[default]~=2.60.0"]
    assert "\naiohttp-cors==" in pins and "\nopencensus==" in pins  # Ray starts no dashboard without them


def test_the_workflow_runs_the_gate() -> None:
    assert "- run: .ci/run\n" in (ROOT / ".github/workflows/gate.yml").read_text(encoding="utf-8")


def test_the_page_of_the_package_has_no_link_or_picture_that_an_index_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = pytest.importorskip("hatchling.build", reason="needs hatchling (`make setup`)")
    monkeypatch.chdir(ROOT)
    folder = tmp_path / backend.prepare_metadata_for_build_wheel(str(tmp_path))
    about = message_from_string((folder / "METADATA").read_text(encoding="utf-8"))
    page = about.get_payload()
    assert isinstance(page, str) and about["Description-Content-Type"] == "text/markdown"
    assert (
        page.startswith("# tausearch\n\ntausearch searches for") and "|---|" in page and "](https://arxiv.org" in page
    )
    assert not re.findall(r"\]\((?!https?:)", page) and "![" not in page and "docs/" not in page
