"""The PostgreSQL role of web, worker, dispatcher and beat. Migrations use the owner's role instead.

It can read and write rows, but cannot change tables, use TRUNCATE or change triggers. Partitions of months are created
and dropped by functions that have the owner's rights and can do nothing else. In the audit log it can only read
and append rows, so its password does not allow rewriting history.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from psycopg import sql

from common.errors import PlanError

APPENDED = ("accounts_auditentry", "accounts_auditseal")
READ = ("django_migrations",)
PLAIN = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"
IS_PLAIN = "rolcanlogin AND NOT (rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls)"
SHORTEST_PASSWORD = 16


@transaction.atomic
def prepare(name: str, password: str = "") -> None:
    """Create the role if it is missing, set its password unless that is empty, and grant its rights on all tables. The
    owner must do this after each migration. PlanError if the name or the password is the owner's."""
    if password and password == connection.settings_dict["PASSWORD"]:
        hint = f"choose a new one for {name}: web, worker, dispatcher and beat must not know the owner's"
        raise PlanError("password", f"the password of {name} is the owner's", hint=hint)
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user = %s", [name])
        if cursor.fetchone()[0]:
            raise PlanError("name", f"{name!r} is the owner, which migrates", hint="such as proving_app")
        role = sql.Identifier(name)
        cursor.execute(f"SELECT {IS_PLAIN} FROM pg_roles WHERE rolname = %s", [name])  # noqa: S608 - a constant
        role_row = cursor.fetchone()
        # An owner that is no superuser may create a plain role, but may not repeat NOSUPERUSER for an existing one.
        if role_row != (True,):
            verb = "ALTER" if role_row else "CREATE"
            cursor.execute(sql.SQL("{} ROLE {} {}").format(sql.SQL(verb), role, sql.SQL(PLAIN)))
        if password:
            cursor.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(role, sql.Literal(_hashed(name, password))))
        for statement in [*_grants(_present(cursor)), *_executes(cursor)]:
            cursor.execute(sql.SQL(statement).format(role=role))


def password_in(file: Path) -> str:
    """Return the password in `file`. If the file is missing, create it (mode 0600) with a random password. PlanError if
    it cannot be read or created, or if its password is too short."""
    try:
        if not file.exists():
            _write_new(file, secrets.token_urlsafe(32))
        password = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        hint = f"it needs a password that uid {os.geteuid()} can read, or a directory that this uid can write to"
        raise PlanError("PROVING_RUNTIME_PASSWORD_FILE", f"{file}: {error}", hint=hint) from error
    if len(password) < SHORTEST_PASSWORD:
        problem = f"{file} contains no password of at least {SHORTEST_PASSWORD} characters"
        raise PlanError("PROVING_RUNTIME_PASSWORD_FILE", problem, hint="write one, or delete the file to create one")
    return password


def _write_new(file: Path, text: str) -> None:
    """Create the file completely, or leave the one that another process has created meanwhile. On a volume without hard
    links, a reader may see it empty for a moment."""
    made = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    _create(made, text)
    try:
        file.hardlink_to(made)
    except FileExistsError:
        pass
    except OSError:
        with suppress(FileExistsError):
            _create(file, text)
    finally:
        made.unlink()


def _create(file: Path, text: str) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(f"{text}\n")
        out.flush()
        os.fsync(out.fileno())


def _present(cursor: CursorWrapper) -> set[str]:
    """Return the tables that exist: the migrations of an app may have been undone."""
    cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    return {name for (name,) in cursor.fetchall()}


def _executes(cursor: CursorWrapper) -> list[str]:
    """Return statements that let the role call the functions of apps/infrastructure/months.py."""
    cursor.execute(
        "SELECT oid::regprocedure::text FROM pg_proc WHERE prosecdef AND pronamespace = 'public'::regnamespace"
        " AND proname LIKE %s",
        [r"proving\_%"],
    )
    return [f"GRANT EXECUTE ON FUNCTION {function} TO {{role}}" for (function,) in cursor.fetchall()]


def _grants(present: Container[str]) -> list[str]:
    """Return statements that revoke all rights and grant the present ones, so that rights of older versions end."""
    every = [(table, "SELECT, INSERT") for table in APPENDED] + [(table, "SELECT") for table in READ]
    limited = [(table, some) for table, some in every if table in present]
    return [
        "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role}",
        "REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM {role}",
        "REVOKE ALL ON SCHEMA public FROM {role}",
        "GRANT USAGE ON SCHEMA public TO {role}",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
        "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {role}",
        *(f"REVOKE ALL ON {table} FROM {{role}}" for table, _ in limited),
        *(f"GRANT {some} ON {table} TO {{role}}" for table, some in limited),
    ]


def _hashed(name: str, password: str) -> str:
    """The SCRAM verifier: the password itself is in no log of PostgreSQL."""
    pgconn = connection.connection.pgconn
    hashed: bytes = pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256")
    return hashed.decode()
