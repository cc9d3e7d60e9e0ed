"""The server's PostgreSQL role: it can write rows, but cannot change the schema or the audit log."""

from __future__ import annotations

import errno
import io
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.test import override_settings

from apps.accounts.models import AuditEntry, Role, User
from apps.accounts.services import audit
from apps.operation import runtime_role
from common.errors import PlanError
from tests.rows.factories import make_host, make_user

NAME = "role_of_a_test"


@pytest.fixture
def runtime(admin: User) -> Iterator[None]:
    """As that role, in a transaction that is undone, the role included."""
    audit(admin, "host.add", "db1")
    runtime_role.prepare(NAME, "correct horse battery")
    with connection.cursor() as cursor:
        cursor.execute(f"SET ROLE {NAME}")
        yield
        cursor.execute("RESET ROLE")


def refused(statement: str) -> str:
    with pytest.raises(DatabaseError) as error, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    return str(error.value)


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE accounts_auditentry",
        "TRUNCATE accounts_auditentry CASCADE",
        "ALTER TABLE accounts_auditentry DISABLE TRIGGER ALL",
        "DROP TABLE accounts_auditentry",
        "UPDATE accounts_auditentry SET action = 'x'",
        "DELETE FROM accounts_auditentry",
        "CREATE TRIGGER mine BEFORE INSERT ON accounts_auditentry FOR EACH ROW"
        " EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "DELETE FROM django_migrations",
        "CREATE TABLE mine (id int)",
        "COPY accounts_user TO PROGRAM 'cat'",
        "CREATE ROLE mine SUPERUSER",
        "SET session_replication_role = replica",
    ],
)
def test_the_runtime_role_cannot_change_the_schema_or_the_audit_log(runtime: None, statement: str) -> None:
    error = refused(statement)

    assert "must be" in error or "permission denied" in error


def test_the_runtime_role_has_the_privileges_that_the_server_needs(runtime: None, admin: User) -> None:
    make_host()
    make_user(Role.VIEWER).delete()
    audit(admin, "host.add", "db2")

    assert AuditEntry.objects.count() == 2


def test_preparing_the_role_again_revokes_added_privileges(admin: User) -> None:
    runtime_role.prepare(NAME, "correct horse battery")
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER ROLE {NAME} CREATEDB")
        cursor.execute(f"GRANT TRUNCATE ON accounts_auditentry TO {NAME}")

    runtime_role.prepare(NAME)

    with connection.cursor() as cursor:
        cursor.execute(f"SET ROLE {NAME}")
        assert "permission denied" in refused("TRUNCATE accounts_auditentry")
        cursor.execute("RESET ROLE")
        cursor.execute("SELECT rolcreatedb, rolsuper FROM pg_roles WHERE rolname = %s", [NAME])
        assert cursor.fetchone() == (False, False)


def test_the_role_is_prepared_without_tables_whose_migrations_were_undone(admin: User) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE accounts_auditentry RENAME TO of_no_migration")

    runtime_role.prepare(NAME, "correct horse battery")

    with connection.cursor() as cursor:
        cursor.execute("SELECT has_table_privilege(%s, 'accounts_auditseal', 'UPDATE')", [NAME])
        assert cursor.fetchone() == (False,)


def test_an_owner_that_is_no_superuser_can_prepare_the_role_again(admin: User) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE owner_of_a_test CREATEROLE")
        cursor.execute(f"GRANT {connection.settings_dict['USER']} TO owner_of_a_test")
        cursor.execute("SET ROLE owner_of_a_test")
        runtime_role.prepare(NAME, "correct horse battery")

        runtime_role.prepare(NAME, "correct horse battery 2")

        cursor.execute(f"SET ROLE {NAME}")
        assert "permission denied" in refused("TRUNCATE accounts_auditentry")


def test_migrate_prepares_the_role_that_the_settings_name(
    admin: User, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with override_settings(RUNTIME_ROLE=NAME, RUNTIME_PASSWORD_FILE=str(tmp_path / "password")):
        call_command("migrate", "--plan")
        assert not list(tmp_path.iterdir())
        call_command("migrate")

    assert f"role {NAME} has its rights" in capsys.readouterr().out
    with connection.cursor() as cursor:
        cursor.execute("SELECT has_table_privilege(%s, 'hosts_host', 'UPDATE')", [NAME])
        assert cursor.fetchone() == (True,)


def assert_created_once(file: Path) -> None:
    password = runtime_role.password_in(file)

    assert len(password) > 40
    assert runtime_role.password_in(file) == password
    assert [each.name for each in file.parent.iterdir()] == ["password"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_password_is_created_once_for_its_owner_only(tmp_path: Path) -> None:
    assert_created_once(tmp_path / "password")


def test_the_password_is_created_on_a_volume_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert_created_once(tmp_path / "password")


@pytest.mark.parametrize(("content", "problem"), [("short\n", "no password of at least 16"), (None, "No such file")])
def test_a_file_without_a_password_is_named(tmp_path: Path, content: str | None, problem: str) -> None:
    file = tmp_path / "password" if content else tmp_path / "missing" / "password"
    if content:
        file.write_text(content)

    with pytest.raises(PlanError, match=problem) as error:
        runtime_role.password_in(file)
    assert str(file) in str(error.value)


def test_the_owner_is_not_made_less(admin: User) -> None:
    with pytest.raises(PlanError, match="is the owner"):
        runtime_role.prepare(connection.settings_dict["USER"])


def test_the_password_of_the_owner_is_refused_for_the_role(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade on Kubernetes may copy the Secret of the server for the owner: all pods would have one password."""
    monkeypatch.setitem(connection.settings_dict, "PASSWORD", "correct horse battery")

    with pytest.raises(PlanError, match=f"the password of {NAME} is the owner's"):
        runtime_role.prepare(NAME, "correct horse battery")

    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_roles WHERE rolname = %s", [NAME])
        assert cursor.fetchone() == (0,)


def test_a_short_password_is_refused(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("short\n"))

    with pytest.raises(CommandError, match="at least 16 characters"):
        call_command("runtime_role", NAME)
