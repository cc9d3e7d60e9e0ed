"""The account of PostgreSQL with which web, worker, dispatcher and beat work, beside the owner, who migrates.

It reads and writes rows, and changes no table: it has no TRUNCATE, no triggers, and of the audit log it may only read
and append rows. So whoever gets hold of its password cannot rewrite what was done.
"""

from __future__ import annotations

from django.db import connection, transaction
from psycopg import sql

from common.errors import PlanError

APPENDED = ("accounts_auditentry", "accounts_auditseal")
READ = ("django_migrations",)
PLAIN = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"


@transaction.atomic
def prepare(name: str, password: str = "") -> None:
    """Create the role where there is none, give it this password unless that is empty, and grant it what it needs on
    the tables that there are. To be done by the owner after each migration. PlanError where the name is the owner's."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user = %s, EXISTS (SELECT FROM pg_roles WHERE rolname = %s)", [name, name])
        is_owner, is_known = cursor.fetchone()
        if is_owner:
            raise PlanError("name", f"{name!r} is the owner, which migrates", hint="such as proving_app")
        role = sql.Identifier(name)
        verb = "ALTER" if is_known else "CREATE"
        cursor.execute(sql.SQL("{} ROLE {} {}").format(sql.SQL(verb), role, sql.SQL(PLAIN)))
        if password:
            cursor.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(role, sql.Literal(_hashed(name, password))))
        for statement in _grants():
            cursor.execute(sql.SQL(statement).format(role=role))


def _grants() -> list[str]:
    """What it had goes first, so that what a newer version does not grant any more ends."""
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
