"""Data restored from a dump of pg_dump, a file or directory of the host.

The account of the load reads it, and the role of the load restores it: neither has more rights than in the run.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, Mapping

from ..errors import HostFailure, Unplannable, WorkloadFailure
from ..host.paths import PATH
from .base import Data, Options, Step, files_of, size_of

if TYPE_CHECKING:
    from ..host.system import Finished
    from .making import Tools

JOBS = 4
# Not the owners, rights and places of the other host. Comments on extensions are for their owner only.
_WITHOUT = {
    9: ("--no-owner", "--no-privileges", "--no-tablespaces", "--no-security-labels"),
    10: ("--no-publications", "--no-subscriptions"),
    11: ("--no-comments",),
}
_FORMAT = re.compile(r"^; +Format: (\w+)", re.MULTILINE)
_MADE_BY = re.compile(r"^; +Dumped by pg_dump version: (\d+)", re.MULTILINE)
_UNCOMPRESSED = re.compile(r"^; +Compression: (0|none)$", re.MULTILINE)
_EXTENSION = re.compile(r"^\d+; \d+ \d+ EXTENSION - (\S+)", re.MULTILINE)
_AGAIN = "create the dump with pg_dump -Fc or pg_dump -Fd"
_NEWER = "choose a newer PostgreSQL for the run, or create the dump with its pg_dump"
_NO_RIGHTS = "the restore has no superuser rights: leave this object out of the dump"
# Messages of pg_restore, and the next step.
_HINTS = {
    r"unsupported version": _NEWER,
    r"text format|valid (tar )?archive|too short": _AGAIN,
    r"could not open .*No such file": "put the dump on this host, or correct the path of the data set",
    r"could not open .*Permission denied": "let the account {account} read the dump and enter its directories",
    r"permission denied|must be ": _NO_RIGHTS,
    r"role .* does not exist": "leave this object out of the dump: roles are not restored",
    r"No space left": "free some space, or choose another data directory for the host",
}
_UNUSABLE = """
select coalesce(json_object_agg(name, reason), '{{}}') from (
  select name, case when not exists (select from pg_available_extensions a where a.name = n.name) then 'missing'
    when not exists (select from pg_extension where extname = n.name) and not exists (select
      from pg_available_extension_versions v join pg_available_extensions a on a.name = v.name
      and a.default_version = v.version where v.name = n.name and (not v.superuser {trusted}))
      and current_setting('is_superuser') = 'off' then 'superuser' end as reason
  from unnest(array[{names}]) as n(name)) checked where reason is not null
"""
TRUSTED = 13  # the first version with trusted extensions


class DumpData(Data):
    kind = "dump"
    without_effect = ("path", "jobs")
    title = "pg_restore"
    help = "A dump of your own database (pg_dump -Fc or -Fd), which is on the host"
    schema = {
        "type": "object",
        "title": "pg_restore",
        "properties": {
            "path": {
                "type": "string",
                "pattern": PATH,
                "maxLength": 1000,
                "title": "Path of the dump on the host",
                "description": "The account of the load must be able to read it",
            },
            "jobs": {
                "type": "integer",
                "minimum": 1,
                "maximum": 256,
                "title": "Parallel jobs (-j)",
                "description": "Number of connections; does not change the data",
                "default": JOBS,
            },
        },
        "required": ["path"],
        "additionalProperties": False,
    }

    def check(self, options: Options) -> None:
        if options["path"] != os.path.normpath(options["path"]) or options["path"].startswith("//"):
            raise Unplannable("dataset.path", options["path"], "an absolute path without .. and doubled slashes")

    def code(self, options: Options) -> Mapping[str, str]:
        return {"path": options["path"]}

    def steps(self, options: Options, major: int) -> list[Step]:
        jobs = f"--jobs={options.get('jobs', JOBS)}"
        without = [option for since, names in _WITHOUT.items() if major >= since for option in names]

        def restore(name: str, title: str, share: float, section: str, *more: str, reads: str = "") -> Step:
            argv = (f"--section={section}", "--exit-on-error", *without, *more, options["path"], "-d")
            return Step(name, title, share, argv, tool="pg_restore", data=bool(reads), atomic=False, reads=reads)

        return [
            restore("schema", "restore the schema", 0.0, "pre-data"),
            restore("rows", "restore the rows", 0.6, "data", jobs, reads=options["path"]),
            restore("indexes", "create indexes and constraints", 0.3, "post-data", jobs),
            Step("vacuum", "vacuum and analyze", 0.1, ("--analyze", jobs), tool="vacuumdb"),
        ]

    def source(self, options: Options, tools: Tools) -> str:
        """The size of the dump, and the digest of its table of contents, which has its time. HostFailure if it cannot
        be restored."""
        path, cluster = options["path"], tools.cluster
        account = cluster.load_account
        if account.wrapper and account.user is None:
            message = (
                "the load would read the dump with root's file permissions, because the host has no account for it"
            )
            raise HostFailure(message, "create one: useradd --system --shell /usr/sbin/nologin proving-load")
        for file in files_of(tools.run.system, path):
            status = tools.run.system.stat(file)
            if status and status.special:
                raise HostFailure(f"{file} is a FIFO, socket or device, which a dump does not contain", _AGAIN)
        listed = _list(path, tools)
        if listed.code:
            raise HostFailure(*_explain(path, listed.stderr, account.name))
        made_by, archive = _MADE_BY.search(listed.stdout), _FORMAT.search(listed.stdout)
        if archive and archive.group(1) == "TAR":
            raise HostFailure(f"{path} is a tar archive, which cannot be restored in parallel", _AGAIN)
        if made_by and int(made_by.group(1)) > cluster.major >= 10:
            message = (
                f"{path} was created by pg_dump {made_by.group(1)}, which is newer than PostgreSQL {cluster.major}"
            )
            raise HostFailure(message, _NEWER)
        _check_extensions(path, _EXTENSION.findall(listed.stdout), tools)
        digest = hashlib.sha256(listed.stdout.encode()).hexdigest()
        return f"{size_of(tools.run.system, path)} {digest}"

    def room(self, name: str, options: Options, tools: Tools) -> tuple[int, str]:
        """At least the size of a compressed dump. Uncompressed text may be larger than the database, whose large values
        are compressed."""
        path, listed = options["path"], _list(options["path"], tools)
        is_compressed = _UNCOMPRESSED.search(listed.stdout) is None
        return size_of(tools.run.system, path) if is_compressed else 0, f"restoring {path} needs at least"

    def changed(self, options: Options) -> HostFailure:
        message = f"the dump {options['path']} changed while it was restored"
        return HostFailure(message, "start the run again once the dump is complete")

    def explain(self, failure: WorkloadFailure, options: Options, tools: Tools) -> WorkloadFailure:
        stderr = str(failure.details.get("stderr", ""))
        message, hint = _explain(options["path"], stderr, tools.cluster.load_account.name)
        return WorkloadFailure(message, hint, **failure.details) if "pg_restore: error" in stderr else failure


def _list(path: str, tools: Tools) -> Finished:
    """The table of contents of the dump, read by the account of the load."""
    return tools.cluster.load_run([tools.cluster.tool("pg_restore"), "--list", path])


def _explain(path: str, stderr: str, account: str) -> tuple[str, str]:
    """The first error of pg_restore, and the next step."""
    errors = re.findall(r"error: (.*)", stderr) or [stderr.strip()[-500:]]
    hints = (hint for pattern, hint in _HINTS.items() if re.search(pattern, errors[0]))
    hint = next(hints, "leave this object out of the dump")
    return f"pg_restore cannot restore {path}: {errors[0]}", hint.format(account=account)


def _check_extensions(path: str, names: list[str], tools: Tools) -> None:
    if not names:
        return
    trusted = "or v.trusted" if tools.cluster.major >= TRUSTED else ""
    listed = ", ".join("'" + name.replace("'", "''") + "'" for name in names)
    unusable = tools.cluster.load_sql(_UNUSABLE.format(names=listed, trusted=trusted))
    missing = [name for name in names if unusable.get(name) == "missing"]
    if missing:
        message = f"{path} needs extensions that are not installed for this PostgreSQL: {', '.join(missing)}"
        raise HostFailure(message, f"install them for PostgreSQL {tools.cluster.major} on the host")
    if unusable:
        message = f"{path} needs extensions that only a superuser can create: {', '.join(unusable)}"
        hint = "set trusted = true in their .control files on the host, or create the dump without them"
        raise HostFailure(message, hint)
