"""A cluster of another user: measured with their consent, in a database of the run, and restored.

Parameters go into one file of the agent that the configuration includes; no other file of the cluster is written. A run
that only sets parameters for which a reload suffices never restarts the server.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path
from typing import Callable, Mapping, Optional, Sequence

from ..errors import HostFailure, Unplannable, WorkloadFailure
from ..facts.clusters import OURS, include_path
from ..host.system import System
from ..records.journal import Journal
from ..records.spool import Record
from ..settings import Plan
from ..settings.base import conf_line
from . import guest, load_role, service
from .client import write_passfile
from .instance import Target
from .service import DATABASE, Owned, Service

HEADER = "# For the time of a benchmark; removed afterwards."
OLDEST = 10  # its pg_stat_activity distinguishes clients from workers
_STATE = """
select json_build_object(
  'config_file', current_setting('config_file'), 'data_directory', current_setting('data_directory'),
  'superuser', current_setting('is_superuser') = 'on', 'standby', pg_is_in_recovery(),
  'loaded', extract(epoch from pg_conf_load_time()),
  'files', (select coalesce(json_agg(distinct sourcefile), '[]') from pg_file_settings),
  'pending', (select coalesce(json_agg(name order by name), '[]') from pg_settings where pending_restart))
"""


class Existing(Owned, Target):
    """The cluster of a target of kind `existing`. `emit` records actions, and `make_room` creates a directory that only
    `load_account` can read."""

    is_shared = True

    def __init__(
        self,
        system: System,
        journal: Journal,
        target: Record,
        emit: Callable[[str, Record], None],
        make_room: Callable[[], Path],
    ) -> None:
        self._journal, self._target, self._emit, self._make_room = journal, target, emit, make_room
        self._owner = owner_of(system, target)
        super().__init__(system, self._owner)
        self.conf_file = target["include"]
        self._restart, self._unit, self._conf = False, dict[str, str](), dict[str, str]()
        self.load_account = guest.account(system, self.account, target["bin_dir"])
        self._passfile: Optional[Path] = None

    @property
    def load_role(self) -> str:
        return guest.quoted()

    @property
    def load_env(self) -> dict[str, str]:
        return {**self.env, "PGOPTIONS": "", "PGUSER": guest.NAME, "PGPASSFILE": str(self._passfile)}

    # Before any change

    def prepare(self, plans: Mapping[str, Plan]) -> None:
        """Read and record its state, write the include file, and stop the server if it must be restarted."""
        self._conf = {name: value for plan in plans.values() for name, value in plan.conf.items()}
        self._unit = {name: value for plan in plans.values() for name, value in plan.unit.items()}
        entry = self._known() or self._inspect(plans)
        stopped = service.postmaster(self._system, str(self.pgdata)) is None
        self._restart = stopped or bool(self._reasons(plans, entry))
        self._service = Service(self._system, self._journal, entry)
        if self._conf:
            lines = [HEADER, *(conf_line(name, value) for name, value in self._conf.items())]
            owner = (entry["uid"], entry["gid"]) if self.account.user is not None else None
            self._put("postgresql", self.conf_file, "\n".join(lines) + "\n", owner)
        if not stopped:
            self._make_database()  # before a restart: a run whose load cannot connect restarts nothing
        if self._restart:
            self._stop()

    def _known(self) -> Optional[Record]:
        """The state before a planned restart of the host: the present state may be that of the run."""
        entry = self._journal.unfinished("service", "owned")
        if entry and service.postmaster(self._system, str(self.pgdata)):
            self.locate()
        return entry

    def _inspect(self, plans: Mapping[str, Plan]) -> Record:
        """The entry "service", on the journal, when all of this may be done. Unplannable or HostFailure otherwise."""
        if not self._target["consent"].get("measure"):
            hint = "an admin can allow it on the host's page"
            raise Unplannable("target.consent.measure", False, "permission to measure this cluster", hint)
        self._check_files()
        running = service.postmaster(self._system, str(self.pgdata))
        state = {**self._owner, "was": "running" if running else "stopped"}
        if running:
            self.locate()
            self._check_port()
            state.update(service.read_startup(self._system, running), **self._read_running())
        else:
            state.update(self._read_stopped())
        self._check_manager(running.pid if running else 0)
        reasons = self._reasons(plans, state)
        if reasons and not self._target["consent"]["restart"]:
            hint = "an admin can allow it on the host's page"
            raise Unplannable(
                "target.consent.restart", False, f"permission to restart PostgreSQL, because {reasons[0]}", hint
            )
        self._check_restart(state, bool(reasons))
        self._check_clients(bool(running))
        for program in ("psql",) if state["unit"] else ("psql", "pg_ctl"):
            self.tool(program)  # which checks it: the restore does not
        return self._journal.note("service", **state)

    def _check_files(self) -> None:
        target = self._target
        if self.major < OLDEST:
            raise Unplannable("target.bin_dir", target["bin_dir"], f"PostgreSQL {OLDEST} or later")
        version = self._system.text(f"{self.pgdata}/PG_VERSION")
        if version != str(self.major):
            raise Unplannable(
                "target.data_dir", str(self.pgdata), f"a cluster of PostgreSQL {self.major}, not {version}"
            )
        included = include_path(target["config_file"], self._system.text(target["config_file"]))
        if included != self.conf_file:
            line = f"include_if_exists '{OURS}'"
            raise Unplannable(
                "target.include",
                self.conf_file,
                included or f"a file that {target['config_file']} includes",
                "" if included else f"add the line {line} at its end, reload, and check the host again",
            )
        if self.conf_file:
            self._check_ours()

    def _check_ours(self) -> None:
        """The include file is not another user's: it is missing, empty, or written by the agent."""
        path = Path(self.conf_file)
        if not path.parent.is_dir():
            raise HostFailure(f"{path.parent} is not a directory", f"mkdir {path.parent}")
        if os.path.lexists(path):
            text = self._system.text(self.conf_file) if stat.S_ISREG(path.lstat().st_mode) else "not a file"
            if text and not text.startswith(HEADER):
                raise HostFailure(f"the agent did not create {path}", "remove it, or rename it")

    def _check_port(self) -> None:
        if self.port != self._target["port"]:
            accepted = f"{self.port}, its current port"
            raise Unplannable("target.port", self._target["port"], accepted, "check the host again")

    def _read_running(self) -> Record:
        try:
            state = self.sql(_STATE)
        except WorkloadFailure as failure:
            hint = f"allow peer authentication for {self.user} in pg_hba.conf: local all {self.user} peer"
            raise HostFailure(f"{self.user} cannot connect to {self.pgdata}: {failure.message}", hint) from failure
        self._check_state(state)
        return {"pending": state["pending"], "parameters": self.parameters(list(self._conf))}

    def _check_state(self, state: Record) -> None:
        if not state["superuser"]:
            raise HostFailure(
                f"{self.user} is not a superuser of {self.pgdata}", "the role with the owner's name must be one"
            )
        if os.path.realpath(state["config_file"]) != os.path.realpath(self._target["config_file"]):
            accepted = f"{state['config_file']}, the file in use"
            raise Unplannable("target.config_file", self._target["config_file"], accepted, "check the host again")
        if state["standby"]:
            raise HostFailure(f"{self.pgdata} is a standby", "use its primary: a standby is read-only")
        self._check_free()
        edited = [f for f in state["files"] if os.stat(f).st_mtime > state["loaded"]]
        if edited:
            hint = "reload it yourself first: otherwise the run would apply this change"
            raise HostFailure(f"{edited[0]} was changed after the last reload of {self.pgdata}", hint)

    def _check_free(self) -> None:
        """HostFailure if the cluster has a database or role of the names that a run creates and drops."""
        for kind, is_taken in self.sql(guest.TAKEN, "postgres").items():
            if is_taken:
                name = {"database": DATABASE, "role": guest.NAME}[kind]
                raise HostFailure(f"{self.pgdata} already has a {kind} {name}", "drop or rename it: runs use this name")

    def _read_stopped(self) -> Record:
        """Read the configuration of a stopped cluster, and how a server that the agent starts will run."""
        if (self.pgdata / "standby.signal").exists() or (self.pgdata / "recovery.conf").exists():
            raise HostFailure(f"{self.pgdata} is a standby", "use its primary: a standby is read-only")
        directory = self.parameter("data_directory")
        if os.path.realpath(directory) != str(self.pgdata):
            raise Unplannable("target.data_dir", str(self.pgdata), f"{directory}, the directory in its configuration")
        shown = self.configured(list(self._conf))
        return {"pending": [], "parameters": shown, "cpus": "", "policy": "", "environment": {}, "log": os.devnull}

    def _check_manager(self, pid: int) -> None:
        """Check that the named manager runs the server. Another one would start it again after a stop."""
        unit, system = self._target["unit"], self._system
        if unit:
            shown = system.run(["systemctl", "show", "-p", "LoadState", "-p", "MainPID", unit]).stdout
            properties = dict(line.partition("=")[::2] for line in shown.splitlines())
            if properties.get("LoadState") != "loaded" or properties.get("MainPID") != str(pid):
                accepted = f"the unit that runs it (pid {pid}); systemd reports for {unit}: {properties}"
                raise Unplannable("target.unit", unit, accepted, "check the host again")
            if not pid and unit not in self._units():
                raise Unplannable("target.unit", unit, f"a unit that starts {self.pgdata}", "check the host again")
            return
        named = re.search(r"([^/\n]+\.service)$", system.text(f"/proc/{pid}/cgroup")) if pid else None
        if named and system.exists("/run/systemd/system"):
            main = system.run(["systemctl", "show", "-p", "MainPID", "--value", named.group(1)]).stdout.strip()
            if main == str(pid):
                raise Unplannable("target.unit", "", f"{named.group(1)}, the unit that runs it", "check the host again")

    def _units(self) -> set[str]:
        """The units that start this cluster: every unit that is not active reports the pid 0."""
        from ..facts.clusters import clusters

        found = clusters(self._system, [])
        return {str(each["unit"]) for each in found if os.path.realpath(each["data_dir"]) == str(self.pgdata)}

    def _reasons(self, plans: Mapping[str, Plan], entry: Record) -> list[str]:
        """Why the server must be restarted; none if a reload suffices."""
        if entry["was"] == "stopped":
            return ["it is stopped"]
        reasons = [name for name, plan in plans.items() if plan.server_prefix or plan.unit]
        known = entry["parameters"]
        return reasons + [name for name in self._conf if (known.get(name) or {}).get("context") == "postmaster"]

    def _check_restart(self, state: Record, restart: bool) -> None:
        """A restart must put nothing in effect but ours, and must be undone to the same."""
        if restart and state["pending"]:
            hint = "restart it yourself first: otherwise the run would apply this change"
            raise HostFailure(f"{', '.join(state['pending'])} of {self.pgdata} needs a restart to take effect", hint)
        if restart and not state["unit"] and state["policy"] not in ("", "default"):
            hint = "start it without numactl first"
            raise HostFailure(f"{self.pgdata} runs under {state['policy']}, which pg_ctl cannot restore", hint)

    def _check_clients(self, running: bool) -> None:
        clients = self.foreign_clients() if running else []
        if not clients:
            return
        if not self._target["consent"]["disturb_clients"]:
            raise HostFailure(
                f"{self.pgdata} has other clients: {'; '.join(clients)}",
                "disconnect them, or ask an admin to allow disturbing them on the host's page",
                clients=clients,
            )
        message = f"other clients are disturbed, as allowed: {'; '.join(clients)}"
        self._emit("log", {"level": "warning", "message": message})

    # In effect

    def _stop(self) -> None:
        self._check_clients(self._service.postmaster() is not None)
        if self._journal.unfinished("restart", "stopped") is None:
            self._journal.note("restart")
        self._service.stop()

    def start(self, prefix: Sequence[str], log: Path) -> int:
        pid = self._start(prefix, log) if self._restart else self._reload()
        self._make_database()
        return pid

    def _start(self, prefix: Sequence[str], log: Path) -> int:
        if self._unit and self._service.unit:
            Path(self._service.drop_in).parent.mkdir(parents=True, exist_ok=True)
            self._put("service", self._service.drop_in, service.drop_in_text(self._unit))
            self._service.reload_units()
        self._emit("command", {"purpose": "postgres", "argv": self._service.command_line("start", prefix), "env": {}})
        pid = self._service.start(prefix, log)
        self.locate()
        return pid

    def _reload(self) -> int:
        process = self._service.postmaster()
        if process is None:
            raise HostFailure(f"{self.pgdata} has stopped unexpectedly", "see its log")
        if self._conf:
            self._emit("command", {"purpose": "postgres", "argv": self._service.command_line("reload"), "env": {}})
            self.reload(process.pid)
        return process.pid

    def _put(self, setting: str, path: str, text: str, owner: Optional[tuple[int, int]] = None) -> None:
        record = self._journal.put_file(setting, path, text, owner)
        self._emit("write", {key: record[key] for key in ("setting", "key", "original", "wanted", "found")})

    def _make_database(self) -> None:
        """Create the database of the load and its role; a resumed run sets another password."""
        if self._passfile:
            return
        if self._journal.unfinished("database", "dropped") is None:
            self._check_free()
            self._journal.note("role", name=guest.NAME)
            self._journal.note("database", name=DATABASE)
            for statement in guest.creation(self.major):
                self.sql(statement, "postgres")
            for statement in load_role.extensions(guest.quoted()):
                self.sql(statement, DATABASE)
        secret, self._passfile = secrets.token_hex(32), self._make_room() / "pgpass"
        self.sql(guest.password(secret), "postgres")
        write_passfile(self._passfile, secret, self.load_account)
        self.database = DATABASE
        self._check_login()

    def _check_login(self) -> None:
        """HostFailure if pg_hba.conf does not let the role of the load in."""
        shown = self._run([self.tool("psql"), "-X", "-w", "-c", "select 1"], self.load_env, "", self.load_account)
        if shown.code:
            line = f"local {DATABASE} {guest.NAME} scram-sha-256"
            hint = f"add {line} above the other lines of pg_hba.conf and reload it, or create an account {guest.NAME}"
            raise HostFailure(f"{guest.NAME} cannot connect to {self.pgdata}: {shown.stderr.strip()}", hint)


def owner_of(system: System, target: Record) -> Record:
    """The fixed part of the entry "service". Unplannable if the directory has another owner than the target names."""
    import grp
    import pwd

    data_dir = os.path.realpath(target["data_dir"])  # in the form of a postmaster's working directory
    try:
        owner = pwd.getpwuid(os.stat(data_dir).st_uid)
    except (OSError, KeyError) as error:
        raise Unplannable("target.data_dir", data_dir, f"a data directory ({error})", "check the host again") from error
    if owner.pw_name != target["os_user"] or owner.pw_uid == 0:
        raise Unplannable("target.os_user", target["os_user"], f"{owner.pw_name}, the owner of {data_dir} (never root)")
    if os.geteuid() not in (0, owner.pw_uid):
        raise Unplannable(
            "target.os_user", owner.pw_name, "a private cluster, because the agent runs as an ordinary user here"
        )
    names = ("bin_dir", "config_file", "unit", "include")
    groups = [owner.pw_gid, *(g.gr_gid for g in grp.getgrall() if owner.pw_name in g.gr_mem)]
    return {
        **{name: target[name] for name in names},
        "data_dir": data_dir,
        "manager": "systemd" if target["unit"] else "pg_ctl",
        "os_user": owner.pw_name,
        "uid": owner.pw_uid,
        "gid": owner.pw_gid,
        "groups": groups,
        "options": service.options_of(system, data_dir, target["config_file"]),
    }
