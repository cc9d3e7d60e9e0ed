"""Exits with 1 if the web server on this machine is not ready. The image's HEALTHCHECK runs this file, so it reads no
settings and imports nothing of the server."""

from __future__ import annotations

import os
import sys
from http.client import HTTPConnection, HTTPException

PORT = 8000
TIMEOUT_S = 12


def host(allowed: str) -> str:
    """Return a host name that the server accepts, from the value of PROVING_ALLOWED_HOSTS."""
    first = allowed.partition(",")[0].strip() or "localhost"
    return "localhost" if first == "*" else first.removeprefix(".")


def ask(port: int, name: str) -> tuple[int, str]:
    """Return status and text of the response of /readyz."""
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/readyz", headers={"Host": name})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()


if __name__ == "__main__":
    try:
        status, text = ask(PORT, host(os.environ.get("PROVING_ALLOWED_HOSTS", "")))
    except (OSError, HTTPException) as error:
        sys.exit(f"no answer: {error}")
    sys.exit(None if status == 200 else f"{status}: {text}")
