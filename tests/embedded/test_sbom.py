"""Lists of components against the locks that packages are installed from."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from embedded import sbom


@pytest.fixture
def made(tmp_path: Path) -> dict[str, Any]:
    sbom.main(tmp_path)
    return {file.name.partition(".")[0]: json.loads(file.read_text()) for file in tmp_path.iterdir()}


def test_the_server_is_every_package_of_its_lock_with_hashes(made: dict[str, Any]) -> None:
    lock = (sbom.CHECKOUT / "requirements" / "runtime.txt").read_text()
    pinned = re.findall(r"^([a-z0-9._-]+)==([^ \\;]+)", lock, re.M)

    listed = made["server"]["components"]

    assert [(each["name"], each["version"]) for each in listed] == pinned
    assert sum(len(each["hashes"]) for each in listed) == lock.count("--hash=sha256:")
    assert all(each["hashes"] for each in listed)


def test_the_image_is_its_base_images_and_the_server(made: dict[str, Any]) -> None:
    names = {component["name"] for component in made["image"]["components"]}

    assert {"python", "postgres"} <= names
    assert {component["name"] for component in made["server"]["components"]} <= names


def test_the_agent_is_itself_alone(made: dict[str, Any]) -> None:
    assert made["agent"]["components"] == []
    assert made["agent"]["metadata"]["component"]["hashes"][0]["content"] == sbom.agent_digest()


def test_each_is_cyclonedx_with_references_that_resolve_and_without_the_time(made: dict[str, Any]) -> None:
    for content in made.values():
        refs = [component["bom-ref"] for component in content["components"]]
        assert (content["bomFormat"], content["specVersion"]) == ("CycloneDX", "1.6")
        assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", content["serialNumber"])
        assert len(set(refs)) == len(refs)
        assert content["dependencies"][0]["dependsOn"] == sorted(refs)
    assert sbom.documents() == sbom.documents()
