"""Several simulated hosts on this machine, each with an SSH server, a spool, clusters and a machine-id."""

from __future__ import annotations

from apps.accounts.models import User
from apps.hosts import contact, services
from apps.hosts.models import Host
from embedded.servers.postgres import bin_dir
from tests.servers import remote


def register(name: str, server: remote.Server, by: User) -> Host:
    """The machine behind a server, checked and ready."""
    host = add(name, server, by, python=str(server.home / "python"))
    contact.check_host(host)
    host.refresh_from_db()
    assert host.state == Host.State.READY, host.state_reason
    return host


def add(name: str, server: remote.Server, by: User, *, python: str, launcher: bool = False) -> Host:
    """The machine behind a server, its key approved, not yet checked."""
    identity = services.create_identity(f"key-{name}", by=by)
    server.authorize(identity.public_key)
    host = services.add_host(
        by=by,
        name=name,
        address="127.0.0.1",
        port=server.port,
        user=server.user,
        identity=identity,
        python=python,
        spool_dir=str(server.home / "spool"),
        data_dir=str(server.home / "clusters"),
        pg_bin_dirs=[str(bin_dir())],
        launcher=launcher,
    )
    services.approve_host_key(host, services.fetch_host_key(host, by=by).fingerprint, by=by)
    return host
