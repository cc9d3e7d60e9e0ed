"""An existing database that an admin has allowed: a run creates its own schema there, and drops it afterwards.

The database must be empty, so that no object of another user is at risk. Every object that the role creates during the
run belongs to the run, also outside its schema. Inventories before and after the run show what has changed.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, Sequence

from ...errors import HostFailure, Unplannable
from ...records.spool import Record
from ..guest import quoted
from .server import RemoteServer

SEARCH_PATH = "search_path"
_IS_SYSTEM = r"'^(pg_|information_schema$)'"
# The class of objects -> the column of their owner. Casts have none. Objects of extensions and those that belong to
# another object, such as the row type of a table, are left out below.
_OWNERS = {
    "pg_namespace": "nspowner", "pg_class": "relowner", "pg_proc": "proowner", "pg_type": "typowner",
    "pg_operator": "oprowner", "pg_collation": "collowner", "pg_conversion": "conowner", "pg_cast": "0",
    "pg_ts_config": "cfgowner", "pg_ts_dict": "dictowner", "pg_language": "lanowner", "pg_extension": "extowner",
    "pg_foreign_data_wrapper": "fdwowner", "pg_foreign_server": "srvowner", "pg_event_trigger": "evtowner",
    "pg_publication": "pubowner", "pg_largeobject_metadata": "lomowner", "pg_default_acl": "defaclrole",
}  # fmt: skip
_WITHOUT_OWNER = "('pg_cast'::regclass, 'pg_user_mapping'::regclass, 'pg_transform'::regclass)"
_RELATIONS = "relkind in ('r', 'p', 'v', 'm', 'S', 'f', 'c')"  # indexes and TOAST tables belong to a table
_IDENTIFIED = {"pg_largeobject_metadata": "pg_largeobject"}  # the class by which PostgreSQL identifies its objects
_FIRST_NORMAL_OID = 16384
_HARMLESS = ("schema", "extension")  # types of objects that an empty database may have
_DATABASE = """
select json_build_object('owner', pg_get_userbyid(datdba), 'acl', datacl::text, 'limit', datconnlimit,
  'settings', (select coalesce(json_agg(row_to_json(s) order by s.setrole), '[]')
    from (select setrole, setconfig::text from pg_db_role_setting where setdatabase = d.oid) s))
from pg_database d where datname = current_database()
"""
_RIGHTS = """
select json_build_object('create', has_database_privilege(current_database(), 'create'),
  'others', (select count(*) from pg_stat_activity
    where datname = current_database() and usename = current_user and pid <> pg_backend_pid()))
"""


def _objects() -> str:
    """Rows (classid, objid, owner, acl) of the objects of users. A cast has no owner."""
    return " union all ".join(map(_objects_of, _OWNERS))


def _objects_of(name: str) -> str:
    identified, acl = _IDENTIFIED.get(name, name), "nspacl::text" if name == "pg_namespace" else "null"
    return (
        f"select '{identified}'::regclass::oid as classid, oid as objid, {_OWNERS[name]}::oid as owner, {acl} as acl "  # noqa: S608
        f"from {name} where oid >= {_FIRST_NORMAL_OID} and {_RELATIONS if name == 'pg_class' else 'true'}"
    )


def _inventory_query() -> str:
    return f"""
select coalesce(json_agg(json_build_object('class', o.classid::regclass::text, 'oid', o.objid::text, 'type', i.type,
  'name', i.identity, 'owner', pg_get_userbyid(o.owner), 'acl', o.acl, 'own', o.owner = r.oid)
  order by o.classid, o.objid), '[]')
from (select 'pg_namespace'::regclass::oid as classid, oid as objid, nspowner as owner, nspacl::text as acl
    from pg_namespace where nspname = 'public' and oid < {_FIRST_NORMAL_OID} union all {_objects()}) o
  cross join lateral pg_identify_object(o.classid, o.objid, 0) i
  cross join (select oid from pg_roles where rolname = current_user) r
where not exists (select from pg_depend d where d.classid = o.classid and d.objid = o.objid and d.objsubid = 0
    and d.deptype in ('e', 'i'))
  and coalesce(i.schema, '') !~ {_IS_SYSTEM} and not (i.type = 'schema' and i.identity ~ '^pg_(toast_)?temp')
"""  # noqa: S608


def inventory(server: RemoteServer, database: str) -> Record:
    """{"database": its owner, privileges and settings, "objects": [{"class", "oid", "type", "name", "owner", "acl",
    "own": whether the role owns it}]}."""
    return {"database": server.sql(_DATABASE, database), "objects": server.sql(_inventory_query(), database)}


def check(server: RemoteServer, identity: Record, database: str, conf: Mapping[str, str]) -> None:
    """HostFailure or Unplannable if a run cannot use the database, or could change its contents."""
    if identity["superuser"]:
        hint = "register a role without SUPERUSER that owns the database or may create schemas in it"
        raise HostFailure(f"{server.user} is a superuser, which is not allowed in an existing database", hint)
    if SEARCH_PATH in conf:
        raise Unplannable(f"postgresql.{SEARCH_PATH}", conf[SEARCH_PATH], "no value: the run sets its own schema")
    rights = server.sql(_RIGHTS, database)
    if not rights["create"]:
        hint = f"GRANT CREATE ON DATABASE {quoted(database)} TO {quoted(server.user)}"
        raise HostFailure(f"{server.user} cannot create schemas in {database} of {server.label}", hint)
    if rights["others"]:
        message = f"{server.user} has other sessions in {database} of {server.label}: {rights['others']}"
        raise HostFailure(message, "use a role that only runs use: its sessions are ended after the run")
    check_empty(server, database, inventory(server, database)["objects"], "")


def check_empty(server: RemoteServer, database: str, objects: Iterable[Record], own: str) -> None:
    """HostFailure if the database has objects other than empty schemas and extensions; `own`: the run's schema."""
    refused = [each for each in objects if each["type"] not in _HARMLESS or _is_of_a_run(each, own)]
    if refused:
        named = ", ".join(f"{each['type']} {each['name']}" for each in refused[:3])
        more = f" and {len(refused) - 3} more" if len(refused) > 3 else ""
        hint = "use an empty database; if these are of a run that has ended, drop them"
        raise HostFailure(f"the database {database} of {server.label} is not empty: {named}{more}", hint)


def _is_of_a_run(each: Record, own: str) -> bool:
    return bool(each["type"] == "schema" and each["name"].startswith("proving_ground_") and each["name"] != own)


def options(schema: str, values: Mapping[str, str]) -> str:
    """Pure. PGOPTIONS of the load: the parameters of its sessions, which change nothing on the server."""
    pairs = {SEARCH_PATH: schema, **values}
    return " ".join(f"-c {name}={_escaped(value)}" for name, value in pairs.items())


def _escaped(value: str) -> str:
    return re.sub(r"([\\\s])", r"\\\1", value)


def new_objects(before: Record, after: Record) -> list[Record]:
    """Pure. Objects that are not in the inventory before; the newest first, because they can depend on older ones."""
    known = {(each["class"], each["oid"]) for each in before["objects"]}
    new = [each for each in after["objects"] if (each["class"], each["oid"]) not in known]
    return sorted(new, key=lambda each: -int(each["oid"]))


def dependents(server: RemoteServer, database: str, objects: Sequence[Record]) -> list[str]:
    """What depends on these objects of the role and belongs to another user, such as "constraint fk on table theirs":
    CASCADE would drop it."""
    described: list[str] = server.sql(_dependents_query(objects), database) if objects else []
    return described


def _dependents_query(objects: Sequence[Record]) -> str:
    """Pure. With the objects, the role also owns what is part of them, such as their constraints. It does not own a
    relation of another owner, such as a partition, and does own the members of an extension."""
    rows = ", ".join(f"('{each['class']}'::regclass::oid, {int(each['oid'])}::oid)" for each in objects)
    return f"""
with recursive own(classid, objid) as (
  values {rows}
  union select d.classid, d.objid from pg_depend d join own o on d.refclassid = o.classid and d.refobjid = o.objid
  where d.deptype in ('a', 'i', 'e', 'P', 'S', 'I') and (d.deptype = 'e' or not exists (
    select from pg_class c join pg_roles r on r.rolname = current_user
    where d.classid = 'pg_class'::regclass and c.oid = d.objid and c.relowner <> r.oid)))
select coalesce(json_agg(distinct pg_describe_object(d.classid, d.objid, d.objsubid)), '[]')
from pg_depend d join own o on d.refclassid = o.classid and d.refobjid = o.objid
where d.classid not in {_WITHOUT_OWNER}
  and not exists (select from own where own.classid = d.classid and own.objid = d.objid)
"""  # noqa: S608


def drop_statement(each: Record) -> str:
    """Pure. The statement that drops an object, and what depends on it."""
    if each["type"] == "large object":
        return f"select to_json(lo_unlink({int(each['oid'])}))"
    name = re.sub(r"\(\)$", "(*)", each["name"]) if each["type"] == "aggregate" else each["name"]
    return f"drop {each['type'].replace('-', ' ')} if exists {name} cascade"  # as in: foreign-data wrapper


def differences(before: Record, after: Record) -> list[str]:
    """Pure. What differs between two inventories; [] if nothing does."""
    was, now = ({_line(each) for each in inventory["objects"]} for inventory in (before, after))
    lines = [*(f"missing: {each}" for each in sorted(was - now)), *(f"new: {each}" for each in sorted(now - was))]
    return lines + ([] if before["database"] == after["database"] else ["properties of the database"])


def _line(each: Mapping[str, Any]) -> str:
    acl = f" {each['acl']}" if each["acl"] else ""
    return f"{each['type']} {each['name']}, owner {each['owner']}{acl}"
