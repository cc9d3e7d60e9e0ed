"""HTTP requests of channels: they go to the address that was checked, and follow no redirect."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from urllib.parse import SplitResult, urlsplit

from apps.infrastructure import addresses
from common.errors import HostError, PlanError

LIMIT_S = 10.0  # from the connection to the head of the answer


def resolve_url(url: str) -> SplitResult:
    """The parts of a URL that requests may be sent to, its name resolved and allowed. PlanError or HostError."""
    parts = _parts(url)
    addresses.resolve(str(parts.hostname))
    return parts


def _parts(url: str) -> SplitResult:
    hint = "use a URL such as https://chat.example.org/hooks/proving"
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1) > 0
    except ValueError as error:
        raise PlanError("address", f"{url!r} is not a URL: {error}", hint=hint) from error
    if not known or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        raise PlanError("address", f"{url!r} is not an http or https URL", hint=hint)
    if parts.username or parts.password:
        hint = "put a token into the path if the receiver needs one"
        raise PlanError("address", "a URL with a user name or a password is not accepted", hint=hint)
    return parts


class _Pinned(http.client.HTTPConnection):
    """Connects to an address, and speaks to the name: TLS is verified against the name."""

    def __init__(self, parts: SplitResult, address: str) -> None:
        self._tls, self._address, self.late = parts.scheme == "https", address, False
        if self._tls:
            self.default_port = http.client.HTTPS_PORT
        super().__init__(str(parts.hostname), parts.port, timeout=LIMIT_S)

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), timeout=LIMIT_S)
        if self._tls:
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)

    def cut(self) -> None:
        """A receiver that answers byte by byte never runs into the time limit of one read."""
        self.late = True
        if self.sock is not None:
            with contextlib.suppress(OSError):  # it has ended by itself
                self.sock.shutdown(socket.SHUT_RDWR)


def post(url: str, body: bytes, headers: dict[str, str]) -> int:
    """The status of the response to a POST; see `send`."""
    return send("POST", url, body, headers)


def send(method: str, url: str, body: bytes, headers: dict[str, str]) -> int:
    """The status of the response. PlanError if no request may be sent there, HostError if there is no response."""
    parts = _parts(url)
    connection = _Pinned(parts, addresses.resolve(str(parts.hostname)))
    limit = threading.Timer(LIMIT_S, connection.cut)
    limit.start()
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body, headers)
        status = connection.getresponse().status
        if connection.late:  # a head that was cut off reads like one that had ended
            raise TimeoutError("the answer did not end")
        return status
    except (OSError, http.client.HTTPException) as error:
        late = f" within {LIMIT_S:g} s" if connection.late else ""
        raise HostError(parts.hostname, f"no answer{late}: {error}") from error
    finally:
        limit.cancel()
        connection.close()
