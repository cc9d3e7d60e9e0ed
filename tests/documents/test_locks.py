"""The locks in requirements/ are those of pyproject.toml, with a hash for everything, and name no registry."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS = {"runtime": PROJECT["project"]["dependencies"], **PROJECT["dependency-groups"]}
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^ ;\\]+)", re.MULTILINE)


def lock(name: str) -> str:
    return (ROOT / "requirements" / f"{name}.txt").read_text()


@pytest.mark.parametrize("group", GROUPS)
def test_a_lock_has_each_requirement_of_its_group_in_a_matching_version(group: str) -> None:
    pinned = {canonicalize_name(name): version for name, version in PINNED.findall(lock(group))}

    for requirement in map(Requirement, GROUPS[group]):
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)], prereleases=True), (
            requirement
        )


@pytest.mark.parametrize("group", [*GROUPS, "uv"])
def test_every_package_has_a_hash_and_no_registry_is_named(group: str) -> None:
    packages = re.split(r"\n(?=[A-Za-z0-9])", lock(group))
    pinned = [package for package in packages if PINNED.match(package)]

    assert pinned and all("--hash=sha256:" in each for each in pinned)
    assert "://" not in lock(group)
