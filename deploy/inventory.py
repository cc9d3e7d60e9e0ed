"""docker run -i --entrypoint python IMAGE -I - < inventory.py: print what is installed in an image as JSON.

Needs only the standard library of the image's Python, and dpkg-query for the packages of its operating system."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import shutil
import subprocess
from pathlib import Path

CLIENTS = Path("/opt/postgresql")
FORMAT = "${Package}\t${Version}\t${Architecture}\t${db:Status-Status}\n"


def system_packages() -> list[dict[str, str]]:
    """Return name, version and architecture of each installed package of Debian; [] without dpkg-query."""
    if shutil.which("dpkg-query") is None:
        return []
    shown = subprocess.run(
        ["dpkg-query", "--show", f"--showformat={FORMAT}"], capture_output=True, text=True, check=True
    )
    rows = [line.split("\t") for line in shown.stdout.splitlines()]
    return [{"name": row[0], "version": row[1], "arch": row[2]} for row in rows if row[3] == "installed"]


def clients() -> list[dict[str, str]]:
    """Return path, sha256 and package of each file of the client programs (deploy/collect-clients)."""
    found = []
    for line in (CLIENTS / "components.tsv").read_text().splitlines():
        path, *package = line.split("\t")
        file = {"path": path, "sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest()}
        found.append(file | dict(zip(("name", "version", "arch"), filter(None, package), strict=False)))
    return found


def distribution(file: Path) -> str:
    """Return a distribution and its version, such as debian-13."""
    fields = dict(line.split("=", 1) for line in file.read_text().splitlines() if "=" in line)
    names = [fields.get(name, "").strip('"') for name in ("ID", "VERSION_ID")]
    return "-".join(filter(None, names))


def inventory() -> dict[str, object]:
    installed = importlib.metadata.distributions()
    return {
        "python": platform.python_version(),
        "python_packages": sorted([each.metadata["Name"], each.version] for each in installed),
        "distribution": distribution(Path("/etc/os-release")),
        "system_packages": system_packages(),
        "clients_distribution": distribution(CLIENTS / "os-release"),
        "clients": clients(),
    }


if __name__ == "__main__":
    print(json.dumps(inventory()))
