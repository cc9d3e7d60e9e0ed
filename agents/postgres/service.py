"""The server of another user's cluster, under its own manager: systemd, or the user who called pg_ctl.

The journal's entry "service" describes it, so that a recovery has the same data as the run:
{manager: "systemd|pg_ctl", unit, bin_dir, data_dir, config_file, os_user, uid, gid, groups, was: "running|stopped",
 include, options: [of postmaster.opts], log: where pg_ctl sends it, environment, cpus, policy,
 parameters: {name: {setting, source, sourcefile} or null}, pending: [name]}
"""

from __future__ import annotations

import os
import re
import shlex
import signal
from pathlib import Path
from typing import IO, Callable, Mapping, Optional, Sequence

from ..errors import HostFailure
from ..host import numa_maps
from ..host.programs import TOOL_PATH
from ..host.system import Process, System
from ..records.journal import Journal
from ..records.processes import Account, spawn, working_in
from ..records.spool import Record
from .instance import Instance
from .load_role import SAFE

LIMIT_S = 600.0  # a shutdown writes all of shared_buffers; a start may have to recover
POLL_S = 0.05
DROP_IN = "90-proving-ground.conf"
DATABASE = "proving_ground"
# Variables of the postmaster's environment with which it is started again. Others may be secret, and are not needed.
KEPT = re.compile(r"^(LANG|LC_[A-Z]+|TZ|LD_LIBRARY_PATH|PATH|HOME)$")

# The names were checked against the schema's pattern: no quote can be in them.
_PARAMETERS = """
select coalesce(json_object_agg(name, json_build_object('setting', setting, 'source', source,
  'sourcefile', sourcefile, 'context', context)), '{{}}') from pg_settings where name in ({names})
"""
_CLIENTS = """
select coalesce(json_agg(format('%s (%s) from %s: %s', coalesce(nullif(application_name, ''), 'no name'),
  coalesce(usename, 'no user'), coalesce(host(client_addr), 'this host'), count) order by count desc), '[]')
from (select application_name, usename, client_addr, count(*) from pg_stat_activity
  where backend_type in ('client backend', 'walsender') and pid <> pg_backend_pid()
    and datname is distinct from 'proving_ground' group by 1, 2, 3) as clients
"""


class Owned(Instance):
    """An existing cluster as its owner sees it, over its unix socket. Its programs are those that root or the owner
    alone can change: otherwise whoever names `bin_dir` becomes the owner. Those of an entry that is on the journal were
    checked before it was written. A check at the restore could prevent it, such as after a change of a group."""

    database = "postgres"

    def __init__(self, system: System, entry: Record) -> None:
        self._is_checked = "seq" in entry
        if not self._is_checked:
            system.check_program(f"{entry['bin_dir']}/postgres", [entry["uid"]])
        super().__init__(system, entry["bin_dir"], account_of(entry))
        self.pgdata, self.user, self._options = Path(entry["data_dir"]), self.account.name, entry["options"]
        self.port, self.socket_dir = 0, Path("/")

    def tool(self, name: str) -> str:
        path = super().tool(name)
        if not self._is_checked:
            self._system.check_program(path, [self.account.user or 0])
        return path

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "PGOPTIONS": SAFE}

    @property
    def options(self) -> list[str]:
        return ["-D", str(self.pgdata), *self._options]

    def locate(self) -> None:
        """Read the running server's address from its postmaster.pid."""
        lines = self._system.text(f"{self.pgdata}/postmaster.pid").splitlines()
        if len(lines) < 5 or not lines[4]:
            raise HostFailure(
                f"{self.pgdata} has no Unix socket", "set unix_socket_directories: the load connects through it"
            )
        self.port, self.socket_dir = int(lines[3]), Path(lines[4])

    def parameters(self, names: Sequence[str]) -> Record:
        """Name -> {"setting", "source", "sourcefile", "context"}; None where the server knows none of that name."""
        listed = ", ".join(f"'{name}'" for name in names) or "''"
        shown: Record = self.sql(_PARAMETERS.format(names=listed), "postgres")
        return {name: shown.get(name) for name in names}

    def configured(self, names: Sequence[str]) -> Record:
        """The same of a stopped cluster, from its configuration."""
        return {name: {"setting": self.parameter(name)} for name in names if "." not in name}

    def foreign_clients(self) -> list[str]:
        """Describe other connected clients: "psql (app) from 10.0.0.7: 3"."""
        clients: list[str] = self.sql(_CLIENTS, "postgres")
        return clients

    def reload(self, pid: int) -> None:
        """Have the postmaster read its configuration, and wait until it has."""
        self._await_reload(lambda: self._system.kill(pid, signal.SIGHUP))


class Service:
    """Starts, stops and inspects the server that `entry` describes. Commands are in the journal before they execute."""

    def __init__(self, system: System, journal: Journal, entry: Record) -> None:
        self._system, self._journal, self.entry = system, journal, entry
        self.pgdata, self.unit = str(entry["data_dir"]), str(entry["unit"])
        self.account = account_of(entry)

    @property
    def drop_in(self) -> str:
        """Gone with the next boot by itself."""
        return f"/run/systemd/system/{self.unit}.d/{DROP_IN}"

    def postmaster(self) -> Optional[Process]:
        return postmaster(self._system, self.pgdata)

    def stop(self) -> None:
        """HostFailure when it does not."""
        if self.postmaster():
            self._command(self._systemctl("stop") if self.unit else self._pg_ctl("stop", "-m", "fast"))
        self._wait(self._is_gone, "did not stop")

    def start(self, prefix: Sequence[str] = (), log: Optional[Path] = None) -> int:
        """Return the pid of the postmaster, which accepts connections. Otherwise HostFailure names the log to read.

        With pg_ctl, under `prefix` (taskset, numactl); its output goes to `log`, or where it went before.
        """
        if self.postmaster() is None:
            if self.unit:
                self._command(self._systemctl("reset-failed"), must_succeed=False)
                self._command(self._systemctl("start"))
            else:
                self._pg_ctl_start(prefix, log)
        # Its manager has answered, so a missing process will not appear any more.
        self._wait(self.is_ready, "did not start", hopeless=self._is_gone)
        process = self.postmaster()
        if process is None:
            raise self._failure("did not start")
        return process.pid

    def command_line(self, verb: str, prefix: Sequence[str] = ()) -> list[str]:
        """The command of a verb, as an argument list for the log."""
        return self._systemctl(verb) if self.unit else [*prefix, *self._pg_ctl(verb)]

    def is_ready(self) -> bool:
        lines = self._system.text(f"{self.pgdata}/postmaster.pid").splitlines()
        return len(lines) > 7 and lines[7].strip() in ("ready", "standby") and self.postmaster() is not None

    def reload_units(self) -> None:
        self._command(["systemctl", "daemon-reload"])

    def _systemctl(self, verb: str) -> list[str]:
        return ["systemctl", verb, self.unit]

    def _pg_ctl(self, verb: str, *options: str) -> list[str]:
        program = f"{self.entry['bin_dir']}/pg_ctl"
        if "seq" not in self.entry:  # see Owned
            self._system.check_program(program, [self.entry["uid"]])
        return [program, verb, "-D", self.pgdata, "-w", "-t", f"{LIMIT_S:.0f}", *options]

    def _pg_ctl_start(self, prefix: Sequence[str], log: Optional[Path]) -> None:
        # pg_ctl hands its -o to a shell, hence the quotes.
        argv = [*prefix, *self._pg_ctl("start", "-s", "-o", shlex.join(self.entry["options"]))]
        if log is None:
            return self._command([*argv, "-l", self.entry["log"]])
        with log.open("ab") as file:
            return self._command(argv, out=file)

    def _command(self, argv: Sequence[str], *, out: Optional[IO[bytes]] = None, must_succeed: bool = True) -> None:
        """Run to its end, as the owner where it is pg_ctl."""
        ours = Account(name="root") if argv[0] == "systemctl" else self.account
        env = {"PATH": TOOL_PATH, **({} if argv[0] == "systemctl" else self.entry["environment"])}
        with open(os.devnull, "r+b") as null:
            to = out or null
            child = spawn(self._journal, argv, purpose="service", account=ours, env=env, stdout=to, stderr=to)
            code = child.wait(LIMIT_S + 10.0)
        if code is not None:
            self._journal.ended(child.entry)
        if code != 0 and must_succeed:
            raise self._failure(f"does not {argv[1] if ours is not self.account else 'obey pg_ctl'}: exit code {code}")

    def _wait(self, done: Callable[[], bool], message: str, hopeless: Callable[[], bool] = lambda: False) -> None:
        deadline = self._system.mono() + LIMIT_S
        while not done():
            if hopeless() or self._system.mono() > deadline:
                raise self._failure(message)
            self._system.sleep(POLL_S)

    def _is_gone(self) -> bool:
        return not working_in(self._system, self.pgdata)

    def _failure(self, message: str) -> HostFailure:
        name = self.unit or "the server"
        where = f"journalctl -u {self.unit}, and the server's log" if self.unit else self.entry["log"]
        return HostFailure(f"{name} of {self.pgdata} {message}", f"see {where}")


def account_of(entry: Record) -> Account:
    """The cluster's owner; we ourselves where we are no root."""
    if entry["uid"] == os.geteuid():
        return Account(name=entry["os_user"])
    return Account(name=entry["os_user"], user=entry["uid"], group=entry["gid"], groups=tuple(entry["groups"]))


def postmaster(system: System, pgdata: str) -> Optional[Process]:
    """The process that postmaster.pid names, when it lives and this is where it works."""
    lines = system.text(f"{pgdata}/postmaster.pid").splitlines()
    process = system.process(int(lines[0])) if lines and re.fullmatch("[0-9]{1,9}", lines[0]) else None
    return process if process and process.alive and system.cwd(process.pid) == pgdata else None


def options_of(system: System, pgdata: str, config_file: str) -> list[str]:
    """The options of the last start, from postmaster.opts; where it never was started, what names its configuration."""
    argv = shlex.split(system.text(f"{pgdata}/postmaster.opts"))[1:]
    if "-D" in argv:
        place = argv.index("-D")
        del argv[place : place + 2]
    own = f"{pgdata}/postgresql.conf"
    if not argv and os.path.realpath(config_file) != os.path.realpath(own):
        return ["-c", f"config_file={config_file}"]
    return argv


def read_startup(system: System, process: Process) -> Record:
    """The conditions under which a postmaster was started: {"cpus", "policy", "groups", "environment", "log"}."""
    pid = process.pid
    pairs = (line.partition("=") for line in system.text(f"/proc/{pid}/environ").split("\0"))
    output = os.readlink(f"/proc/{pid}/fd/1") if os.path.exists(f"/proc/{pid}/fd/1") else ""
    return {
        "cpus": cpus_of(system, pid),
        "policy": policy_of(system, pid),
        "groups": [int(group) for group in system.field(f"/proc/{pid}/status", "Groups").split()],
        "environment": {name: value for name, _, value in pairs if KEPT.match(name)},
        "log": output if output.startswith("/") and os.path.isfile(output) else os.devnull,
    }


def cpus_of(system: System, pid: int) -> str:
    return system.field(f"/proc/{pid}/status", "Cpus_allowed_list")


def policy_of(system: System, pid: int) -> str:
    return " ".join(numa_maps.policies(numa_maps.parse(system.text(f"/proc/{pid}/numa_maps"))))


def drop_in_text(unit: Mapping[str, str]) -> str:
    """Return the drop-in that replaces taskset and numactl for a service that systemd starts."""
    lines = ["# For the time of a benchmark; removed afterwards.", "[Service]", *(f"{k}={v}" for k, v in unit.items())]
    return "\n".join(lines) + "\n"
