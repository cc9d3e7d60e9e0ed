"""python3 embedded/sbom.py: list the components of server, image and agent as CycloneDX 1.6 in var/sbom.

Uses only the standard library and the lock files of installations: name, version and hashes of each package, and the
packages that require it."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = re.compile(r"^(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[^ \\;]+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
# Dockerfile: ARG PYTHON_IMAGE=python:3.13-slim, perhaps with a digest.
BASE = re.compile(r"^ARG \w+_IMAGE=(?P<name>[^:@\s]+)(?::(?P<tag>[^\s@]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?", re.M)


def packages(lock: str) -> Iterator[dict[str, Any]]:
    """Yield the components in a lock file."""
    component: dict[str, Any] | None = None
    for line in (CHECKOUT / "requirements" / f"{lock}.txt").read_text().splitlines():
        if package := PACKAGE.match(line):
            if component:
                yield component
            purl = f"pkg:pypi/{package['name']}@{package['version']}"
            component = {"type": "library", "bom-ref": purl, "name": package["name"], "version": package["version"]}
            component |= {"purl": purl, "hashes": []}
        elif component and (digest := HASH.search(line)):
            component["hashes"].append({"alg": "SHA-256", "content": digest[1]})
    if component:
        yield component


def base_images() -> list[dict[str, Any]]:
    """Return the base images of the Dockerfile."""
    return [_image(base) for base in BASE.finditer((CHECKOUT / "Dockerfile").read_text())]


def _image(base: re.Match[str]) -> dict[str, Any]:
    version = base["digest"] or base["tag"]
    purl = f"pkg:docker/{base['name']}@{version}"
    return {"type": "container", "bom-ref": purl, "name": base["name"], "version": version, "purl": purl}


def agent_digest() -> str:
    """Return the SHA-256 of the names and contents of the agent's files."""
    sums = hashlib.sha256()
    for file in sorted((CHECKOUT / "agents").rglob("*.py")):
        sums.update(f"{file.relative_to(CHECKOUT)}\0".encode() + file.read_bytes() + b"\0")
    return sums.hexdigest()


def document(name: str, version: str, components: list[dict[str, Any]], **about: Any) -> dict[str, Any]:
    """Return a list of components. The same content has the same serial number; it contains no time."""
    subject = {"type": "application", "bom-ref": name, "name": name, "version": version, **about}
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([subject, components], sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": subject},
        "components": components,
        "dependencies": [{"ref": name, "dependsOn": sorted(component["bom-ref"] for component in components)}],
    }


def documents() -> dict[str, dict[str, Any]]:
    """Return the content of each file by name."""
    version = _version()
    runtime = list(packages("runtime"))
    image = [*base_images(), *runtime]
    digest = [{"alg": "SHA-256", "content": agent_digest()}]
    return {
        "server.cdx.json": document("proving-ground", version, runtime),
        "image.cdx.json": document("proving-ground-image", version, image),
        "agent.cdx.json": document("proving-ground-agent", version, [], hashes=digest),
    }


def _version() -> str:
    match = re.search(r'^version = "([^"]+)"', (CHECKOUT / "pyproject.toml").read_text(), re.M)
    return match[1] if match else "0"


def main(folder: Path) -> None:
    """Write all files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in documents().items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n")
        print(f"{folder / name}: {len(content['components'])} components")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else CHECKOUT / "var" / "sbom")
