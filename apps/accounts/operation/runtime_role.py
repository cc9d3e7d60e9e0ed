"""The PostgreSQL role of web, worker, dispatcher and beat. Migrations use the owner's role instead.

It can read and write rows, but cannot change tables, use TRUNCATE or change triggers. In the audit log it can only read
and append rows, so its password does not allow rewriting history.
"""

from __future__ import annotations

from django.db import connection, transaction
from psycopg import sql

from common.errors import PlanError

APPENDED = ("accounts_auditentry", "accounts_auditseal")
READ = ("django_migrations",)
PLAIN = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"
IS_PLAIN = "rolcanlogin AND NOT (rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls)"


@transaction.atomic
def prepare(name: str, password: str = "") -> None:
    """Create the role if it is missing, set its password unless that is empty, and grant its rights on all tables. The
    owner must do this after each migration. PlanError if the name is the owner's."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user = %s", [name])
        if cursor.fetchone()[0]:
            raise PlanError("name", f"{name!r} is the owner, which migrates", hint="such as proving_app")
        role = sql.Identifier(name)
        cursor.execute(f"SELECT {IS_PLAIN} FROM pg_roles WHERE rolname = %s", [name])  # noqa: S608 - a constant
        found = cursor.fetchone()
        # An owner that is no superuser may create a plain role, but may not repeat NOSUPERUSER for an existing one.
        if found != (True,):
            verb = "ALTER" if found else "CREATE"
            cursor.execute(sql.SQL("{} ROLE {} {}").format(sql.SQL(verb), role, sql.SQL(PLAIN)))
        if password:
            cursor.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(role, sql.Literal(_hashed(name, password))))
        for statement in _grants():
            cursor.execute(sql.SQL(statement).format(role=role))


def _grants() -> list[str]:
    """Return statements that revoke all rights and grant the present ones, so that rights of older versions end."""
    limited = [(table, "SELECT, INSERT") for table in APPENDED] + [(table, "SELECT") for table in READ]
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
