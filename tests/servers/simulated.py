"""Many hosts on this machine: one SSH server, and for each host a spool and a machine id of its own.

Each login gets a mount namespace in which the host's own file lies over /etc/machine-id; the agent that runs there is
the real one, and knows of nothing. Needs root, unshare and OpenSSH's server.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.accounts.models import User
from apps.hosts import contact, services
from apps.hosts.access import ssh
from apps.hosts.models import Facts, Host, HostKey, Identity
from embedded.servers.postgres import bin_dir
from tests.servers import remote

LOGIN = r"""#!/bin/sh
set -eu
home=$(printf '%s\n' "$SSH_ORIGINAL_COMMAND" | sed -n 's|.* --spool \(.*\)/spool$|\1|p')
exec unshare --mount sh -c 'mount --bind "$1/machine-id" /etc/machine-id && eval "exec $2"' \
    - "$home" "$SSH_ORIGINAL_COMMAND"
"""


@dataclass(frozen=True)
class Fleet:
    """Where the hosts' files are, and the server that leads to all of them."""

    root: Path
    server: remote.Server

    def home(self, number: int) -> Path:
        return self.root / f"h{number:03d}"


@contextmanager
def fleet(state: Path) -> Iterator[Fleet]:
    """The SSH server, whose every login leads to the host that its command names."""
    login = state / "login"
    login.write_text(LOGIN)
    login.chmod(0o755)
    lines = ("MaxStartups 2000", f"ForceCommand {login}", "UseDNS no", "LogLevel ERROR")
    with remote.openssh(state, *lines) as server:
        yield Fleet(state / "hosts", server)


def register(fleet: Fleet, count: int, by: User) -> list[Host]:
    """So many hosts, approved and known as if each had been checked: the agent is there, the facts are the first's."""
    identity = services.create_identity("fleet", by=by)
    fleet.server.authorize(identity.public_key)
    hosts = [_host(fleet, number, identity, by) for number in range(count)]
    contact.check_host(hosts[0])
    hosts[0].refresh_from_db()
    if hosts[0].state != Host.State.READY:
        raise SystemExit(f"{hosts[0]} is {hosts[0].state}: {hosts[0].state_reason}")
    for host in hosts[1:]:
        _copy(hosts[0], host, fleet)
    return hosts


def _host(fleet: Fleet, number: int, identity: Identity, by: User) -> Host:
    home = fleet.home(number)
    (home / "spool" / "jobs").mkdir(parents=True)
    (home / "spool" / "agent").mkdir()
    (home / "spool" / "reserve.bin").touch()  # 64 MiB each are too much for one disk
    (home / "machine-id").write_text(uuid.uuid4().hex)
    digest, data = ssh.agent_zipapp()
    (home / "spool" / "agent" / f"{digest}.pyz").write_bytes(data)
    fields = {"user": fleet.server.user, "identity": identity, "python": sys.executable}
    fields |= {"spool_dir": str(home / "spool"), "data_dir": str(home / "clusters"), "pg_bin_dirs": [str(bin_dir())]}
    return add(f"h{number:03d}", fleet.server.port, fleet.server.host_key, by, **fields)


def add(name: str, port: int, host_key: str, by: User, **fields: Any) -> Host:
    """Add a host on this machine whose host key is approved without a connection."""
    host = services.add_host(by=by, name=name, address="127.0.0.1", port=port, **fields)
    fingerprint = services.keys.fingerprint(host_key)
    HostKey.objects.create(host=host, key=host_key, fingerprint=fingerprint)
    services.approve_host_key(host, fingerprint, by=by)
    return host


def _copy(first: Host, host: Host, fleet: Fleet) -> None:
    """What a check would have found."""
    copy_check(first, host, (Path(host.spool_dir).parent / "machine-id").read_text())
    os.link(Path(first.spool_dir, "versions.json"), Path(host.spool_dir, "versions.json"))


def copy_check(first: Host, host: Host, machine_id: str) -> None:
    """Store what a check of the host would have found, which is on the same machine as the first one."""
    known = first.facts_history.get()
    Facts.objects.create(host=host, number=1, digest=known.digest, data={**known.data, "machine_id": machine_id})
    state = {name: getattr(first, name) for name in ("level", "supervisor", "units", "agent_digest", "last_contact_at")}
    Host.objects.filter(pk=host.pk).update(machine_id=machine_id, state=Host.State.READY, **state)
    HostKey.objects.filter(host=host).update(machine_id=machine_id)
    host.refresh_from_db()
