"""An existing database that an admin has allowed: a run uses a schema of its own there, and drops it after the run.

The database must be empty, so that no object of another user is at risk. Every object that the run's role creates
during the run is the run's, also outside its schema. `inventory` compares the database before and after.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ...errors import HostFailure, Unplannable
from ...records.spool import Record
from ..guest import quoted
from .server import RemoteServer

SEARCH_PATH = "search_path"
_IS_SYSTEM = r"'^(pg_|information_schema$)'"
# Classes of objects, and a condition for each. Objects of extensions and those that belong to another object, such as
# the row type of a table, are left out below.
_CLASSES = {
    "pg_namespace": "true",
    "pg_class": "relkind in ('r', 'p', 'v', 'm', 'S', 'f', 'c')",
    "pg_proc": "true",
    "pg_type": "true",
    "pg_operator": "true",
    "pg_collation": "true",
    "pg_conversion": "true",
    "pg_cast": "true",
    "pg_ts_config": "true",
    "pg_ts_dict": "true",
    "pg_language": "true",
    "pg_extension": "true",
    "pg_foreign_data_wrapper": "true",
    "pg_foreign_server": "true",
    "pg_event_trigger": "true",
    "pg_publication": "true",
    "pg_largeobject_metadata": "true",
    "pg_default_acl": "true",
}
_IDENTIFIED = {"pg_largeobject_metadata": "pg_largeobject"}  # the class by which PostgreSQL identifies its objects
_FIRST_NORMAL_OID = 16384
_ALLOWED = ("schema", "extension")
_OWNERS = {
    "pg_namespace": "nspowner", "pg_class": "relowner", "pg_proc": "proowner", "pg_type": "typowner",
    "pg_operator": "oprowner", "pg_collation": "collowner", "pg_conversion": "conowner", "pg_ts_config": "cfgowner",
    "pg_ts_dict": "dictowner", "pg_language": "lanowner", "pg_extension": "extowner",
    "pg_foreign_data_wrapper": "fdwowner", "pg_foreign_server": "srvowner", "pg_event_trigger": "evtowner",
    "pg_publication": "pubowner", "pg_largeobject_metadata": "lomowner", "pg_default_acl": "defaclrole",
}  # fmt: skip
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
    return " union all ".join(map(_objects_of, _CLASSES))


def _objects_of(name: str) -> str:
    identified, acl = _IDENTIFIED.get(name, name), "nspacl::text" if name == "pg_namespace" else "null"
    return (
        f"select '{identified}'::regclass::oid as classid, oid as objid, {_OWNERS.get(name, '0')}::oid as owner, "  # noqa: S608
        f"{acl} as acl from {name} where oid >= {_FIRST_NORMAL_OID} and {_CLASSES[name]}"
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
    """HostFailure or Unplannable if a run cannot use the database, or could change what is in it."""
    if identity["superuser"]:
        hint = "register a role without SUPERUSER that owns the database or may create schemas in it"
        raise HostFailure(f"{server.user} is a superuser, which runs in an existing database do not use", hint)
    if SEARCH_PATH in conf:
        raise Unplannable(f"postgresql.{SEARCH_PATH}", conf[SEARCH_PATH], "nothing here: it leads to the run's schema")
    rights = server.sql(_RIGHTS, database)
    if not rights["create"]:
        hint = f"GRANT CREATE ON DATABASE {quoted(database)} TO {quoted(server.user)}"
        raise HostFailure(f"{server.user} cannot create schemas in {database} of {server.label}", hint)
    if rights["others"]:
        message = f"{server.user} has {rights['others']} other sessions in {database} of {server.label}"
        raise HostFailure(message, "use a role that only runs use: its sessions are ended after the run")
    check_empty(server, database, inventory(server, database)["objects"], "")


def check_empty(server: RemoteServer, database: str, objects: Iterable[Record], own: str) -> None:
    """HostFailure if the database has objects other than empty schemas and extensions; `own`: the run's schema."""
    found = [each for each in objects if each["type"] not in _ALLOWED or _is_of_a_run(each, own)]
    if found:
        named = ", ".join(f"{each['type']} {each['name']}" for each in found[:3])
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        hint = "use an empty database; if these are of a run that has ended, drop them"
        raise HostFailure(f"the database {database} of {server.label} is not empty: {named}{more}", hint)


def _is_of_a_run(each: Record, own: str) -> bool:
    return bool(each["type"] == "schema" and each["name"].startswith("proving_ground_") and each["name"] != own)


def options(schema: str, values: Mapping[str, str]) -> str:
    """Pure. PGOPTIONS of the load: parameters of its sessions, which leave nothing on the server."""
    pairs = {SEARCH_PATH: schema, **values}
    return " ".join(f"-c {name}={_escaped(value)}" for name, value in pairs.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


def new_objects(before: Record, after: Record) -> list[Record]:
    """Pure. Objects that are not in the inventory before; the newest first, because they can depend on older ones."""
    known = {(each["class"], each["oid"]) for each in before["objects"]}
    new = [each for each in after["objects"] if (each["class"], each["oid"]) not in known]
    return sorted(new, key=lambda each: -int(each["oid"]))


def drop_statement(each: Record) -> str:
    """Pure. The statement that drops an object."""
    if each["type"] == "large object":
        return f"select to_json(lo_unlink({int(each['oid'])}))"
    return f"drop {each['type']} if exists {each['name']} cascade"


def differences(before: Record, after: Record) -> list[str]:
    """Pure. What differs between two inventories; [] if nothing does."""
    was, now = ({_line(each) for each in taken["objects"]} for taken in (before, after))
    lines = [*(f"missing: {each}" for each in sorted(was - now)), *(f"new: {each}" for each in sorted(now - was))]
    return lines + ([] if before["database"] == after["database"] else ["properties of the database"])


def _line(each: Mapping[str, Any]) -> str:
    acl = f" {each['acl']}" if each["acl"] else ""
    return f"{each['type']} {each['name']}, owner {each['owner']}{acl}"
