"""python3 embedded/sbom.py: list the components of server, image and agent as CycloneDX 1.6 in var/sbom.

Uses only the standard library and the lock files of installations: name, version and hashes of each package. make
release also has the image, so its list of the image is of what is installed there; see deploy/inventory.py."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = re.compile(r"^(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[^ \\;]+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
# Dockerfile: ARG PYTHON_IMAGE=python:3.13-slim
BASE = re.compile(r"^ARG \w+_IMAGE=(\S+)", re.M)
# python:3.13-slim, registry.example.org:5000/python:3.13-slim@sha256:...
REFERENCE = re.compile(r"(?P<name>[^@]+?)(?::(?P<tag>[^/:@]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?")
Component = dict[str, Any]


def packages(lock: str, checkout: Path = CHECKOUT) -> Iterator[Component]:
    """Yield the components in a lock file."""
    component: Component | None = None
    for line in (checkout / "requirements" / f"{lock}.txt").read_text().splitlines():
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


def base_images(checkout: Path = CHECKOUT) -> list[Component]:
    """Return the base images of the Dockerfile."""
    return [image(reference) for reference in BASE.findall((checkout / "Dockerfile").read_text())]


def image(reference: str) -> Component:
    """Return the component of an image with a tag, a digest, or both."""
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise ValueError(f"{reference!r} is not the name of an image")
    name, tag, digest = match["name"], match["tag"], match["digest"]
    purl = f"pkg:docker/{name}@{quote(digest or tag or 'latest', safe=':')}" + (f"?tag={tag}" if tag and digest else "")
    return {"type": "container", "bom-ref": purl, "name": name, "version": digest or tag or "latest", "purl": purl}


def installed(inventory: dict[str, Any], checkout: Path = CHECKOUT) -> list[Component]:
    """Return what deploy/inventory.py found in the image: Python, its packages with the hashes of the lock, packages of
    the operating system, and the packages of PostgreSQL's client programs."""
    locked = {component["purl"]: component for component in packages("runtime", checkout)}
    found = [_named(_normal(name), version, "pypi/") for name, version in inventory["python_packages"]]
    found = [locked.get(component["purl"], component) for component in found]
    found.append(_named("python", inventory["python"], "generic/"))
    found += [_debian(package, inventory["distribution"]) for package in inventory["system_packages"]]
    by_ref = {component["bom-ref"]: component for component in found}
    for file in inventory["clients"]:
        component = _debian(file, inventory["clients_distribution"]) if "name" in file else _file(file)
        component = by_ref.setdefault(component["bom-ref"], component)
        component.setdefault("evidence", {"occurrences": []})["occurrences"].append({"location": file["path"]})
    return list(by_ref.values())


def _named(name: str, version: str, kind: str, qualifiers: str = "") -> Component:
    purl = f"pkg:{kind}{quote(name, safe='')}@{quote(version, safe='')}{qualifiers}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _debian(package: dict[str, str], distribution: str) -> Component:
    vendor = distribution.partition("-")[0]
    qualifiers = f"?arch={package['arch']}&distro={distribution}"
    return _named(package["name"], package["version"], f"deb/{vendor}/", qualifiers)


def _file(file: dict[str, str]) -> Component:
    hashes = [{"alg": "SHA-256", "content": file["sha256"]}]
    return {"type": "file", "bom-ref": file["path"], "name": Path(file["path"]).name, "hashes": hashes}


def agent_digest(checkout: Path = CHECKOUT) -> str:
    """Return the SHA-256 of the names and contents of the agent's files."""
    sums = hashlib.sha256()
    for file in sorted((checkout / "agents").rglob("*.py")):
        sums.update(f"{file.relative_to(checkout)}\0".encode() + file.read_bytes() + b"\0")
    return sums.hexdigest()


def document(name: str, version: str, components: list[Component], **about: Any) -> dict[str, Any]:
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


def documents(
    checkout: Path = CHECKOUT, inventory: dict[str, Any] | None = None, bases: list[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the content of each file by name. `inventory` is of the image, and `bases` are the images that it was
    built from; without them, the image is what Dockerfile and lock name."""
    version, runtime = _version(checkout), list(packages("runtime", checkout))
    base_components = base_images(checkout) if bases is None else [image(reference) for reference in bases]
    in_image = runtime if inventory is None else installed(inventory, checkout)
    digest = [{"alg": "SHA-256", "content": agent_digest(checkout)}]
    return {
        "server.cdx.json": document("proving-ground", version, runtime),
        "image.cdx.json": document("proving-ground-image", version, [*base_components, *in_image]),
        "agent.cdx.json": document("proving-ground-agent", version, [], hashes=digest),
    }


def _version(checkout: Path) -> str:
    match = re.search(r'^version = "([^"]+)"', (checkout / "pyproject.toml").read_text(), re.M)
    return match[1] if match else "0"


def write(folder: Path, contents: dict[str, dict[str, Any]]) -> None:
    """Write each document to a file of its name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n")


def main(folder: Path) -> None:
    """Write all files."""
    contents = documents()
    write(folder, contents)
    for name, content in contents.items():
        print(f"{folder / name}: {len(content['components'])} components")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else CHECKOUT / "var" / "sbom")
