"""After a backup, a wipe and a restore, the exports of a campaign are the same bytes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from apps.accounts.audit import chain
from apps.accounts.models import AuditEntry, Role
from apps.campaigns.models import Campaign
from apps.fingerprints import fingerprint
from apps.hosts.models import Identity
from apps.infrastructure import vault
from apps.operation import backup, encrypted_fields
from apps.results.exchange import downloads, exports
from common.errors import HostError, PlanError
from tests.rows import populate

ROOT = Path(__file__).resolve().parents[3]
# A report says when it was made.
FILES = [name for name in downloads.CAMPAIGN if not name.startswith("report.")]


OTHERS = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND backend_type = 'client backend'
"""


@pytest.fixture
def no_others(db: None) -> None:
    """The process of a connection that an earlier test has closed ends a moment later."""
    deadline, others = time.monotonic() + 60, 1
    with connection.cursor() as cursor:
        while others:
            assert time.monotonic() < deadline
            cursor.execute(OTHERS)
            (others,) = cursor.fetchone()
            time.sleep(0.02)
            cursor.execute("SELECT pg_stat_clear_snapshot()")  # in a transaction the next query would show the same


@pytest.fixture
def finished(transactional_db: None, no_others: None) -> Campaign:
    return populate.finished(populate.user(Role.OPERATOR), populate.host(), repetitions=3)


def exported(pk: Any) -> dict[str, bytes]:
    """Every file that the campaign may leave as."""
    campaign = exports.campaigns().get(pk=pk)
    made = {
        name: downloads.CAMPAIGN[name].make(campaign) for name in FILES if downloads.CAMPAIGN[name].offered(campaign)
    }
    return {name: _bytes(body) for name, body in made.items()}


def _bytes(made: Any) -> bytes:
    return made.read() if hasattr(made, "read") else "".join(made).encode()


def wipe() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")


@pytest.mark.thorough
def test_exports_are_the_same_bytes_after_a_restore(finished: Campaign, tmp_path: Path) -> None:
    before = exported(finished.pk)
    call_command("backup", tmp_path / "all.tar")
    wipe()

    call_command("restore", tmp_path / "all.tar")

    assert exported(finished.pk) == before
    assert {"runs.csv", "series.parquet", "campaign-with-series.json", "outputs.zip"} <= before.keys()
    assert list(AuditEntry.objects.values_list("action", flat=True)[:1]) == ["backup.restore"]


def databases() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT datname FROM pg_database WHERE datname LIKE current_database() || '%'")
        return {name for (name,) in cursor}


@pytest.mark.thorough
def test_a_check_restores_a_backup_beside_the_data_and_leaves_nothing(
    finished: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("backup", tmp_path / "all.tar")
    rows, before = sum(backup.read_manifest(tmp_path / "all.tar")["rows"].values()), databases()
    entries = AuditEntry.objects.count()

    call_command("restore", tmp_path / "all.tar", check=True)

    assert f"can be restored: {rows} rows" in capsys.readouterr().out
    assert databases() == before
    assert (Campaign.objects.get().pk, AuditEntry.objects.count()) == (finished.pk, entries)


@pytest.mark.thorough
def test_a_check_finds_an_audit_log_that_was_changed_before_the_backup(finished: Campaign, tmp_path: Path) -> None:
    chain.seal()
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(
            "UPDATE accounts_auditentry SET action = 'x' WHERE id = (SELECT min(id) FROM accounts_auditentry)"
        )
        cursor.execute("RESET session_replication_role")
    call_command("backup", tmp_path / "all.tar")
    before = databases()

    with pytest.raises(CommandError, match="audit log: it is not intact"):
        call_command("restore", tmp_path / "all.tar", check=True)

    assert databases() == before


@pytest.mark.thorough
def test_a_check_of_a_damaged_backup_leaves_no_database(finished: Campaign, tmp_path: Path) -> None:
    call_command("backup", tmp_path / "all.tar")
    with (tmp_path / "all.tar").open("r+b") as file:
        file.truncate(20_000)
    before = databases()

    with pytest.raises(CommandError, match=r"all\.tar"):
        call_command("restore", tmp_path / "all.tar", check=True)

    assert databases() == before
    assert Campaign.objects.get() == finished


@pytest.mark.thorough
def test_a_backup_through_a_pipe_is_restored_through_a_pipe(finished: Campaign, tmp_path: Path) -> None:
    before = exported(finished.pk)
    with (tmp_path / "all.tar").open("wb") as out:
        manage("backup", "-", stdout=out)
    wipe()

    with subprocess.Popen(["cat", tmp_path / "all.tar"], stdout=subprocess.PIPE) as cat:
        restored = manage("restore", "-", stdin=cat.stdout)

    assert exported(finished.pk) == before
    assert re.search(rb"restored [0-9]+ rows of .*, and migrated", restored.stdout)


def manage(*arguments: str, code: int = 0, **streams: Any) -> subprocess.CompletedProcess[bytes]:
    """manage.py in a process of its own, on the database of this test."""
    database = connection.get_connection_params()
    place = quote(str(database["host"]), safe="") + (f":{database['port']}" if database.get("port") else "")
    url = f"postgres://{quote(database['user'])}:{quote(database.get('password', ''))}@{place}/{database['dbname']}"
    connection.close()
    argv = [sys.executable, "manage.py", *arguments]
    env = {**os.environ, "PROVING_DATABASE_URL": url}
    options: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": ROOT, "timeout": 120, **streams}
    done = subprocess.run(argv, env=env, check=False, **options)
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("restore", "/nowhere/all.tar"), b"CommandError: file: /nowhere/all.tar: No such file or directory"),
        (("restore", "/"), b"CommandError: file: /: Is a directory"),
        (("restore", "-"), b"CommandError: file: standard input is not a backup of Proving Ground"),
        (("backup", "/nowhere/all.tar"), b"CommandError: directory: /nowhere: No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_without_a_traceback(
    transactional_db: None, arguments: tuple[str, ...], error: bytes
) -> None:
    done = manage(*arguments, code=1, stdin=subprocess.DEVNULL)

    assert done.stderr.startswith(error)
    assert b"Traceback" not in done.stderr


@pytest.mark.thorough
def test_a_backup_that_ends_too_early_is_refused(finished: Campaign, tmp_path: Path) -> None:
    backup.backup(tmp_path / "all.tar")
    whole = (tmp_path / "all.tar").read_bytes()
    (tmp_path / "all.tar").write_bytes(whole[: len(whole) // 2])

    with pytest.raises(PlanError, match="not a backup of Proving Ground: unexpected end of data"):
        backup.restore(tmp_path / "all.tar", replace=True)


@pytest.mark.thorough
def test_an_audit_log_is_append_only_after_a_restore_as_well(finished: Campaign, tmp_path: Path) -> None:
    backup.backup(tmp_path / "all.tar")

    backup.restore(tmp_path / "all.tar", replace=True)

    with pytest.raises(Exception, match=r"append-only|not allowed|refuse"):
        AuditEntry.objects.all().delete()


@pytest.mark.thorough
def test_a_backup_names_its_rows_its_hashes_and_the_keys_that_it_does_not_hold(
    finished: Campaign, tmp_path: Path, settings: Any
) -> None:
    Identity.objects.update(private_key_encrypted=vault.encrypt("private"))
    backup.backup(tmp_path / "all.tar")

    manifest = backup.read_manifest(tmp_path / "all.tar")

    assert manifest["keys"] == [fingerprint(settings.SSH_KEYS[0])]
    assert manifest["rows"]["campaigns_run"] == finished.runs.count()
    assert set(manifest["not_in_it"]) == {"PROVING_SSH_KEYS", "PROVING_SECRET_KEY"}
    assert settings.SSH_KEYS[0].encode() not in (tmp_path / "all.tar").read_bytes()
    assert (tmp_path / "all.tar").stat().st_mode & 0o777 == 0o600


@pytest.mark.thorough
def test_a_database_with_tables_is_replaced_only_on_request(finished: Campaign, tmp_path: Path) -> None:
    backup.backup(tmp_path / "all.tar")
    finished.runs.update(step="changed since")

    with pytest.raises(CommandError, match=r"database: it has \d+ tables .*--replace"):
        call_command("restore", tmp_path / "all.tar")
    call_command("restore", tmp_path / "all.tar", "--replace")

    assert not finished.runs.filter(step="changed since").exists()


@pytest.mark.thorough
def test_a_restore_that_fails_changes_nothing(
    finished: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup.backup(tmp_path / "all.tar")
    dump = tmp_path / backup.DUMP
    _repack(tmp_path / "all.tar", dump, lambda data: data[: len(data) // 2])

    with pytest.raises(HostError, match="pg_restore"):
        backup.restore(tmp_path / "all.tar", replace=True)

    assert Campaign.objects.filter(pk=finished.pk).exists()


def _repack(file: Path, dump: Path, change: Any) -> None:
    """The same backup with another dump, and a hash that fits it."""
    manifest = backup.read_manifest(file)
    with tarfile.open(file) as archive:
        dump.write_bytes(change(archive.extractfile(backup.DUMP).read()))  # type: ignore[union-attr]
    manifest["files"][backup.DUMP]["sha256"] = backup._sha256(dump)
    with file.open("wb") as out:
        backup._pack(out, manifest, dump)


@pytest.mark.thorough
def test_a_damaged_backup_is_refused(finished: Campaign, tmp_path: Path) -> None:
    backup.backup(tmp_path / "all.tar")
    data = bytearray((tmp_path / "all.tar").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "all.tar").write_bytes(data)

    with pytest.raises(PlanError, match="is damaged: the sha256 of its dump is"):
        backup.restore(tmp_path / "all.tar", replace=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "not a backup of Proving Ground"), (json.dumps({"format": 9}), "format 9; this server reads 1")],
)
def test_a_file_that_is_not_a_backup_is_refused(db: None, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "all.tar"
    (tmp_path / backup.MANIFEST).write_text(text)
    with tarfile.open(file, "w") as archive:
        archive.add(tmp_path / backup.MANIFEST, backup.MANIFEST)

    with pytest.raises(PlanError, match=message):
        backup.restore(file)


@pytest.mark.thorough
def test_a_backup_of_a_newer_version_is_refused(finished: Campaign, tmp_path: Path) -> None:
    newer = MigrationRecorder(connection).migration_qs.create(app="accounts", name="9999_of_the_future")
    backup.backup(tmp_path / "all.tar")
    newer.delete()

    with pytest.raises(PlanError, match=r"newer version wrote it: accounts\.9999_of_the_future"):
        backup.restore(tmp_path / "all.tar", replace=True)


@pytest.mark.thorough
def test_a_server_that_is_running_is_not_pulled_away(finished: Campaign, tmp_path: Path) -> None:
    backup.backup(tmp_path / "all.tar")
    other = connection.copy()

    try:
        other.ensure_connection()
        with pytest.raises(PlanError, match=r"1 other connections use it .*stop web, worker, dispatcher and beat"):
            backup.restore(tmp_path / "all.tar", replace=True)
    finally:
        other.close()


def test_a_running_server_is_noticed_by_an_owner_that_is_no_superuser(no_others: None) -> None:
    other = connection.copy()

    try:
        other.ensure_connection()
        with connection.cursor() as cursor:
            cursor.execute("CREATE ROLE limited_of_a_test")
            cursor.execute("SET ROLE limited_of_a_test")
            with pytest.raises(PlanError, match="1 other connections use it"):
                backup._check_target(replace=True)
            cursor.execute("RESET ROLE")
    finally:
        other.close()


def test_background_workers_with_a_user_are_no_connections(no_others: None) -> None:
    """Those of extensions such as pg_cron have a user, too. They cannot be stopped without a restart."""
    other, rows = connection.copy(), "SELECT repeat('x', 1000) FROM generate_series(1, 100000)"
    workers = "SELECT count(usesysid) FROM pg_stat_activity WHERE backend_type = 'parallel worker'"

    try:
        with other.cursor() as cursor, connection.cursor() as own:
            cursor.execute("SET debug_parallel_query = on")
            with cursor.copy(f"COPY ({rows}) TO STDOUT") as copy:
                copy.read()  # the worker waits until the rest is read
                own.execute(workers)
                assert own.fetchone() == (1,)
                with pytest.raises(PlanError, match="1 other connections use it"):
                    backup._check_target(replace=True)
    finally:
        other.close()


def test_tools_older_than_the_server_are_refused_before_anything_happens(
    db: None, tmp_path: Path, settings: Any
) -> None:
    old = tmp_path / "pg_dump"
    old.write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)'\n")
    old.chmod(0o755)
    settings.PG_BIN_DIR = str(tmp_path)

    with pytest.raises(HostError, match=r"15\.13.*the server is PostgreSQL 18.*PROVING_PG_BIN_DIR"):
        backup.backup(tmp_path / "all.tar")
    assert not (tmp_path / "all.tar").exists()


def test_a_file_is_never_overwritten(db: None, tmp_path: Path) -> None:
    (tmp_path / "all.tar").write_text("of last week")

    with pytest.raises(PlanError, match="exists"):
        backup.backup(tmp_path / "all.tar")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of an earlier test may still be connected, with the old key."""
    monkeypatch.setattr(encrypted_fields, "outdated_processes", list)


@pytest.mark.usefixtures("alone")
def test_keys_are_rotated_all_at_once(db: None, settings: Any) -> None:
    old, new = settings.SSH_KEYS[0], Fernet.generate_key().decode()
    first = Identity.objects.create(name="a", public_key="x", private_key_encrypted=vault.encrypt("one"))
    settings.SSH_KEYS = [new, old]
    Identity.objects.create(name="b", public_key="x", private_key_encrypted=vault.encrypt("two"))

    changed = encrypted_fields.rotate()

    settings.SSH_KEYS = [new]
    first.refresh_from_db()
    assert (changed, vault.decrypt(first.private_key_encrypted)) == (1, "one")
    assert encrypted_fields.needed() == ([fingerprint(new)], [])
    assert AuditEntry.objects.get(action="keys.rotate").after == {"secrets": 1}


@pytest.mark.usefixtures("alone")
def test_a_secret_that_no_key_opens_stops_the_rotation(db: None, settings: Any) -> None:
    good = Identity.objects.create(name="a", public_key="x", private_key_encrypted=vault.encrypt("one"))
    lost = Fernet(Fernet.generate_key()).encrypt(b"two").decode()
    Identity.objects.create(name="lost one", public_key="x", private_key_encrypted=lost)
    settings.SSH_KEYS = [Fernet.generate_key().decode(), *settings.SSH_KEYS]

    with pytest.raises(PlanError, match="no key decrypts the secret of identity lost one"):
        encrypted_fields.rotate()

    before = good.private_key_encrypted
    good.refresh_from_db()
    assert good.private_key_encrypted == before


def test_a_rotation_without_a_new_key_is_refused(db: None, settings: Any) -> None:
    Identity.objects.create(name="a", public_key="x", private_key_encrypted=vault.encrypt("one"))

    with pytest.raises(CommandError, match=r"contains one key in this process, so no new key is in use .*up -d"):
        call_command("rotate_key")
    settings.SSH_KEYS = [*settings.SSH_KEYS, Fernet.generate_key().decode()]
    with pytest.raises(CommandError, match=r"already encrypts all 1 secrets, so no new key is in use .*up -d"):
        call_command("rotate_key")


def test_a_rotation_waits_until_every_process_has_the_new_key(transactional_db: None, settings: Any) -> None:
    Identity.objects.create(name="a", public_key="x", private_key_encrypted=vault.encrypt("one"))
    old, new = settings.SSH_KEYS[0], Fernet.generate_key().decode()
    settings.SSH_KEYS = [new, old]
    dispatcher = connection.copy()
    try:
        with dispatcher.cursor() as cursor:
            cursor.execute("SELECT set_config('application_name', %s, false)", [_name_of("dispatcher", old)])
            with pytest.raises(CommandError, match=r"another key comes first in dispatcher, .*docker compose up -d"):
                call_command("rotate_key")
            cursor.execute("SELECT set_config('application_name', %s, false)", [_name_of("dispatcher", new)])
        call_command("rotate_key")
    finally:
        dispatcher.close()


def _name_of(kind: str, key: str) -> str:
    return f"proving-{kind} key={fingerprint(key)[:8]}"
