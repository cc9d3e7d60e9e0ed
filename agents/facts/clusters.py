"""PostgreSQL clusters that exist on the host: their directories, whether they run, and what starts them.

The sources are Debian's /etc/postgresql, running postmasters, systemd's units, the usual directories, and the given
ones. The private clusters of the agent are not included.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any, Iterable, Optional

from ..host.system import Process, System
from .postgresql import major

DEBIAN = "/etc/postgresql"
UNIT_DIRS = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
# Usual cluster directories: Red Hat with and without a version, Debian, Arch, SUSE.
USUAL = ("/var/lib/pgsql/*/data", "/var/lib/pgsql/data", "/var/lib/postgresql/*/*", "/var/lib/postgres/data")
LINE = re.compile(r"^\s*([A-Za-z_]\w*)\s*(?:=\s*|\s)\s*('(?:[^']|'')*'|[^\s#]+)", re.MULTILINE)
INCLUDE = re.compile(r"^\s*(include_dir|include_if_exists)\s*=?\s*'((?:[^']|'')+)'", re.MULTILINE | re.IGNORECASE)
OURS = "proving_ground.conf"
DEEPEST = 10  # as PostgreSQL itself allows
MOST_FILES = 1000  # of one configuration; files that include each other have no end
MOST_TEXT = 4096  # characters of a path, as the kernel allows
MOST = 100  # any account can start what looks like a cluster


@dataclass
class Cluster:
    """One data directory with its known properties. The first source of a property counts."""

    data_dir: str
    found_by: list[str] = field(default_factory=list)
    name: str = ""
    config_file: str = ""
    unit: str = ""
    bin_dir: str = ""
    port: int = 0
    postmaster: Optional[Process] = None

    def add(self, by: str, **known: Any) -> None:
        self.found_by.append(by)
        for name, value in known.items():
            if value and not getattr(self, name):
                setattr(self, name, value)


Index = dict[str, Cluster]


def clusters(system: System, installed: list[dict[str, Any]], data_dirs: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Return clusters, sorted by data directory. `installed` are the installations of the same facts."""
    index: Index = {}
    _running(system, index)
    _debian(system, index)
    _units(system, index)
    _directories(system, index, data_dirs)
    there = (
        cluster for _, cluster in sorted(index.items()) if _is_there(system, cluster) and not _ours(cluster.data_dir)
    )
    kept = sorted(there, key=lambda cluster: cluster.found_by == ["process"])[:MOST]  # those of the system first
    kept.sort(key=lambda cluster: cluster.data_dir)
    described = (_describe(system, cluster, installed) for cluster in kept)
    return [each for each in described if all(len(str(value)) <= MOST_TEXT for value in each.values())]


def _at(index: Index, data_dir: str) -> Cluster:
    path = os.path.normpath(data_dir)
    return index.setdefault(path, Cluster(path))


def _is_there(system: System, cluster: Cluster) -> bool:
    """Packages install units and configuration also for clusters that do not exist."""
    hidden = system.euid() != 0 and system.stat(cluster.data_dir) is not None
    return hidden or system.exists(f"{cluster.data_dir}/PG_VERSION")


def _ours(data_dir: str) -> bool:
    """Whether the agent made it: see cluster.py for the layout."""
    return re.search(r"/[0-9a-f]{12}/pgdata(\.new)?$", data_dir) is not None


# Postmasters


def _running(system: System, index: Index) -> None:
    for process in system.processes():
        if process.name in ("postgres", "postmaster"):
            lines = system.text(f"{system.cwd(process.pid)}/postmaster.pid").splitlines()
            if lines and lines[0].strip() == str(process.pid):
                _at(index, system.cwd(process.pid)).add("process", **_of_process(system, process, lines))


def _of_process(system: System, process: Process, lines: list[str]) -> dict[str, Any]:
    argv = system.text(f"/proc/{process.pid}/cmdline").split("\0")
    config = re.search(r"config[_-]file=([^\0]+)", "\0".join(argv))
    return {
        "postmaster": process,
        "port": _number(lines[3]) if len(lines) > 3 else 0,
        "config_file": config.group(1) if config else "",
        "bin_dir": os.path.dirname(system.link(f"/proc/{process.pid}/exe") or argv[0]),
    }


def _unit_of(system: System, pid: int) -> str:
    """The service whose control group a process is in; "" for one that a user started by hand, which is in that of
    sshd, cron or a login."""
    match = re.search(r"/([^/\n]+\.service)$", system.text(f"/proc/{pid}/cgroup"), re.MULTILINE)
    unit = match.group(1) if match else ""
    template = re.sub(r"@.*\.service$", "@.service", unit)
    return unit if re.search(r"postgres|postmaster|pg_ctl", f"{unit}\n{_unit_text(system, template)}") else ""


# Facts from the configuration


def _debian(system: System, index: Index) -> None:
    systemd = system.exists("/run/systemd/system") and any(
        system.exists(f"{directory}/postgresql@.service") for directory in UNIT_DIRS
    )
    for version in system.names(DEBIAN):
        for name in system.names(f"{DEBIAN}/{version}"):
            config = f"{DEBIAN}/{version}/{name}/postgresql.conf"
            data_dir = read_config(system, config).get("data_directory") or f"/var/lib/postgresql/{version}/{name}"
            if system.exists(config):
                unit = f"postgresql@{version}-{name}.service" if systemd else ""
                bin_dir = f"/usr/lib/postgresql/{version}/bin"
                _at(index, data_dir).add(
                    "debian", name=f"{version}/{name}", config_file=config, unit=unit, bin_dir=bin_dir
                )


def _units(system: System, index: Index) -> None:
    names = {name for directory in UNIT_DIRS for name in system.names(directory)}
    for unit in sorted(name for name in names if re.fullmatch(r"postgresql[^@]*\.service", name)):
        text = _unit_text(system, unit)
        environment = dict(re.findall(r"^Environment=\"?(\w+)=([^\"\n]*)", text, re.MULTILINE))
        start = re.search(r"^ExecStart=[-@:+!]*(\S+)(?:.*\s-D\s*(\S+))?", text, re.MULTILINE)
        data_dir = environment.get("PGDATA") or _expanded((start and start.group(2)) or "", environment)
        if start and data_dir.startswith("/") and "%" not in data_dir:
            _at(index, data_dir).add(
                "systemd", name=unit[: -len(".service")], unit=unit, bin_dir=os.path.dirname(start.group(1))
            )


def _unit_text(system: System, unit: str) -> str:
    """The unit file that counts, then its drop-ins."""
    files = [f"{directory}/{unit}" for directory in UNIT_DIRS if system.exists(f"{directory}/{unit}")][:1]
    for directory in reversed(UNIT_DIRS):
        files += [f"{directory}/{unit}.d/{name}" for name in system.names(f"{directory}/{unit}.d")]
    return "\n".join(map(system.text, files))


def _expanded(text: str, environment: dict[str, str]) -> str:
    return re.sub(r"\$\{?(\w+)\}?", lambda match: environment.get(match.group(1), "%"), text)


def _directories(system: System, index: Index, data_dirs: Iterable[str]) -> None:
    candidates = [("given", path) for path in data_dirs]
    candidates += [("directory", path) for pattern in USUAL for path in _matching(system, pattern)]
    for by, path in candidates:
        if system.exists(f"{path}/PG_VERSION"):
            _at(index, path).add(by)


def _matching(system: System, pattern: str) -> list[str]:
    paths = [""]
    for part in pattern.strip("/").split("/"):
        paths = [f"{p}/{n}" for p in paths for n in (system.names(p or "/") if part == "*" else [part])]
    return paths


def read_config(system: System, path: str, depth: int = 0, files: Optional[list[str]] = None) -> dict[str, str]:
    """Parameters of a postgresql.conf and of the files that it includes; the last line counts. `include_dir` is there
    as well, as an absolute path."""
    files = [] if files is None else files
    if depth > DEEPEST or len(files) >= MOST_FILES:
        return {}
    files.append(path)
    config: dict[str, str] = {}
    for name, raw in LINE.findall(system.text(path)):
        value = raw[1:-1].replace("''", "'") if raw.startswith("'") else raw
        place = os.path.normpath(os.path.join(os.path.dirname(path), value))
        if name.lower() in ("include", "include_if_exists"):
            config.update(read_config(system, place, depth + 1, files))
        elif name.lower() == "include_dir":
            for file in system.names(place):
                if file.endswith(".conf") and not file.startswith("."):
                    config.update(read_config(system, f"{place}/{file}", depth + 1, files))
            config["include_dir"] = place
        else:
            config[name.lower()] = value
    return config


def include_path(config_file: str, text: str) -> str:
    """Pure. The file of ours that a configuration of this text reads, "" when it includes none: in its include_dir, or
    the one that it names itself."""
    for word, value in INCLUDE.findall(text):
        path = os.path.normpath(os.path.join(os.path.dirname(config_file), value.replace("''", "'")))
        if word.lower() == "include_dir":
            return f"{path}/zz_{OURS}"
        if os.path.basename(path) == OURS:
            return path
    return ""


# Facts of a cluster


def _describe(system: System, cluster: Cluster, installed: list[dict[str, Any]]) -> dict[str, Any]:
    config_file = cluster.config_file or f"{cluster.data_dir}/postgresql.conf"
    config = read_config(system, config_file)
    automatic = read_config(system, f"{cluster.data_dir}/postgresql.auto.conf")
    number = major(system.text(f"{cluster.data_dir}/PG_VERSION")) or major(cluster.name)
    installation = _installation(installed, cluster.bin_dir, number)
    bin_dir = cluster.bin_dir or installation.get("bin_dir", "")
    process = cluster.postmaster or _by_pid_file(system, config.get("external_pid_file", ""))
    owner = system.stat(cluster.data_dir)
    return {
        "name": cluster.name or cluster.data_dir,
        "version": installation.get("version", ""),
        "major": number or installation.get("major", 0),
        "data_dir": cluster.data_dir,
        "port": cluster.port or _port(automatic) or _port(config) or 5432,
        "running": process is not None,
        "pid": process.pid if process else None,
        "owner": system.account(owner.uid) if owner else "",
        "config_file": config_file,
        "unit": _unit_of(system, process.pid) if process else cluster.unit,
        "bin_dir": bin_dir,
        "has_include_dir": config.get("include_dir", ""),
        "include": include_path(config_file, system.text(config_file)),
        "found_by": cluster.found_by,
    }


def _port(config: dict[str, str]) -> int:
    return _number(config.get("port", ""))


def _number(text: str) -> int:
    """A port or pid from a file that any account may have written; 0 for other text."""
    return int(text) if re.fullmatch(r"\s*[0-9]{1,9}\s*", text) else 0


def _by_pid_file(system: System, path: str) -> Optional[Process]:
    """The postmaster by a file that all users may read, if its data directory is not readable for us."""
    pid = _number(system.text(path).partition("\n")[0]) if path else 0
    process = system.process(pid) if pid else None
    return process if process and process.name in ("postgres", "postmaster") else None


def _installation(installed: list[dict[str, Any]], bin_dir: str, number: int) -> dict[str, Any]:
    same = [each for each in installed if bin_dir and each["bin_dir"] == os.path.realpath(bin_dir)]
    fitting = [each for each in installed if each["major"] == number] if not bin_dir else []
    return next(iter([*same, *fitting]), {})
