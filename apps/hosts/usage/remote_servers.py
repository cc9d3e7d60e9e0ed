"""Remote servers of a host: registered by an admin, with secrets that are encrypted at rest."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from agents.postgres.remote_server.server import CONNECTION, HOST, NAME, SSLMODES
from apps.accounts.models import Role, User
from apps.accounts.services import audit, require, save
from apps.hosts.models import Host, RemoteServer
from apps.infrastructure import addresses, references, vault
from common.errors import HostError, PlanError

MAX_ADDRESSES = 4
METADATA_NAMES = ("metadata", "metadata.google.internal")  # of clouds; they give out credentials
NUMERIC = r"(.*\.)?(\d+|0x[0-9a-f]*)"  # an IPv4 address in another notation, such as 2852039166
MAX_WAIT_MINUTES = 7 * 24 * 60
FIELDS = (*CONNECTION, "use_database", "wait_minutes", "ca_certificate", "client_certificate")
URIS = ("postgresql://", "postgres://")  # of libpq: a name like that could lead to any server
SYSTEM_DATABASES = ("postgres", "template0", "template1")
# Each secret, with the columns that have it encrypted, or have a reference to it.
SECRETS = {
    "password": ("password_encrypted", "password_from"),
    "client_key": ("client_key_encrypted", "client_key_from"),
}
CERTIFICATE = "-----BEGIN CERTIFICATE-----"
VERIFYING = (RemoteServer.SslMode.VERIFY_CA, RemoteServer.SslMode.VERIFY_FULL)


def get(host: Host, name: str) -> RemoteServer:
    """The server of that name. PlanError if the host has none."""
    server = host.remote_servers.filter(name=name).first()
    if server is None:
        known = ", ".join(host.remote_servers.values_list("name", flat=True))
        hint = f"one of {known}" if known else "an admin can add it on the host's page"
        raise PlanError("name", f"{host} has no remote server {name!r}", hint=hint)
    return server


@transaction.atomic
def register(host: Host, name: str, *, by: User, **fields: Any) -> RemoteServer:
    """Add a server, or change the one of that name. A secret that is "" keeps its value, unless another server could
    then get it. A client key is removed with its certificate.

    `password_from` and `client_key_from` are references, which only instance admins may set: an admin of one team could
    otherwise send the secrets of another team to a server of their own."""
    require(by, Role.ADMIN, "register remote server", on=host)
    server = host.remote_servers.filter(name=name).first()
    before = _public(server) if server else None
    server = server or RemoteServer(host=host, name=name)
    for field in FIELDS:
        if field in fields:
            setattr(server, field, fields[field])
    _check(server)
    moved = before is not None and _may_be_another(before, server)
    for field in SECRETS:
        given, reference = str(fields.get(field) or ""), str(fields.get(f"{field}_from") or "")
        if reference:
            _check_reference(f"{field}_from", reference, given, by)
        without_certificate = field == "client_key" and not server.client_certificate and not server.client_key_from
        if given or reference or moved or without_certificate:
            _set_secret(server, field, given, reference)
    _check_secrets(server, str(fields.get("password") or ""), moved)
    server.changed_by, server.check_error, server.checked, server.checked_at = by, None, {}, None
    save(server)
    audit(by, "remote_server.change" if before else "remote_server.add", host, before=before, after=_public(server))
    return server


@transaction.atomic
def remove(host: Host, name: str, *, by: User) -> None:
    """Remove a server with its secrets. Queued runs that were planned on it fail when they start."""
    require(by, Role.ADMIN, "remove remote server", on=host)
    server = get(host, name)
    audit(by, "remote_server.remove", host, before=_public(server))
    server.delete()


def access(server: RemoteServer) -> dict[str, str]:
    """The access of a job: the secrets as they are now, which are never stored or shown. A referenced client key may
    come with its certificate in the same file, so that both are renewed together."""
    password, key = (_open(server, name) for name in ("password", "client_key"))
    certificate = key if server.client_key_from and CERTIFICATE in key else server.client_certificate
    return {"password": password, "key": key, "ca": server.ca_certificate, "certificate": certificate}


def _open(server: RemoteServer, name: str) -> str:
    encrypted, reference = (str(getattr(server, column)) for column in SECRETS[name])
    if reference:
        return references.read(reference)
    return vault.decrypt(encrypted, what=f"the secret of remote server {server}") if encrypted else ""


def connection(server: RemoteServer) -> dict[str, Any]:
    """Address, port, database, user and SSL mode, as the agent expects them."""
    return {name: getattr(server, name) for name in CONNECTION}


def target(host: Host, name: str) -> dict[str, Any]:
    """Name, connection, how long runs wait for changes by hand, and whether they use the database, as in the target of
    a spec."""
    server = get(host, name)
    wait = {"wait_s": server.wait_minutes * 60} if server.wait_minutes else {}
    use = {"use_database": True} if server.use_database else {}
    return {"name": name, **connection(server), **wait, **use}


def access_of_run(host: Host, target: Mapping[str, Any] | None) -> dict[str, str] | None:
    """The access for a run with this target; None if its target is no remote server. PlanError if the server was
    changed or removed after the plan."""
    if not target or target["kind"] != "remote_server":
        return None
    server = get(host, target["name"])
    planned = {**target, "use_database": target.get("use_database", False)}
    current = {**connection(server), "use_database": server.use_database}
    changed = [field for field, value in current.items() if planned[field] != value]
    if changed:
        hint = "start the campaign again to use the new values"
        raise PlanError("target", f"{changed[0]} of remote server {server} was changed after the plan", hint=hint)
    return access(server)


def _may_be_another(before: Mapping[str, Any], server: RemoteServer) -> bool:
    """Whether another server than before could answer and get the secrets: its address, port or CA has changed, or the
    SSL mode verifies less."""
    verifies_less = SSLMODES.index(server.sslmode) < SSLMODES.index(before["sslmode"])
    other_ca = before["ca_certificate"] not in ("", server.ca_certificate)
    return verifies_less or other_ca or any(before[field] != getattr(server, field) for field in ("addresses", "port"))


def _set_secret(server: RemoteServer, name: str, secret: str, reference: str) -> None:
    """Keep the secret encrypted, or the reference to it, or neither."""
    encrypted, place = SECRETS[name]
    setattr(server, encrypted, vault.encrypt(secret) if secret else "")
    setattr(server, place, reference)


def _check_reference(field: str, reference: str, given: str, by: User) -> None:
    require(by, Role.ADMIN, "use a secret of the server")
    references.check(field, reference)
    if given:
        raise PlanError(field, "is given twice", hint="give the secret or its reference")
    try:
        references.read(reference)
    except HostError as error:
        raise PlanError(field, f"{error.subject} {error.message}", hint=error.hint) from error


def _known(server: RemoteServer) -> dict[str, bool]:
    return {name: any(getattr(server, column) for column in columns) for name, columns in SECRETS.items()}


def _public(server: RemoteServer) -> dict[str, Any]:
    """For the audit log: all fields, but only whether a secret is set, or its reference."""
    places = {place: getattr(server, place) for _, place in SECRETS.values() if getattr(server, place)}
    return {"name": server.name, **{field: getattr(server, field) for field in FIELDS}, **_known(server), **places}


def _check(server: RemoteServer) -> None:
    if not 1 <= len(server.addresses) <= MAX_ADDRESSES:
        raise PlanError("addresses", f"{len(server.addresses)} addresses", hint=f"accepted: 1 to {MAX_ADDRESSES}")
    for address in server.addresses:
        _check_address(address)
    if not 1 <= server.port <= 65535:
        raise PlanError("port", f"{server.port} is not a port", hint="accepted: 1 to 65535")
    if not 0 <= server.wait_minutes <= MAX_WAIT_MINUTES:
        message = f"{server.wait_minutes} minutes are not accepted"
        raise PlanError("wait_minutes", message, hint=f"accepted: 0 to {MAX_WAIT_MINUTES}, which is a week")
    for field in ("database", "user"):
        if not re.fullmatch(NAME, getattr(server, field)):
            raise PlanError(field, "is required", hint="accepted: 1 to 63 characters on one line")
    if "=" in server.database or server.database.startswith(URIS):
        hint = "accepted: a name without =, which does not begin with postgresql://"
        raise PlanError("database", "would be read as a connection string by psql and pgbench", hint=hint)
    if server.use_database and server.database in SYSTEM_DATABASES:
        message = f"{server.database} belongs to the server, so runs do not use it"
        raise PlanError("database", message, hint="accepted: an empty database that only runs use")
    if server.sslmode in VERIFYING and not server.ca_certificate:
        hint = "paste the certificate of the CA in PEM form, or choose require"
        raise PlanError("ca_certificate", f"is required for {server.sslmode}", hint=hint)
    for field in ("ca_certificate", "client_certificate"):
        _check_pem(field, getattr(server, field), "CERTIFICATE")


def _check_address(address: str) -> None:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        name = address.lower()
        is_accepted = re.fullmatch(HOST, name) and not re.fullmatch(NUMERIC, name) and name not in METADATA_NAMES
    else:
        is_accepted = not addresses.is_reserved(parsed)
    if not is_accepted:
        hint = "accepted: host names and IP addresses, but not link-local, multicast or metadata addresses"
        raise PlanError("addresses", f"{address!r:.80} is not accepted", hint=hint)


def _check_pem(field: str, text: str, kind: str) -> None:
    if text and f"-----BEGIN {kind}-----" not in text:
        raise PlanError(field, "is not in PEM form", hint=f"accepted: text that contains -----BEGIN {kind}-----")


def _check_secrets(server: RemoteServer, password: str, moved: bool) -> None:
    known = _known(server)
    if not any(known.values()):
        message = "is required again, because the server changed" if moved else "is required"
        raise PlanError("password", message, hint="give a password, or a client certificate with its key")
    if known["client_key"] != bool(server.client_certificate) and not server.client_key_from:
        raise PlanError("client_key", "certificate and key belong together", hint="give both, or neither")
    if re.search(r"[\x00\n\r]", password):
        raise PlanError("password", "has a line break", hint="accepted: a password on one line")
