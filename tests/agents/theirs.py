"""An existing cluster of another account, with its own configuration, started by pg_ctl."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.session.needs import POSTGRESQL_15

OWNER = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
GUEST = "proving-load"
DEBIANS = str(POSTGRESQL_15)


def where_all_can_enter(bin_dir: str, directory: Path) -> str:
    """A copy of an installation in `directory`, for accounts that cannot enter a checkout in root's home."""
    package = Path(bin_dir).parents[1]
    for source in package.parent.glob(f"{package.name}*"):  # with its libraries
        shutil.copytree(source, directory / source.name)
    return str(directory / Path(bin_dir).relative_to(package.parent))


class Theirs:
    """`root` holds data/, conf.d/, log and the socket; all of it belongs to OWNER."""

    def __init__(self, root: Path, bin_dir: str = DEBIANS, port: int = 5499) -> None:
        self.root, self.bin_dir, self.port = root, bin_dir, port
        self.data, self.conf_d = root / "data", root / "data/conf.d"
        self.include = self.conf_d / "zz_proving_ground.conf"

    def create(self) -> Theirs:
        self.root.mkdir(parents=True)
        self.root.chmod(0o755)
        shutil.chown(self.root, OWNER)
        self._as_owner("initdb", "-D", self.data, "-U", OWNER, "--auth=peer", "--no-sync", "--locale=C.UTF-8")
        self.conf_d.mkdir()
        shutil.chown(self.conf_d, OWNER)
        self.let_in("local proving_ground proving-load scram-sha-256")
        return self.configure(
            f"port = {self.port}",
            "listen_addresses = ''",
            f"unix_socket_directories = '{self.root}'",
            "shared_buffers = 16MB",
            "max_connections = 20",
            "fsync = off",
            "include_dir 'conf.d'",
        )

    def configure(self, *lines: str, file: str = "postgresql.conf") -> Theirs:
        path = self.data / file
        path.write_text((path.read_text() if path.exists() else "") + "".join(f"{line}\n" for line in lines))
        shutil.chown(path, OWNER)
        return self

    def let_in(self, line: str) -> None:
        """The first line of pg_hba.conf, after its comment; "" for none."""
        path = self.data / "pg_hba.conf"
        rules = [each for each in path.read_text().splitlines() if each[:1] not in ("", "#") and GUEST not in each]
        path.write_text("\n".join([line, *rules]) + "\n")
        shutil.chown(path, OWNER)

    def copy(self, root: Path) -> Theirs:
        """The same cluster elsewhere, stopped."""
        subprocess.run(["cp", "-a", self.root, root], check=True)
        twin = Theirs(root, self.bin_dir, self.port)
        return twin.configure(f"unix_socket_directories = '{root}'")

    def start(self, *options: str, prefix: tuple[str, ...] = ()) -> Theirs:
        log = self.root / "log"
        self._as_owner("pg_ctl", "start", "-w", "-D", self.data, "-l", log, "-o", " ".join(options), prefix=prefix)
        return self

    def stop(self) -> None:
        if self.postmaster():
            self._as_owner("pg_ctl", "stop", "-w", "-m", "fast", "-D", self.data)

    def crash(self) -> None:
        """End all of it as a power cut does."""
        working = str(self.data)
        while pids := [int(name) for name in os.listdir("/proc") if name.isdigit() and _cwd(name) == working]:
            for pid in pids:
                with suppress(ProcessLookupError):  # a backend may end by itself
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def postmaster(self) -> int:
        path = self.data / "postmaster.pid"
        return int(path.read_text().splitlines()[0]) if path.exists() else 0

    def sql(self, query: str, database: str = "postgres") -> str:
        where = ["-h", self.root, "-p", self.port, "-d", database]
        return self._as_owner("psql", "-XAtq", *where, "-c", query).strip()

    def fill(self, database: str) -> None:
        """The tables of pgbench, in a new database."""
        self.sql(f"create database {database}")
        self._as_owner("pgbench", "-i", "-q", "-h", self.root, "-p", self.port, database)

    def dump(self, *options: str, name: str, database: str) -> Path:
        """A dump that all accounts can read; by default -Fc."""
        path = self.root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        where = ["-h", self.root, "-p", self.port, "-d", database]
        self._as_owner("pg_dump", *(options or ("-Fc",)), *where, "-f", path)
        (path.chmod(0o755), [each.chmod(0o644) for each in path.iterdir()]) if path.is_dir() else path.chmod(0o644)
        return path

    def client(self) -> subprocess.Popen[bytes]:
        """A client that is connected until it is killed."""
        argv = [f"{self.bin_dir}/psql", "-X", "-h", str(self.root), "-p", str(self.port), "-d", "postgres"]
        env = {**_ENV, "PGAPPNAME": "their shop"}
        shop = subprocess.Popen(
            [*argv, "-c", "select pg_sleep(600)"], env=env, stdout=subprocess.DEVNULL, **_identity()
        )
        while not int(self.sql("select count(*) from pg_stat_activity where application_name = 'their shop'")):
            assert shop.poll() is None
        return shop

    def _as_owner(self, tool: str, *args: Any, prefix: tuple[str, ...] = ()) -> str:
        argv = [*prefix, f"{self.bin_dir}/{tool}", *map(str, args)]
        # To a file: a server that inherits a pipe would keep it open.
        with (self.root / "out").open("w+") as out:
            subprocess.run(argv, check=True, env=_ENV, cwd="/", stdout=out, stderr=out, timeout=60, **_identity())
            out.seek(0)
            return out.read()

    def target(self, *, measure: bool = True, restart: bool = False, disturb_clients: bool = False) -> dict[str, Any]:
        return {
            "kind": "existing",
            "bin_dir": self.bin_dir,
            "data_dir": str(self.data),
            "config_file": str(self.data / "postgresql.conf"),
            "port": self.port,
            "os_user": OWNER,
            "unit": "",
            "include": str(self.include),
            "consent": {"measure": measure, "restart": restart, "disturb_clients": disturb_clients},
        }

    def snapshot(self) -> dict[str, Any]:
        """All that has to be as before: files, and of a running server parameters, databases and what it was given."""
        files = [*self.data.glob("*.conf"), *self.conf_d.iterdir(), self.data / "postmaster.opts"]
        taken: dict[str, Any] = {str(path): (path.read_bytes(), path.stat().st_uid) for path in files if path.exists()}
        taken["directories"] = sorted(path.name for path in self.data.iterdir() if path.is_dir())
        taken["running"] = bool(self.postmaster())
        if self.postmaster():
            rows = "select name, setting, source, sourcefile, sourceline, pending_restart from pg_settings order by 1"
            taken["pg_settings"] = self.sql(f"select json_agg(s) from ({rows}) s").split("}")
            taken["databases"] = self.sql("select string_agg(datname, ' ' order by datname) from pg_database")
            taken["roles"] = self.sql("select json_agg(r order by rolname) from pg_roles r")
            status = Path(f"/proc/{self.postmaster()}/status").read_text()
            taken["process"] = re.findall(r"^(?:Cpus_allowed_list|Mems_allowed_list|Uid|Gid|Groups):.*$", status, re.M)
            environment = Path(f"/proc/{self.postmaster()}/environ").read_text().split("\0")
            taken["environment"] = sorted(each for each in environment if not each.startswith("PG_GRANDPARENT_PID"))
        return taken


_ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


def _cwd(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def _identity() -> dict[str, Any]:
    if os.geteuid():
        return {}
    owner = pwd.getpwnam(OWNER)
    return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
