"""The images of others that a release is built from or runs with: their digests, if a registry answers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

VARIABLE = re.compile(r"\$\{((?!PROVING)\w+_IMAGE):-([^}]+)\}")
BUILD = ("PYTHON_IMAGE", "POSTGRES_IMAGE")
DIGEST = re.compile(r"^Digest: +(sha256:[0-9a-f]{64})$", re.MULTILINE)
REGISTRY_S = 60
HEADER = """\
# Images of this release: built from PYTHON_IMAGE and POSTGRES_IMAGE; PostgreSQL, Redis and nginx run in the others.
# Append these lines to .env to use exactly these.
"""


def names(checkout: Path, docker_options: Iterable[str] = ()) -> dict[str, str]:
    """Return the image of each variable: as docker-compose.yml names it, or --build-arg of `docker_options`."""
    found = dict(VARIABLE.findall((checkout / "docker-compose.yml").read_text()))
    return found | dict(re.findall(r"--build-arg[= ](\w+_IMAGE)=(\S+)", " ".join(docker_options)))


def pinned(reference: str) -> str:
    """Return NAME:TAG@DIGEST as the registry has it now; `reference` if it has a digest or no registry answers."""
    if "@" in reference:
        return reference
    # Some versions ignore --format={{.Manifest.Digest}}.
    found = DIGEST.search(_printed("docker", "buildx", "imagetools", "inspect", reference))
    return f"{reference}@{found[1]}" if found else reference


def variables(images: dict[str, str]) -> str:
    """Return lines for .env. An image without a digest is a comment with the ID that it has on this machine."""
    return HEADER + "".join(_line(name, image) for name, image in sorted(images.items()))


def _line(name: str, image: str) -> str:
    if "@" in image:
        return f"{name}={image}\n"
    known = _printed("docker", "image", "inspect", "--format={{.Id}}", image)
    where = f"the image on this machine has the ID {known}" if known else "this machine does not have the image"
    return f"# {name}={image} has no digest, because no registry answered; {where}.\n"


def summary(images: dict[str, str]) -> str:
    """Return one sentence about the digests."""
    missing = sorted(image for image in images.values() if "@" not in image)
    if not missing:
        return "images.env has the digests of all base images."
    return f"No registry answered for {', '.join(missing)}, so images.env has no digest of them."


def _printed(*argv: str) -> str:
    """Return what a command prints; "" if it fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=REGISTRY_S, check=False)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
