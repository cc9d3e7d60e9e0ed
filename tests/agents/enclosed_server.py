"""Remote servers in a network namespace whose firewall accepts connections to port 5432 only."""

from __future__ import annotations

import grp
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .remote_servers import Served
from .theirs import OWNER

# Of this process, because others on this machine may run the same tests.
NETWORK = f"10.{200 + os.getpid() // 250 % 50}.{os.getpid() % 250}"
FIRST, SECOND, CLIENT = f"{NETWORK}.2", f"{NETWORK}.3", f"{NETWORK}.1"
PORT = 5432
_RULES = f"""
table inet only {{
  chain input {{ type filter hook input priority 0; policy drop;
    iif lo accept
    ip saddr {{ {FIRST}, {SECOND} }} accept
    tcp dport {PORT} accept
  }}
  chain output {{ type filter hook output priority 0; policy drop;
    oif lo accept
    ip daddr {{ {FIRST}, {SECOND} }} accept
    tcp sport {PORT} accept
  }}
}}
"""


class Namespace:
    """A network namespace with the addresses FIRST and SECOND, joined to this machine by a pair of veth. It exists as
    long as its process, because the mount of a named one would be seen by tests that compare the machine."""

    def __init__(self) -> None:
        self._outer, self._inner = f"veth{os.getpid()}", f"inner{os.getpid()}"

    def create(self) -> None:
        holder = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"]
        self._holder = subprocess.Popen(holder)
        while self._network() == os.readlink("/proc/self/ns/net"):
            time.sleep(0.01)
        pid = str(self._holder.pid)
        _run("ip", "link", "add", self._outer, "type", "veth", "peer", "name", self._inner, "netns", pid)
        _run("ip", "address", "add", f"{CLIENT}/24", "dev", self._outer)
        _run("ip", "link", "set", self._outer, "up")
        for address in (FIRST, SECOND):
            _run(*self.enter, "ip", "address", "add", f"{address}/24", "dev", self._inner)
        for device in ("lo", self._inner):
            _run(*self.enter, "ip", "link", "set", device, "up")
        subprocess.run([*self.enter, "nft", "-f", "-"], input=_RULES, text=True, check=True, timeout=30)

    def _network(self) -> str:
        return os.readlink(f"/proc/{self._holder.pid}/ns/net")

    @property
    def enter(self) -> list[str]:
        """The prefix of a command that runs inside."""
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net"]

    def remove(self) -> None:
        _run("ip", "link", "del", self._outer)
        self._holder.kill()
        self._holder.wait()


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, timeout=30)


class Enclosed(Served):
    """A remote server in a namespace. The test also reaches it by its Unix socket, which is a file."""

    namespace: Namespace
    address = FIRST

    def enclose(self, namespace: Namespace, address: str) -> Enclosed:
        """Have it listen on this address, and accept the others of the namespace's network."""
        self.namespace, self.address, self.port = namespace, address, PORT
        self.configure(f"listen_addresses = '{address}'", f"port = {PORT}", f"unix_socket_directories = '{self.root}'")
        path = self.data / "pg_hba.conf"
        rules = f"host replication all {NETWORK}.0/24 trust\nhost all all {NETWORK}.0/24 scram-sha-256\n"
        path.write_text(f"local all all peer\nlocal replication all peer\n{rules}")
        return self

    def start(self, *options: str, prefix: tuple[str, ...] = ()) -> Enclosed:
        group = grp.getgrgid(Path(self.data).stat().st_gid).gr_name
        become = ["setpriv", "--reuid", OWNER, "--regid", group, "--clear-groups"]
        control = [f"{self.bin_dir}/pg_ctl", "start", "-w", "-D", str(self.data), "-l", str(self.root / "log")]
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
        with (self.root / "out").open("w") as out:
            argv = [*self.namespace.enter, *become, *control]
            subprocess.run(argv, check=True, env=env, cwd="/", stdout=out, stderr=out, timeout=60)
        return self

    def connection(self, user: str = "", *addresses: str, database: str = "postgres") -> dict[str, Any]:
        return super().connection(user, *(addresses or (self.address,)), database=database)

    def standby(self, address: str) -> Enclosed:
        """A running standby at this address."""
        root = self.root.parent / "standby"
        root.mkdir(mode=0o755)
        subprocess.run(["chown", OWNER, root], check=True)
        self.sql("create role copier replication login")
        standby = Enclosed(root, port=PORT)
        standby._as_owner("pg_basebackup", "-h", self.root, "-p", PORT, "-U", OWNER, "-D", standby.data)
        standby.configure(f"primary_conninfo = 'host={self.address} port={PORT} user=copier'")
        (standby.data / "standby.signal").touch()
        return standby.enclose(self.namespace, address).start()


@contextmanager
def enclosed(template: Served, root: Path) -> Iterator[Enclosed]:
    """A running copy of the template in a new namespace."""
    namespace = Namespace()
    namespace.create()
    try:
        twin = template.copy(root / "enclosed")
        server = Enclosed(twin.root, twin.bin_dir, PORT).enclose(namespace, FIRST).start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        namespace.remove()
