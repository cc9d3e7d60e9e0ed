"""The load in somebody else's cluster: a role of the run's own that reaches one database, which is the run's own too.

It is let in by a password of this run, or by `peer` where an account of its name runs the load. Our own sessions there
are a superuser's. So they resolve names in schemas alone that the load cannot change: service.SEARCH.
"""

from __future__ import annotations

import os

from ..host.system import System
from ..records.processes import Account
from .cluster import named, reaches
from .load_role import EXTENSIONS, RESET
from .scram import verifier
from .service import DATABASE, TOOLS

NAME = "proving-load"  # of the role, and of the account that `peer` lets in as it
# Whether the names are free: what is there already is not ours, and must not be dropped.
TAKEN = f"""
select json_build_object('database', exists (select from pg_database where datname = '{DATABASE}'),
  'role', exists (select from pg_roles where rolname = '{NAME}'))
"""  # noqa: S608
END_SESSIONS = f"""
select to_json(count(pg_terminate_backend(pid))) from pg_stat_activity
where (datname = '{DATABASE}' or usename = '{NAME}') and pid <> pg_backend_pid()
"""  # noqa: S608
# Databases where the role owns something, or was granted something: it can go when nothing of that is left.
TRACES = f"""
with ours as (select oid from pg_roles where rolname = '{NAME}')
select coalesce(json_agg(datname), '[]') from pg_database where exists (select from ours) and (datname = 'postgres'
  or oid in (select dbid from pg_shdepend join ours on refobjid = ours.oid where refclassid = 'pg_authid'::regclass))
"""  # noqa: S608


def account(system: System, owner: Account, bin_dir: str) -> Account:
    """Who runs the load: the account NAME where it can, so that no program of the load is the cluster's owner."""
    candidate = named(NAME) if system.euid() == 0 else None
    return candidate if candidate and reaches(system, candidate, bin_dir, "/tmp") else owner  # noqa: S108


def quoted() -> str:
    """The role in a statement."""
    return f'"{NAME}"'


def making(major: int) -> list[str]:
    """Pure. What makes role and database, in the database postgres."""
    refused = "nosuperuser nocreatedb nocreaterole noreplication nobypassrls"
    return [
        f"create role {quoted()} login {refused}",
        *([f"grant pg_checkpoint to {quoted()}"] if major >= 15 else []),
        f"create database {DATABASE} template template0 owner {quoted()}",
        f'alter database {DATABASE} set search_path = "$user", public, {TOOLS}',
    ]


def equipping() -> list[str]:
    """Pure. What the load needs of a superuser's in its database, before it first connects."""
    return [
        f"create schema {TOOLS}",
        f"grant usage on schema {TOOLS} to public",
        f"set search_path = {TOOLS}; {EXTENSIONS}",
        RESET.format(role=quoted()),
    ]


def password(secret: str) -> str:
    """The statement that gives the role this password."""
    return f"alter role {quoted()} password '{verifier(secret, os.urandom(16))}'"


def forgetting() -> str:
    """Pure. Drops what the role has in one database, and what it was granted on tablespaces."""
    return f"drop owned by {quoted()}"


def dropping() -> str:
    """Pure."""
    return f"drop role if exists {quoted()}"
