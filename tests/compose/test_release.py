"""make release with a container engine: component lists of the real image, and digests from a registry."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy import base_images, release
from tests.compose.engine import Engine
from tests.compose.stack import Stack, free_port, wait

pytestmark = [pytest.mark.compose, pytest.mark.needs("root", "docker", "compose")]
VERSION = "9.8.7"
IMAGE = f"proving-ground:{VERSION}"
LABELS = {
    "PROVING_VERSION": VERSION,
    "PROVING_COMMIT": "feedfacecafe",
    "PROVING_CREATED": "2026-11-29T12:00:00+00:00",
    "PROVING_SOURCE": "https://git.example.org/proving-ground",
    "PROVING_LICENSES": "NOASSERTION",
}
CONFIGURATION = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""
START_S = 30.0


@pytest.fixture
def docker(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine, which `docker` of this process calls."""
    for name, value in engine.environment.items():
        monkeypatch.setenv(name, value)
    return engine


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """The address of an empty registry on this machine."""
    port = free_port()
    (tmp_path / "registry.yml").write_text(CONFIGURATION.format(folder=tmp_path / "registry", port=port))
    argv = ["docker-registry", "serve", str(tmp_path / "registry.yml")]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait(lambda: _answers(port), START_S)
            yield f"localhost:{port}"
        finally:
            server.terminate()


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=5).close()
    except OSError:
        return False
    return True


@pytest.fixture
def released(stack: Stack, docker: Engine, tmp_path: Path) -> Iterator[Path]:
    """The files of a release of the stack's checkout, from the layers of the stack's image."""
    secrets = [f"--secret=id={name},src={stack.variables.get(variable, '/dev/null')}" for name, variable in SECRETS]
    release.build_image(stack.folder, tmp_path, LABELS, [*secrets, *NO_INDEX])
    yield tmp_path
    docker.docker("rmi", IMAGE)


SECRETS = (("ca", "BUILD_CA"), ("pip", "BUILD_PIP_CONF"))
NO_INDEX = ("--build-arg=PIP_INDEX_URL=", "--build-arg=PIP_EXTRA_INDEX_URL=")


def test_a_release_lists_what_is_installed_in_its_image(released: Path, docker: Engine) -> None:
    content = json.loads((released / "image.cdx.json").read_text())
    components = content["components"]
    kinds = {re.match(r"(pkg:\w+)?", component["bom-ref"])[0] for component in components}  # type: ignore[index]
    clients = {
        occurrence["location"]: component["name"]
        for component in components
        for occurrence in component.get("evidence", {"occurrences": []})["occurrences"]
    }
    shown = docker.docker("run", "--rm", "--entrypoint=dpkg-query", IMAGE, "--show", "--showformat=${Package}\\n")
    files = docker.docker("run", "--rm", "--entrypoint=find", IMAGE, "/opt/postgresql/lib", "-type", "f").split()

    assert kinds == {"pkg:docker", "pkg:pypi", "pkg:generic", "pkg:deb"}
    assert set(shown.split()) <= {each["name"] for each in components}
    assert set(files) <= clients.keys()
    assert clients["/opt/postgresql/lib/libpq.so.5"] == "libpq5"
    assert content["dependencies"][0]["dependsOn"] == sorted({component["bom-ref"] for component in components})
    assert {file.name for file in released.iterdir()} >= {"server.cdx.json", "agent.cdx.json", "images.env"}


def test_an_image_has_the_labels_of_its_release(released: Path, docker: Engine) -> None:
    labels = json.loads(docker.docker("image", "inspect", "--format={{json .Config.Labels}}", IMAGE))

    assert {name: labels[f"org.opencontainers.image.{name}"] for name in ("created", "source", "licenses")} == {
        "created": LABELS["PROVING_CREATED"],
        "source": LABELS["PROVING_SOURCE"],
        "licenses": LABELS["PROVING_LICENSES"],
    }


@pytest.mark.needs("docker-registry")
def test_an_image_is_pinned_by_the_digest_of_its_registry_and_builds_by_it(docker: Engine, registry: str) -> None:
    reference = f"{registry}/python:3.13-slim"
    docker.docker("tag", "python:3.13-slim", reference)
    try:
        docker.docker("push", "--quiet", reference)
        (name,) = json.loads(docker.docker("image", "inspect", "--format={{json .RepoDigests}}", reference))[-1:]

        pinned = base_images.pinned(reference)

        assert pinned == f"{reference}@{name.partition('@')[2]}"
        assert f"PYTHON_IMAGE={pinned}\n" in base_images.variables({"PYTHON_IMAGE": pinned})
        dockerfile = "ARG PYTHON_IMAGE\nFROM ${PYTHON_IMAGE}\n"
        docker.docker("build", "--quiet", f"--build-arg=PYTHON_IMAGE={pinned}", "-", stdin=dockerfile)
    finally:
        docker.docker("rmi", reference)


def test_an_image_without_a_registry_is_named_with_the_id_that_it_has_here(docker: Engine) -> None:
    reference = f"localhost:{free_port()}/python:3.13-slim"
    docker.docker("tag", "python:3.13-slim", reference)
    try:
        assert base_images.pinned(reference) == reference
        known = docker.docker("image", "inspect", "--format={{.Id}}", "python:3.13-slim").strip()
        assert f"the image on this machine has the ID {known}" in base_images.variables({"PYTHON_IMAGE": reference})
        assert base_images.summary({"PYTHON_IMAGE": reference}).startswith(f"No registry answered for {reference}")
    finally:
        docker.docker("rmi", reference)
