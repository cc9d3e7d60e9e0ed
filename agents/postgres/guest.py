"""The role of the load in an existing cluster. It owns one database; both are created for the run and dropped after it.

The role logs in with a password of this run, or by `peer` if the load runs as the account of its name. The agent's own
sessions are a superuser's: their search_path has only schemas that the load cannot change (service.SEARCH).
"""

from __future__ import annotations

import os

from ..host.system import System
from ..records.processes import Account
from .cluster import named, reaches
from .load_role import EXTENSIONS, RESET
from .scram import verifier
from .service import DATABASE, TOOLS

NAME = "proving-load"  # of the role, and of the account that `peer` accepts for it
# Whether the names are taken. A run must not drop a database or role that it did not create.
TAKEN = f"""
select json_build_object('database', exists (select from pg_database where datname = '{DATABASE}'),
  'role', exists (select from pg_roles where rolname = '{NAME}'))
"""  # noqa: S608
END_SESSIONS = f"""
select to_json(count(pg_terminate_backend(pid))) from pg_stat_activity
where (datname = '{DATABASE}' or usename = '{NAME}') and pid <> pg_backend_pid()
"""  # noqa: S608
# Databases where the role owns objects or has privileges. It can be dropped only without any.
TRACES = f"""
with load as (select oid from pg_roles where rolname = '{NAME}')
select coalesce(json_agg(datname), '[]') from pg_database where exists (select from load) and (datname = 'postgres'
  or oid in (select dbid from pg_shdepend join load on refobjid = load.oid where refclassid = 'pg_authid'::regclass))
"""  # noqa: S608


def account(system: System, owner: Account, bin_dir: str) -> Account:
    """The account that runs the load: NAME if it can reach PostgreSQL's programs, else the cluster's owner."""
    candidate = named(NAME) if system.euid() == 0 else None
    return candidate if candidate and reaches(system, candidate, bin_dir, "/tmp") else owner  # noqa: S108


def quoted() -> str:
    """The role as an SQL identifier."""
    return f'"{NAME}"'


def creation(major: int) -> list[str]:
    """Pure. Statements for the database postgres that create the role and its database."""
    refused = "nosuperuser nocreatedb nocreaterole noreplication nobypassrls"
    return [
        f"create role {quoted()} login {refused}",
        *([f"grant pg_checkpoint to {quoted()}"] if major >= 15 else []),
        f"create database {DATABASE} template template0 owner {quoted()}",
        f'alter database {DATABASE} set search_path = "$user", public, {TOOLS}',
    ]


def extensions() -> list[str]:
    """Pure. Statements for the database of the load that give it what only a superuser can: extensions, counters."""
    return [
        f"create schema {TOOLS}",
        f"grant usage on schema {TOOLS} to public",
        f"set search_path = {TOOLS}; {EXTENSIONS}",
        RESET.format(role=quoted()),
    ]


def password(secret: str) -> str:
    """The statement that gives the role this password."""
    return f"alter role {quoted()} password '{verifier(secret, os.urandom(16))}'"


def drop_owned() -> str:
    """Pure. Drops the objects and privileges of the role in one database, and its privileges on tablespaces."""
    return f"drop owned by {quoted()}"


def drop_role() -> str:
    """Pure. Drops the role, after drop_owned() in each database of TRACES."""
    return f"drop role if exists {quoted()}"
