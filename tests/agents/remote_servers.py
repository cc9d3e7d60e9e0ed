"""A remote server: a run reaches it only over TCP, the test also by a Unix socket."""

from __future__ import annotations

import ipaddress
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.servers.remote import short_dir

from .theirs import DEBIANS, OWNER, Theirs


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind((ADDRESS, 0))
        return int(taken.getsockname()[1])


SUPER, PLAIN = "boss", "loader"
# Characters that a .pgpass file escapes.
SECRET = {SUPER: r"s3cr\et:of-boss", PLAIN: "s3cret-of-loader"}
ADDRESS, SECOND = "127.0.0.9", "127.0.0.10"
BENCH = "bench"  # a database that runs may use


class Served(Theirs):
    """A server on ADDRESS with two roles: a superuser, and one that can only create databases."""

    def create(self) -> Served:
        super().create()
        path = self.data / "pg_hba.conf"
        path.write_text(
            "local all all peer\nhost all all 127.0.0.0/8 scram-sha-256\nhost replication all 127.0.0.0/8 trust\n"
        )
        self.configure(f"listen_addresses = '{ADDRESS}'", "wal_level = replica", "max_wal_senders = 4")
        self.start()
        self.sql(f"create role {SUPER} superuser login password '{SECRET[SUPER].replace(chr(39), '')}'")
        self.sql(f"create role {PLAIN} createdb login password '{SECRET[PLAIN]}'")
        self.sql("alter system set checkpoint_timeout = '7min'")
        self.stop()
        return self

    def copy(self, root: Path) -> Served:
        twin = super().copy(root)
        return Served(twin.root, twin.bin_dir, twin.port)

    def require_certificates(self, name: str = ADDRESS) -> dict[str, str]:
        """Require a certificate instead of a password from PLAIN; its access. `name`: in the server's certificate."""
        authority = _Certified("authority")
        server, client = _Certified(name, authority), _Certified(PLAIN, authority)
        for file, text in (("server.crt", server.text), ("server.key", server.key_text), ("ca.crt", authority.text)):
            path = self.data / file
            path.write_text(text)
            path.chmod(0o600)
            shutil.chown(path, OWNER)
        self.configure(
            "ssl = on", "ssl_cert_file = 'server.crt'", "ssl_key_file = 'server.key'", "ssl_ca_file = 'ca.crt'"
        )
        rules = self.data / "pg_hba.conf"
        rules.write_text(f"hostssl all {PLAIN} 127.0.0.0/8 cert\n{rules.read_text()}")
        self.sql("select pg_reload_conf()")
        return {"password": "", "ca": authority.text, "certificate": client.text, "key": client.key_text}

    def connection(self, user: str = SUPER, *addresses: str, database: str = "postgres") -> dict[str, Any]:
        return {
            "addresses": list(addresses) or [ADDRESS],
            "port": self.port,
            "database": database,
            "user": user,
            "sslmode": "prefer",
        }

    def remote(self, data_dir: Path, user: str = SUPER, *addresses: str) -> dict[str, Any]:
        """The target of a run."""
        where = {"bin_dir": DEBIANS, "data_dir": str(data_dir), "os_user": "", "name": "shop"}
        return {"kind": "remote_server", **where, **self.connection(user, *addresses)}

    def in_database(self, data_dir: Path, user: str = PLAIN, *addresses: str) -> dict[str, Any]:
        """The target of a run that uses a schema in BENCH."""
        return {**self.remote(data_dir, user, *addresses), "database": BENCH, "use_database": True}

    def allow_database(self) -> None:
        """Create BENCH, in which PLAIN may create schemas."""
        self.sql(f"create database {BENCH}")
        self.sql(f"grant create on database {BENCH} to {PLAIN}; alter database {BENCH} set work_mem = '5MB'")
        self.sql("create schema empty; create extension pg_prewarm; comment on schema empty is 'theirs'", BENCH)

    def contents(self, database: str) -> str:
        """All definitions in the database."""
        dumped = self._as_owner("pg_dump", "-h", self.root, "-p", self.port, "--create", database)
        return re.sub(r"(?m)^.(un)?restrict .*$", "", dumped)

    @contextmanager
    def session(self, user: str, database: str) -> Iterator[None]:
        """A connected session of this role."""
        argv = [f"{self.bin_dir}/psql", "-X", "-A", "-t", "-f", "-"]
        where = {"PGHOST": ADDRESS, "PGPORT": str(self.port), "PGUSER": user, "PGDATABASE": database}
        env = {"PATH": "/usr/bin:/bin", "PGPASSWORD": SECRET[user], **where}
        with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as psql:
            assert psql.stdin and psql.stdout
            print("select 1;", file=psql.stdin, flush=True)
            psql.stdout.readline()
            yield
            psql.stdin.close()


class _Certified:
    """A key and its certificate, signed by `by` or by itself."""

    def __init__(self, name: str, by: _Certified | None = None) -> None:
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        built = x509.CertificateBuilder(
            issuer_name=(by or self).name,
            subject_name=self.name,
            public_key=self.key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(days=1),
            not_valid_after=now + timedelta(days=1),
        ).add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
        if name == ADDRESS:
            address = x509.IPAddress(ipaddress.ip_address(name))
            built = built.add_extension(x509.SubjectAlternativeName([address]), critical=False)
        self.text = built.sign((by or self).key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()

    @property
    def key_text(self) -> str:
        plain = serialization.NoEncryption()
        form = serialization.PrivateFormat.PKCS8
        return self.key.private_bytes(serialization.Encoding.PEM, form, plain).decode()


def access(user: str = SUPER) -> dict[str, str]:
    return {"password": SECRET[user], "ca": "", "certificate": "", "key": ""}


@contextmanager
def created() -> Iterator[Served]:
    """A new server, stopped."""
    with short_dir() as room:
        yield Served(room / "template", port=free_port()).create()


@contextmanager
def running(template: Served) -> Iterator[Served]:
    with short_dir() as room:
        server = template.copy(room / "s").start()
        try:
            yield server
        finally:
            server.stop()
