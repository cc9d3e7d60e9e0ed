"""The roles of PostgreSQL as which the services of the stack connect."""

from __future__ import annotations

from tests.compose.stack import SERVER, Stack

# Prints the role as which a service connects, and whether it has rights that it must not have.
RIGHTS = """
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute(
        "SELECT rolname, rolsuper, rolcreaterole, rolcreatedb,"
        " has_table_privilege('accounts_auditentry', 'UPDATE, DELETE, TRUNCATE, TRIGGER'),"
        " has_schema_privilege('public', 'CREATE') FROM pg_roles WHERE rolname = current_user"
    )
    print(*cursor.fetchone())
"""
LIMITED = ["proving_app", *["False"] * 5]
OWNER = ["proving", *["True"] * 5]
PASSWORD = "/srv/state/runtime-password"
# The services as docker-compose.yml of 0.2.0 starts them.
AS_OWNER = """\
services:
  web: &owner
    environment:
      PROVING_DATABASE_URL: postgres://proving@postgres:5432/proving
      PROVING_DATABASE_PASSWORD: ${POSTGRES_PASSWORD}
      PROVING_DATABASE_PASSWORD_FILE: ""
  worker: *owner
  dispatcher: *owner
  beat: *owner
"""


def rights(stack: Stack, service: str) -> list[str]:
    """The role of a service, and whether it has each of the rights."""
    shell = ("python", "manage.py", "shell", "--no-imports", "--command", RIGHTS)
    return stack.compose("exec", "-T", service, *shell).split()


def sql(stack: Stack, statement: str) -> str:
    """What psql prints as the owner."""
    return stack.compose("exec", "-T", "postgres", "psql", "-U", "proving", "-XAtq", "-c", statement).strip()


def serve_as_owner(stack: Stack) -> None:
    """Make the stack an installation of 0.2.0: its services connect as the owner, and there is no other role. The next
    start is that of this version again."""
    override = stack.folder / "docker-compose.override.yml"
    override.write_text(AS_OWNER)
    stack.compose("up", "-d", "--no-build", "--no-deps", *SERVER)
    override.unlink()
    stack.wait_until_healthy()
    stack.compose("exec", "-T", "web", "rm", PASSWORD)
    sql(stack, "DROP OWNED BY proving_app; DROP ROLE proving_app")
    assert rights(stack, "web") == OWNER
