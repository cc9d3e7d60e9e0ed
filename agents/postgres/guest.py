"""The role of the load in an existing cluster. It owns one database; both are created for the run and dropped after it.

The role logs in with a password of this run, or by `peer` if the load runs as the account of its name. The agent's own
sessions are a superuser's: their search_path has only schemas that the load cannot change (load_role.SAFE).
"""

from __future__ import annotations

import os

from ..errors import HostFailure
from ..host.system import System
from ..records.processes import Account
from .cluster import HINT, named, reaches
from .load_role import PATH_OF_LOAD
from .scram import verifier
from .service import DATABASE

NAME = "proving-load"  # of the role, and of the account that `peer` accepts for it
# Whether the names are taken. A run must not drop a database or role that it did not create.
TAKEN = f"""
select json_build_object('database', exists (select from pg_database where datname = '{DATABASE}'),
  'role', exists (select from pg_roles where rolname = '{NAME}'))
"""  # noqa: S608
_END_SESSIONS = """
select to_json(count(pg_terminate_backend(pid))) from pg_stat_activity
where (datname = '{database}' or usename = '{role}') and pid <> pg_backend_pid()
"""
_TRACES = """
with load as (select oid from pg_roles where rolname = '{role}')
select coalesce(json_agg(datname), '[]') from pg_database where exists (select from load) and (
  datname = current_database()
  or oid in (select dbid from pg_shdepend join load on refobjid = load.oid where refclassid = 'pg_authid'::regclass))
"""


def account(system: System, owner: Account, bin_dir: str) -> Account:
    """The account that runs the load: NAME if it can reach PostgreSQL's programs, else the cluster's owner. HostFailure
    instead of the owner for an agent that a launcher started: its user must not become the owner."""
    candidate = named(NAME) if system.euid() == 0 else None
    if candidate and reaches(system, candidate, bin_dir, "/tmp"):  # noqa: S108
        return candidate
    if system.launcher():
        raise HostFailure(f"the account {NAME} does not exist, or cannot execute the programs in {bin_dir}", HINT)
    return owner


def end_sessions(database: str = DATABASE, role: str = NAME) -> str:
    """Pure. The query that ends the sessions of this role, and those in this database."""
    return _END_SESSIONS.format(database=database, role=role)


def traces(role: str = NAME) -> str:
    """Pure. The query for the databases where the role owns objects or has privileges. It can be dropped only without
    any."""
    return _TRACES.format(role=role)


def quoted(role: str = NAME) -> str:
    """The role as an SQL identifier."""
    escaped = role.replace('"', '""')
    return f'"{escaped}"'


def creation(major: int, database: str = DATABASE, role: str = NAME) -> list[str]:
    """Pure. Statements for the database postgres that create the role and its database."""
    refused = "nosuperuser nocreatedb nocreaterole noreplication nobypassrls"
    return [
        f"create role {quoted(role)} login {refused}",
        *([f"grant pg_checkpoint to {quoted(role)}"] if major >= 15 else []),
        f"create database {database} template template0 owner {quoted(role)}",
        f"alter database {database} set search_path = {PATH_OF_LOAD}",
    ]


def password(secret: str, role: str = NAME) -> str:
    """The statement that gives the role this password."""
    return f"alter role {quoted(role)} password '{verifier(secret, os.urandom(16))}'"


def drop_owned(role: str = NAME) -> str:
    """Pure. Drops the objects and privileges of the role in one database, and its privileges on tablespaces."""
    return f"drop owned by {quoted(role)}"


def drop_role(role: str = NAME) -> str:
    """Pure. Drops the role, after drop_owned() in each database of traces()."""
    return f"drop role if exists {quoted(role)}"
