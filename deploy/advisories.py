"""make advisories: look up the packages of all lock files at OSV, a public database of known vulnerabilities.

The exit status is 0 if none is known or the service cannot be reached, 1 if one is known, 2 if the check failed."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import requests

LOCKS = Path(__file__).resolve().parent.parent / "requirements"
OSV_URL = "https://api.osv.dev/v1/query"
PROBE = {"package": {"name": "django", "ecosystem": "PyPI"}, "version": "5.2.19"}
PROBE_S, AUDIT_S = 15, 1800


class AuditError(Exception):
    """pip-audit failed; the message is the end of its output."""


def unreachable(url: str) -> str:
    """Return why the service does not answer queries, or "" if it does."""
    try:
        response = requests.post(url, json=PROBE, timeout=PROBE_S)
        response.raise_for_status()
        response.json()
    except requests.RequestException as error:
        return str(error)
    return ""


def audit(url: str, options: list[str]) -> list[dict[str, Any]]:
    """Return what pip-audit prints for each package: name, version and `vulns`. AuditError if it fails."""
    locks = [f"--requirement={lock}" for lock in sorted(LOCKS.glob("*.txt"))]
    argv = [sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip", "--progress-spinner=off"]
    argv += ["--format=json", "--vulnerability-service=osv", f"--osv-url={url}", *locks, *options]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=AUDIT_S, check=False)
    try:
        return list(json.loads(done.stdout)["dependencies"])
    except ValueError:
        raise AuditError((done.stderr or done.stdout)[-2000:]) from None


def finding(package: dict[str, Any], vulnerability: dict[str, Any]) -> str:
    """Return one line: package, version, IDs, the version that fixes it, and the locks that contain the package."""
    ids = " ".join([vulnerability["id"], *vulnerability["aliases"]])
    fixed = " or ".join(vulnerability["fix_versions"]) or "no version yet"
    pin = re.compile(rf"^{re.escape(package['name'])}(\[[^]]*\])?=={re.escape(package['version'])}\s", re.MULTILINE)
    locks = [lock.name for lock in sorted(LOCKS.glob("*.txt")) if pin.search(lock.read_text())]
    return f"{package['name']} {package['version']}: {ids}; fixed in {fixed}; required by {', '.join(locks)}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make advisories", description=__doc__)
    parser.add_argument("--url", default=OSV_URL, help="address of the service, such as a mirror's")
    arguments, options = parser.parse_known_args()  # other arguments are passed to pip-audit
    packages: list[dict[str, Any]] = []
    try:
        reason = unreachable(arguments.url)
        packages = [] if reason else audit(arguments.url, options)
    except AuditError as error:
        if not (reason := unreachable(arguments.url)):
            print(f"the check failed:\n{error}", file=sys.stderr)
            return 2
    if reason:
        print(f"No package was checked: {arguments.url} cannot be reached ({reason}).")
        return 0
    findings = [finding(package, each) for package in packages for each in package.get("vulns", [])]
    print(*findings, sep="\n", end="\n" if findings else "")
    print(f"{len(packages)} packages of {LOCKS.name}/ were checked; known vulnerabilities: {len(findings)}.")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
