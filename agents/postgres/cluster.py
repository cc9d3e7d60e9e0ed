"""The private PostgreSQL cluster of a run, created once per version and initdb options, with a separate Unix socket.

<data_dir>/<key>/ pgdata/ socket/ datasets.json
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence

from ..errors import HostFailure, Unplannable
from ..host import owned
from ..host.system import System
from ..records import shelf
from ..records.processes import Account, Child, as_uid, ordinary_uid, working_in
from ..settings import Plan
from ..settings.base import conf_line
from ..wire import protocol
from . import load_role
from .instance import Target, show_version

INITDB = {
    "--username": "postgres",
    "--auth": "trust",
    "--encoding": "UTF8",
    "--locale": "C.UTF-8",
    "--data-checksums": "",
}
# The first version whose initdb has an option, for those that not all of them have.
SINCE = {"--locale-provider": 15, "--icu-locale": 15, "--builtin-locale": 17}
INCLUDE = "proving_ground.conf"
SOCKET_NAME = ".s.PGSQL.65535"
MAX_SOCKET = 107  # sun_path, with its closing zero
READY_S, READY_POLL_S = 120.0, 0.003
# Parameters that trade what survives a crash of the host for speed.
_CARELESS = re.compile(
    r"^(?:fsync|full_page_writes) *= *'?(?:off|of|false|fals|fal|fa|f|no|n|0)\b", re.MULTILINE | re.IGNORECASE
)

ACCOUNTS = ("proving-load", "postgres")
APART = 2_000_000_000  # no distribution, container or directory service assigns it
USERADD = "--system --shell /usr/sbin/nologin proving-load"
HINT = f"useradd {USERADD}, and allow it to read bin_dir and the data directory"

Execute = Callable[..., None]
Spawn = Callable[..., Child]


def choose_account(system: System, os_user: str, bin_dir: str, data_dir: str) -> Account:
    """Choose the account that runs PostgreSQL, which refuses root: the named account, or the first of ACCOUNTS that can
    access everything, else a uid without an account, else root in a user namespace. HostFailure if none works."""
    if system.euid() != 0:
        return Account(name=str(system.euid()))
    _refuse_root(os_user)
    for name in [os_user] if os_user else ACCOUNTS[:1] if system.launcher() else ACCOUNTS:
        candidate = named(name)
        if candidate and reaches(system, candidate, bin_dir, data_dir):
            return candidate
    if os_user:
        problem = "cannot execute postgres there or access the data directory" if candidate else "does not exist"
        raise HostFailure(f"account {os_user!r} {problem} ({bin_dir}, {data_dir})", "choose another account, or none")
    return _namespace(system, bin_dir, data_dir)


def choose_load_account(system: System, os_user: str) -> Account:
    """Choose the account of a load without PostgreSQL, which never runs as root: the named account, else the first of
    ACCOUNTS if it exists, else a uid without an account. HostFailure if there is none."""
    if system.euid() != 0:
        return Account(name=str(system.euid()))
    _refuse_root(os_user)
    account = named(os_user or ACCOUNTS[0]) or Account(name=f"uid {APART}", user=APART, group=APART)
    if os_user and account.name != os_user:
        raise HostFailure(f"account {os_user!r} does not exist", "choose another account on the host's page, or none")
    if not system.may_access(["/"], os.X_OK, account.user, account.group):
        raise HostFailure(f"programs cannot run as {account.name} here", f"useradd {USERADD}")
    return account


def _refuse_root(os_user: str) -> None:
    if os_user == "root" or (os_user and getattr(named(os_user), "user", None) == 0):
        raise Unplannable("os_user", os_user, "an account that is not root")


def _namespace(system: System, bin_dir: str, data_dir: str) -> Account:
    """A uid without an account, or root itself if that can access too little: in a namespace, it is an ordinary uid."""
    uid = ordinary_uid()
    apart = Account(name=f"uid {APART}", user=APART, group=APART, wrapper=as_uid(uid))
    if reaches(system, apart, bin_dir, data_dir) and _starts(system, apart, bin_dir):
        return apart
    rooted = Account(name=f"user namespace (uid {uid})", wrapper=as_uid(uid))
    if system.launcher():
        message = "only root can run PostgreSQL here, and the launcher does not allow other programs as root"
        raise HostFailure(message, HINT)
    system.check_program(f"{bin_dir}/postgres")
    if not _starts(system, rooted, bin_dir):
        raise HostFailure("PostgreSQL does not run as root, and user namespaces do not work", HINT)
    return rooted


def _starts(system: System, account: Account, bin_dir: str) -> bool:
    return show_version(system, account, bin_dir).code == 0


def named(name: str) -> Optional[Account]:
    """Return the account with this name; None if there is none."""
    import pwd

    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(name=name, user=entry.pw_uid, group=entry.pw_gid)


def reaches(system: System, account: Account, bin_dir: str, data_dir: str) -> bool:
    """Whether the account can execute PostgreSQL's programs and reach the directory."""
    return system.may_access(
        [f"{bin_dir}/postgres", f"{bin_dir}/initdb", data_dir], os.X_OK, account.user, account.group
    )


def initdb_options(major: int, requested: Mapping[str, str]) -> list[str]:
    """Pure. Return options of this version's initdb; the run's override the agent's. Unplannable if it lacks one."""
    for option, value in requested.items():
        if major < SINCE.get(option, 0):
            raise Unplannable(
                "initdb.locale_provider", value, f"libc: this needs PostgreSQL {SINCE[option]}, not {major}"
            )
    options = {**INITDB, **requested}
    if "--no-data-checksums" in options:
        del options["--data-checksums"]
        if major < 18:  # where that was the default, and no option
            del options["--no-data-checksums"]
    return [f"{name}={value}" if value else name for name, value in options.items()]


class Cluster(Target):
    """One private cluster. `execute` runs a tool to its end, `spawn` starts one; both keep the run's records.
    `listening` are parameters by which other machines find it, where a run has them come."""

    home: Path
    port, user, database = 5432, "postgres", "postgres"

    def __init__(
        self,
        system: System,
        target: dict[str, Any],
        account: Account,
        execute: Execute,
        spawn: Spawn,
        initdb: Optional[Mapping[str, str]] = None,
        listening: Optional[Mapping[str, str]] = None,
    ) -> None:
        super().__init__(system, target["bin_dir"], account)
        self._execute, self._spawn = execute, spawn
        self._initdb = initdb_options(self.major, initdb or {})
        self.key = protocol.digest([self.major, self._initdb, account.name, load_role.NAME, load_role.TOOLS])[:12]
        self.home = Path(target["data_dir"]).resolve() / self.key
        self.pgdata = self.home / "pgdata"
        self.socket_dir = self.home / "socket"
        self._listening = dict(listening or {})
        self.port = int(self._listening.get("port", self.port))
        if len(str(self.socket_dir / SOCKET_NAME)) >= MAX_SOCKET:
            self.socket_dir = Path("/tmp") / f"proving-ground-{account.user or system.euid()}-{self.key}"  # noqa: S108

    @property
    def conf_file(self) -> str:  # type: ignore[override]
        return str(self.pgdata / INCLUDE)

    def prepare(self, plans: Mapping[str, Plan]) -> None:
        self.create()
        self.configure({name: value for plan in plans.values() for name, value in plan.conf.items()})

    def create(self) -> None:
        """initdb, unless an earlier run left a complete cluster."""
        self._own(self.home)
        self._own(self.socket_dir)
        if self.pgdata.exists() and not self._spoiled():
            return
        owned.remove_tree(self.pgdata, ignore_errors=True)
        fresh = self.home / "pgdata.new"
        owned.remove_tree(fresh, ignore_errors=True)
        shelf.forget(self.home)
        self._execute(
            [str(self.bin_dir / "initdb"), *self._initdb, f"--pgdata={fresh}"], purpose="initdb", limit_s=1800.0
        )
        self._make_load_role(fresh)
        owned.append(fresh / "postgresql.conf", f"\ninclude '{INCLUDE}'\n".encode())
        owned.rename(fresh, self.pgdata.name)

    def _make_load_role(self, pgdata: Path) -> None:
        """Create the load's role in single-user mode, before clients can connect."""
        argv = [str(self.bin_dir / "postgres"), "--single", "-D", str(pgdata), "-c", "exit_on_error=on", "postgres"]
        done = self._run(argv, {}, "".join(f"{line}\n" for line in load_role.statements(self.major)))
        if done.code:
            raise HostFailure(f"the role of the load cannot be created: {done.stderr.strip()[-500:]}", "see the error")

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "PGOPTIONS": load_role.SAFE}

    @property
    def load_env(self) -> dict[str, str]:
        return {**self.env, "PGOPTIONS": "", "PGUSER": load_role.NAME}

    @property
    def load_role(self) -> str:
        return load_role.NAME

    def _spoiled(self) -> bool:
        """Whether the host went down under a server that did not wait for its disk: nothing there can be believed."""
        text = self._system.text(self.conf_file)
        if not _CARELESS.search(text) or text.startswith(_boot_line(self._system)):
            return False
        output = self._run([str(self.bin_dir / "pg_controldata"), "-D", str(self.pgdata)], {}).stdout
        return not re.search(r"^Database cluster state: +shut down$", output, re.MULTILINE)

    def _own(self, directory: Path) -> None:
        """Make a directory private to the account. HostFailure if it has files of another user."""
        owner = self.account.user if self.account.user is not None else self._system.euid()
        try:
            owned.make_directory(directory, self.account.owner)
        except FileExistsError:
            status = directory.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != owner:
                raise HostFailure(f"{directory} does not belong to {self.account.name}", "remove it") from None

    def configure(self, conf: dict[str, str]) -> None:
        """Write the include file: the agent's own parameters, then the run's."""
        ours = {
            "listen_addresses": "",
            "port": str(self.port),
            "unix_socket_directories": str(self.socket_dir),
            "unix_socket_permissions": "0700",
            # Checkpoints become marks on the time axis; the time of a line must not depend on the host's zone.
            "log_checkpoints": "on",
            "log_line_prefix": "%n [%p] ",
            **self._listening,
        }
        lines = [_boot_line(self._system), *(conf_line(name, value) for name, value in {**ours, **conf}.items())]
        owned.replace(self.conf_file, ("\n".join(lines) + "\n").encode(), self.account.owner)

    def start(self, prefix: Sequence[str], log: Path, options: Sequence[str] = ()) -> int:
        """Start the postmaster under taskset and numactl, and wait until it takes connections."""
        self._remove_stale_locks()
        with log.open("ab") as file:
            postmaster = self._spawn(
                [*prefix, str(self.bin_dir / "postgres"), "-D", str(self.pgdata), *options],
                purpose="postgres",
                directory=self.pgdata,
                stdout=file,
                stderr=file,
            )
        self._wait_ready(postmaster, log)
        return postmaster.pid

    def _remove_stale_locks(self) -> None:
        """Remove the lock files of a server that was killed. PostgreSQL itself believes that it still runs when another
        process has been given its pid."""
        if working_in(self._system, str(self.pgdata)):
            return
        socket = self.socket_dir / f".s.PGSQL.{self.port}"
        for stale in (self.pgdata / "postmaster.pid", socket.with_name(f"{socket.name}.lock"), socket):
            owned.remove(stale)

    def start_without_huge_pages(self, log: Path) -> int:
        return self.start([], log, ["-c", "huge_pages=off"])

    def _wait_ready(self, child: Child, log: Path) -> None:
        deadline = self._system.mono() + READY_S
        while not self._is_ready(child):
            if child.wait(READY_POLL_S) is not None:
                raise HostFailure("PostgreSQL did not start", "see its log", log=_tail(log))
            if self._system.mono() > deadline:
                raise HostFailure(f"PostgreSQL was not ready within {READY_S:g} s", "see its log", log=_tail(log))

    def _is_ready(self, child: Child) -> bool:
        if self.major < 10:  # their postmaster.pid does not contain it
            return bool(self._run([self.tool("psql"), "-X", "-c", "select 1"], self.env).code == 0)
        lines = self._system.text(str(self.pgdata / "postmaster.pid")).splitlines()
        if not lines or lines[0] == "" or len(lines) < 8:
            return False
        return lines[7].strip() == "ready"


def _boot_line(system: System) -> str:
    """Return a line that lets a later run detect a restart of the host."""
    return f"# written in boot {system.boot_id()}"


def _tail(path: Path) -> str:
    return path.read_bytes()[-4000:].decode(errors="replace")
