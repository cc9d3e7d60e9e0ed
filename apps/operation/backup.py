"""Backs up a server to one file, and restores it. All data, including the output of tools, are in PostgreSQL.

The file is a tar of `manifest.json`, which describes the dump and names the keys that it needs, and `database.dump` in
pg_dump's custom format. It contains no keys. The file may be a pipe, because it is written and read sequentially. Work
files are in PROVING_STATE_DIR.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.core.cache import cache
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from apps.accounts.audit import chain
from apps.accounts.services import audit
from apps.operation import encrypted_fields
from common.errors import HostError, PlanError

FORMAT = 1
DUMP, MANIFEST = "database.dump", "manifest.json"
# Long enough for a dump of large series, but not endless.
LONGEST_S = 24 * 3600
ELSEWHERE = {
    "PROVING_SSH_KEYS": "decrypts SSH private keys and webhook secrets; without it, hosts and webhooks need new ones",
    "PROVING_SECRET_KEY": "signs sessions; with another one, all users have to log in again",
}
Manifest = dict[str, Any]


@dataclass(frozen=True)
class CheckedBackup:
    """A backup that was restored for a check: its manifest, the last seal of its audit log, and the owners of secrets
    that no key decrypts."""

    manifest: Manifest
    seal: chain.Head
    undecryptable: list[str]


def backup(file: Path) -> Manifest:
    """Write `file` (mode 0600), completely or not at all, and return its manifest. The server may continue to run,
    because the dump is a snapshot. PlanError if `file` exists or cannot be written, HostError if pg_dump is missing,
    too old or fails."""
    if file.exists():
        raise PlanError("file", f"{file} exists", hint="choose another name, or move the file away first")
    with _work_folder(file.parent) as folder:
        manifest, dump = _dump(folder)
        made = folder / file.name
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            _pack(out, manifest, dump)
            out.flush()
            os.fsync(out.fileno())
        made.rename(file)
    _audit_backup(file.name, manifest)
    return manifest


def backup_to(out: IO[bytes]) -> Manifest:
    """Like `backup`, into a stream. Nothing is written before the dump is complete."""
    with _work_folder(_state_dir()) as folder:
        manifest, dump = _dump(folder)
        _pack(out, manifest, dump)
        out.flush()
    _audit_backup("standard output", manifest)
    return manifest


def _audit_backup(name: str, manifest: Manifest) -> None:
    summary = {"sha256": manifest["files"][DUMP]["sha256"], "rows": sum(manifest["rows"].values())}
    audit(None, "backup.make", name, after=summary)


def _dump(folder: Path) -> tuple[Manifest, Path]:
    pg_dump, dump = _tool("pg_dump"), folder / DUMP
    with _snapshot() as name:
        rows = _rows()
        options = ["--format=custom", "--no-owner", "--no-acl", f"--snapshot={name}", f"--file={dump}"]
        _run([pg_dump, *options, *_where()])
    return _manifest(dump, rows), dump


def restore(file: Path, *, replace: bool = False) -> Manifest:
    """Restore what `backup` wrote, as `restore_from` does. PlanError where `file` cannot be read."""
    with _opened(file) as source:
        return restore_from(source, str(file), replace=replace)


def restore_from(source: IO[bytes], name: str, *, replace: bool = False) -> Manifest:
    """Restore what `backup` wrote, completely or not at all, then migrate. `replace` first drops existing data.

    PlanError if the stream is not a backup, damaged, or of a newer version, and if the database is in use or not empty.
    HostError if a tool is missing, too old or fails; then nothing has changed.
    """
    manifest = _load(source, name, replace=replace)
    cache.clear()
    summary = {"made_at": manifest["made_at"], "sha256": manifest["files"][DUMP]["sha256"]}
    audit(None, "backup.restore", Path(name).name, after=summary)
    return manifest


def verify_file(file: Path) -> CheckedBackup:
    """Verify a file as `verify_from` does. PlanError if it cannot be read."""
    with _opened(file) as source:
        return verify_from(source, str(file))


def verify_from(source: IO[bytes], name: str) -> CheckedBackup:
    """Restore a backup into a temporary database on the same server, verify it there, and drop it. The server can keep
    running. Errors are those of `restore_from`; HostError also where the audit log of the backup is not intact, or the
    role may not create databases."""
    with _scratch_database():
        manifest = _load(source, name, replace=False)
        chain.seal()
        last, faults = chain.verify(chain.lines())
        if faults:
            raise HostError("audit log", f"it is not intact in {name}: {'; '.join(faults[:3])}")
        return CheckedBackup(manifest, last, encrypted_fields.needed()[1])


@contextmanager
def _scratch_database() -> Iterator[None]:
    """In this context, `connection` uses a new, empty database, which is dropped at the end."""
    configured = connection.settings_dict["NAME"]
    scratch = f"{configured[:40]}_check_{secrets.token_hex(4)}"
    quoted = connection.ops.quote_name(scratch)
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {quoted}")
    except DatabaseError as error:
        hint = "the check needs a role with CREATEDB: set PROVING_DATABASE_URL to the owner's"
        raise HostError("database", f"a database for the check cannot be created: {error}", hint=hint) from error
    try:
        _connect_to(scratch)
        yield
    finally:
        _connect_to(configured)
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {quoted} WITH (FORCE)")


def _connect_to(name: str) -> None:
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's connection has it
    connection.settings_dict["NAME"] = name


def _load(source: IO[bytes], name: str, *, replace: bool) -> Manifest:
    """Load a backup into the database, compare its rows with the manifest, and migrate."""
    psql, pg_restore = _tool("psql"), _tool("pg_restore")
    with _work_folder(_state_dir()) as folder:
        manifest, dump = _unpack(source, name, folder)
        _check_version(manifest)
        _check_target(replace)
        script = folder / "database.sql"
        _run([pg_restore, "--no-owner", "--no-acl", f"--file={script}", str(dump)])
        connection.close()
        fresh = "DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public"
        once = ["--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1", f"--command={fresh}"]
        _run([psql, *once, f"--file={script}", "--output=/dev/null", *_where()])
    _check_rows(manifest)
    call_command("migrate", interactive=False, verbosity=0)
    return manifest


def read_manifest(file: Path) -> Manifest:
    """The manifest of a backup. PlanError if it is not a backup, or has an unknown format."""
    with _opened(file) as source, _archive(source, str(file)) as archive:
        return _manifest_of(archive, str(file))


def _state_dir() -> Path:
    with suppress(OSError):  # _work_folder reports the error
        settings.STATE_DIR.mkdir(parents=True, exist_ok=True)
    return Path(settings.STATE_DIR)


@contextmanager
def _work_folder(parent: Path) -> Iterator[Path]:
    """Create a directory below `parent`, and remove it afterwards. PlanError if it cannot be created there, HostError
    if the disk is full."""
    try:
        with tempfile.TemporaryDirectory(dir=parent, prefix=".proving-") as folder:
            yield Path(folder)
    except (PermissionError, FileNotFoundError, NotADirectoryError) as error:
        hint = f"give a directory that uid {os.geteuid()} can write to, or - for a pipe"
        raise PlanError("directory", f"{parent}: {error.strerror}", hint=hint) from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
        raise HostError("directory", f"{parent}: {error.strerror}") from error


@contextmanager
def _opened(file: Path) -> Iterator[IO[bytes]]:
    try:
        source = file.open("rb")
    except OSError as error:
        hint = f"uid {os.geteuid()} must be able to read it; or use a pipe: restore - < {file.name}"
        raise PlanError("file", f"{file}: {error.strerror}", hint=hint) from error
    with source:
        yield source


@contextmanager
def _archive(source: IO[bytes], name: str) -> Iterator[tarfile.TarFile]:
    """Read from beginning to end, never back: `source` may be a pipe."""
    try:
        with tarfile.open(fileobj=source, mode="r|") as archive:
            yield archive
    except tarfile.TarError as error:
        raise PlanError("file", f"{name} is not a backup of Proving Ground: {error}") from error


def _manifest_of(archive: tarfile.TarFile, name: str) -> Manifest:
    try:
        manifest: Manifest = json.load(_next_member(archive, MANIFEST))
    except ValueError as error:
        raise PlanError("file", f"{name} is not a backup of Proving Ground: {error}") from error
    if manifest.get("format") != FORMAT:
        raise PlanError("file", f"{name} has format {manifest.get('format')!r}; this server reads {FORMAT}")
    return manifest


@contextmanager
def _snapshot() -> Iterator[str]:
    """The database of one moment, which the counts and the dump share."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        cursor.execute("SELECT pg_export_snapshot()")
        yield cursor.fetchone()[0]


def _rows() -> dict[str, int]:
    """Table to how many rows it has."""
    counted = {}
    with connection.cursor() as cursor:
        for table in sorted(connection.introspection.table_names(cursor)):
            cursor.execute(f"SELECT count(*) FROM {connection.ops.quote_name(table)}")  # noqa: S608 - a quoted name
            counted[table] = cursor.fetchone()[0]
    return counted


def _manifest(dump: Path, rows: dict[str, int]) -> Manifest:
    keys, closed = encrypted_fields.needed()
    return {
        "format": FORMAT,
        "made_at": timezone.now().isoformat(timespec="seconds"),
        "postgresql": _server_version(),
        "migrations": sorted(".".join(key) for key in MigrationLoader(connection).applied_migrations),
        "rows": rows,
        "files": {DUMP: {"sha256": _sha256(dump), "size": dump.stat().st_size}},
        "not_in_it": ELSEWHERE,
        "keys": keys,
        "opened_by_none": closed,
    }


def _pack(out: IO[bytes], manifest: Manifest, dump: Path) -> None:
    content = json.dumps(manifest, indent=1).encode()
    about = tarfile.TarInfo(MANIFEST)
    about.size, about.mode = len(content), 0o600
    with tarfile.open(fileobj=out, mode="w|") as archive:
        archive.addfile(about, io.BytesIO(content))
        archive.add(dump, DUMP)


def _unpack(source: IO[bytes], name: str, folder: Path) -> tuple[Manifest, Path]:
    """(the manifest, the dump as a file in `folder`), held against its hash."""
    dump = folder / DUMP
    with _archive(source, name) as archive:
        manifest = _manifest_of(archive, name)
        with dump.open("wb") as out:
            shutil.copyfileobj(_next_member(archive, DUMP), out, 1 << 20)
    actual, expected = _sha256(dump), manifest["files"][DUMP]["sha256"]
    if actual != expected:
        raise PlanError(
            "file", f"{name} is damaged: the sha256 of its dump is {actual}, but the manifest has {expected}"
        )
    return manifest, dump


def _next_member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    member = archive.next()
    content = archive.extractfile(member) if member is not None and member.name == name else None
    if content is None:
        raise PlanError("file", f"not a backup of Proving Ground: {name} is missing at its position")
    return content


def _check_version(manifest: Manifest) -> None:
    """A newer server's tables would be read by code that does not know them."""
    known = {".".join(key) for key in MigrationLoader(None).disk_migrations}
    unknown = sorted(set(manifest["migrations"]) - known)
    if unknown:
        hint = "restore it with the version of Proving Ground that wrote it, or a newer one"
        raise PlanError("file", f"a newer version wrote it: {', '.join(unknown[:3])}", hint=hint)
    if _major(manifest["postgresql"]) > _major(_server_version()):
        raise PlanError("file", f"it is from PostgreSQL {manifest['postgresql']}; this server is {_server_version()}")


def _check_target(replace: bool) -> None:
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            # Background processes have no user, or another type. An owner that is no superuser sees no type of others.
            " AND usesysid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend'"
        )
        others = cursor.fetchone()[0]
    if tables and not replace:
        hint = "use --replace to drop all data first, or set PROVING_DATABASE_URL to an empty database"
        raise PlanError("database", f"it has {len(tables)} tables", hint=hint)
    if others:
        hint = "stop web, worker, dispatcher and beat first"
        raise PlanError("database", f"{others} other connections use it", hint=hint)


def _check_rows(manifest: Manifest) -> None:
    actual = _rows()
    wrong = {
        table: (count, actual.get(table)) for table, count in manifest["rows"].items() if actual.get(table) != count
    }
    if wrong:
        raise HostError("database", f"row counts differ from the backup: {wrong}")


def _server_version() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        return str(cursor.fetchone()[0]).split()[0]


def _major(version: str) -> int:
    return int(version.split(".")[0])


def _tool(name: str) -> str:
    """Return the program's path. HostError if it is missing, or older than the server, which it would then refuse."""
    path = shutil.which(name, path=settings.PG_BIN_DIR or None)
    where = settings.PG_BIN_DIR or "on the PATH"
    server = _server_version()
    hint = f"set PROVING_PG_BIN_DIR to the bin directory of PostgreSQL {_major(server)} or newer"
    if path is None:
        raise HostError(name, f"is not {'in ' if settings.PG_BIN_DIR else ''}{where}", hint=hint)
    output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    version = re.search(r"\d+(\.\d+)*", output)
    if version is None or _major(version.group()) < _major(server):
        raise HostError(
            name, f"{path} is {output.strip() or 'of an unknown version'}; the server is PostgreSQL {server}", hint=hint
        )
    return path


def _where() -> list[str]:
    """Connection options of a tool. The password goes by the environment: all users can see arguments."""
    params = connection.get_connection_params()
    flags = {"host": "--host", "port": "--port", "user": "--username", "dbname": "--dbname"}
    return [f"{flag}={params[name]}" for name, flag in flags.items() if params.get(name)]


def _environment() -> dict[str, str]:
    params = connection.get_connection_params()
    names = ("password", "sslmode", "sslrootcert", "sslcert", "sslkey")
    options = {name: str(params[name]) for name in names if name in params}
    return {**os.environ, **{f"PG{name.upper()}": value for name, value in options.items()}, "PGCONNECT_TIMEOUT": "15"}


def _run(argv: Sequence[str]) -> None:
    done = subprocess.run(
        argv, env=_environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=LONGEST_S, check=False
    )
    if done.returncode:
        stderr = done.stderr.decode(errors="replace").strip()[-800:]
        raise HostError(Path(argv[0]).name, f"exited with {done.returncode}: {stderr}")


def _sha256(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
