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


INVENTORY = {
    "python": "3.13.9",
    "python_packages": [["Django", "5.2.19"], ["not_in_the.lock", "1.0"]],
    "distribution": "debian-13",
    "system_packages": [
        {"name": "libc6", "version": "2.41-12", "arch": "amd64"},
        {"name": "libstdc++6", "version": "1:14.2+b1", "arch": "amd64"},
    ],
    "clients_distribution": "debian-13",
    "clients": [
        {"path": "/opt/lib/libc.so.6", "sha256": "a" * 64, "name": "libc6", "version": "2.41-12", "arch": "amd64"},
        {"path": "/opt/lib/libm.so.6", "sha256": "b" * 64, "name": "libc6", "version": "2.41-12", "arch": "amd64"},
        {"path": "/opt/lib/libpq.so.5", "sha256": "c" * 64, "name": "libpq5", "version": "18.1-1", "arch": "amd64"},
        {"path": "/opt/lib/libown.so", "sha256": "d" * 64},
    ],
}


def test_what_is_installed_in_an_image_is_listed_once_with_its_files() -> None:
    components = {component["bom-ref"]: component for component in sbom.installed(INVENTORY)}
    libc = components["pkg:deb/debian/libc6@2.41-12?arch=amd64&distro=debian-13"]

    assert list(components) == [
        "pkg:pypi/django@5.2.19",
        "pkg:pypi/not-in-the-lock@1.0",
        "pkg:generic/python@3.13.9",
        "pkg:deb/debian/libc6@2.41-12?arch=amd64&distro=debian-13",
        "pkg:deb/debian/libstdc%2B%2B6@1%3A14.2%2Bb1?arch=amd64&distro=debian-13",
        "pkg:deb/debian/libpq5@18.1-1?arch=amd64&distro=debian-13",
        "/opt/lib/libown.so",
    ]
    assert {each["name"] for each in components.values()} >= {"libc6", "libstdc++6", "libpq5", "libown.so"}
    assert components["pkg:pypi/django@5.2.19"]["hashes"]
    assert [each["location"] for each in libc["evidence"]["occurrences"]] == [
        "/opt/lib/libc.so.6",
        "/opt/lib/libm.so.6",
    ]
    assert components["/opt/lib/libown.so"]["hashes"] == [{"alg": "SHA-256", "content": "d" * 64}]


@pytest.mark.parametrize(
    ("reference", "purl"),
    [
        ("python:3.13-slim", "pkg:docker/python@3.13-slim"),
        ("python", "pkg:docker/python@latest"),
        (f"postgres:18@sha256:{'e' * 64}", f"pkg:docker/postgres@sha256:{'e' * 64}?tag=18"),
        ("a.example.org:5000/redis:8", "pkg:docker/a.example.org:5000/redis@8"),
    ],
)
def test_an_image_is_named_by_its_digest_if_that_is_known(reference: str, purl: str) -> None:
    assert sbom.image(reference)["purl"] == purl


def test_each_is_cyclonedx_with_references_that_resolve_and_without_the_time(made: dict[str, Any]) -> None:
    for content in made.values():
        refs = [component["bom-ref"] for component in content["components"]]
        assert (content["bomFormat"], content["specVersion"]) == ("CycloneDX", "1.6")
        assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", content["serialNumber"])
        assert len(set(refs)) == len(refs)
        assert content["dependencies"][0]["dependsOn"] == sorted(refs)
    assert sbom.documents() == sbom.documents()
