"""The optional services of docker-compose.yml: the proxy with TLS and the scheduled backup."""

from __future__ import annotations

import http.client
import os
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.compose.stack import Stack, free_port, wait

pytestmark = [pytest.mark.compose, pytest.mark.needs("root", "docker", "compose")]
NGINX_UID = 101
START_S = 120.0


@pytest.fixture
def certificate(stack: Stack) -> Path:
    """A certificate for 127.0.0.1 in the directory that the proxy reads."""
    folder = stack.folder / "tls"
    folder.mkdir()
    chain, key = folder / "fullchain.pem", folder / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    make += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(chain), "-keyout", str(key)]
    subprocess.run(make, check=True, capture_output=True, timeout=60)
    os.chown(key, NGINX_UID, NGINX_UID)
    return chain


@pytest.mark.needs("openssl")
def test_the_proxy_serves_https_and_redirects_http(stack: Stack, certificate: Path) -> None:
    http_port, https_port = free_port(), free_port()
    stack.set_variables(HTTP_PORT=str(http_port), HTTPS_PORT=str(https_port))
    stack.compose("--profile", "tls", "up", "-d", "--no-build", "--wait", "proxy")
    trust = ssl.create_default_context(cafile=certificate)

    plain = http.client.HTTPConnection("127.0.0.1", http_port, timeout=30)
    plain.request("GET", "/login/")
    encrypted = http.client.HTTPSConnection("127.0.0.1", https_port, timeout=30, context=trust)
    encrypted.request("GET", "/readyz", headers={"Host": "127.0.0.1"})

    redirect, answer = plain.getresponse(), encrypted.getresponse()
    assert (redirect.status, redirect.headers["Location"]) == (301, "https://127.0.0.1/login/")
    assert (answer.status, answer.headers["Strict-Transport-Security"]) == (200, "max-age=31536000")


def test_the_scheduled_backup_writes_a_file_and_is_healthy(stack: Stack) -> None:
    stack.compose("--profile", "backup", "up", "-d", "--no-build", "backup")

    wait(lambda: stack.container("backup")["State"]["Health"]["Status"] == "healthy", START_S)

    files = stack.compose("exec", "-T", "backup", "ls", "-l", "/srv/backups").splitlines()
    assert [line for line in files if line.startswith("-rw-------") and line.endswith(".tar")]
