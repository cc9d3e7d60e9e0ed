"""PostgreSQL servers that only SQL reaches: registered by an admin, with secrets that are encrypted at rest."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from agents.postgres.remote_server.server import HOST
from apps.accounts.models import Role, User
from apps.accounts.operation import vault
from apps.accounts.services import audit, require, save
from apps.accounts.web.addresses import METADATA
from apps.hosts.models import Host, RemoteServer
from common.errors import PlanError

MOST = 4
# Other names would let a host of clouds give out its credentials.
NEVER = ("metadata", "metadata.google.internal", *METADATA)
FIELDS = ("addresses", "port", "database", "user", "sslmode", "ca_certificate", "client_certificate")
SECRETS = {"password": "password_encrypted", "client_key": "client_key_encrypted"}
VERIFYING = (RemoteServer.SslMode.VERIFY_CA, RemoteServer.SslMode.VERIFY_FULL)


def named(host: Host, name: str) -> RemoteServer:
    """PlanError when the host has none of that name."""
    found = host.remote_servers.filter(name=name).first()
    if found is None:
        known = ", ".join(host.remote_servers.values_list("name", flat=True))
        hint = f"one of {known}" if known else "an admin can add it on the host's page"
        raise PlanError("name", f"{host} has no remote server {name!r}", hint=hint)
    return found


@transaction.atomic
def put(host: Host, name: str, *, by: User, **fields: Any) -> RemoteServer:
    """Add a server, or change the one of that name. Secrets that are "" stay as they are, unless the server changes:
    another server must not get them. Which addresses a host contacts is an admin's decision."""
    require(by, Role.ADMIN, "register remote server", on=host)
    server = host.remote_servers.filter(name=name).first()
    before = _public(server) if server else None
    server = server or RemoteServer(host=host, name=name)
    for field in FIELDS:
        if field in fields:
            setattr(server, field, fields[field])
    _check(server)
    moved = before is not None and any(before[field] != getattr(server, field) for field in ("addresses", "port"))
    for field, column in SECRETS.items():
        given = str(fields.get(field) or "")
        if given or moved:
            setattr(server, column, vault.encrypt(given) if given else "")
    _check_secrets(server, str(fields.get("password") or ""), moved)
    server.changed_by, server.check_error, server.checked, server.checked_at = by, None, {}, None
    save(server)
    audit(by, "remote_server.change" if before else "remote_server.add", host, before=before, after=_public(server))
    return server


@transaction.atomic
def remove(host: Host, name: str, *, by: User) -> None:
    """Queued runs that were planned on it fail when they would begin."""
    require(by, Role.ADMIN, "remove remote server", on=host)
    server = named(host, name)
    audit(by, "remote_server.remove", host, before=_public(server))
    server.delete()


def access(server: RemoteServer) -> dict[str, str]:
    """Its secrets as the agent takes them; never stored or shown."""
    what = f"the secret of remote server {server}"
    opened = {name: vault.decrypt(token, what=what) if token else "" for name, token in _tokens(server).items()}
    known = {"ca": server.ca_certificate, "certificate": server.client_certificate}
    return {"password": opened["password"], "key": opened["client_key"], **known}


def target(host: Host, name: str) -> dict[str, Any]:
    """The part of a spec's target that says where it is."""
    return {"name": name, **named(host, name).place}


def of_run(host: Host, target: Mapping[str, Any] | None) -> dict[str, str] | None:
    """The access for a run with this target; None where it needs none. PlanError when the server of its plan was
    changed or removed."""
    if not target or target["kind"] != "remote_server":
        return None
    server = named(host, target["name"])
    changed = [field for field, value in server.place.items() if target[field] != value]
    if changed:
        hint = "start the campaign again to use the new values"
        raise PlanError("target", f"{changed[0]} of remote server {server} was changed after the plan", hint=hint)
    return access(server)


def _tokens(server: RemoteServer) -> dict[str, str]:
    return {name: str(getattr(server, column)) for name, column in SECRETS.items()}


def _public(server: RemoteServer) -> dict[str, Any]:
    """For the audit log: everything but the secrets, of which it says whether they are there."""
    given = {name: bool(token) for name, token in _tokens(server).items()}
    return {"name": server.name, **{field: getattr(server, field) for field in FIELDS}, **given}


def _check(server: RemoteServer) -> None:
    if not 1 <= len(server.addresses) <= MOST:
        raise PlanError("addresses", f"{len(server.addresses)} addresses", hint=f"accepted: 1 to {MOST}")
    for address in server.addresses:
        _check_address(address)
    if not 1 <= server.port <= 65535:
        raise PlanError("port", f"{server.port} is not a port", hint="accepted: 1 to 65535")
    for field in ("database", "user"):
        if not re.fullmatch(r"[^\x00-\x1f]{1,63}", getattr(server, field)):
            raise PlanError(field, "is required", hint="accepted: 1 to 63 characters on one line")
    if server.sslmode in VERIFYING and not server.ca_certificate:
        hint = "paste the certificate of the CA in PEM form, or choose require"
        raise PlanError("ca_certificate", f"is required for {server.sslmode}", hint=hint)
    for field in ("ca_certificate", "client_certificate"):
        _check_pem(field, getattr(server, field), "CERTIFICATE")


def _check_address(address: str) -> None:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        refused = not re.fullmatch(HOST, address) or address.lower().rstrip(".") in NEVER
    else:
        reserved = parsed.is_link_local or parsed.is_multicast or parsed.is_unspecified
        refused = reserved or str(parsed) in NEVER
    if refused:
        hint = "accepted: host names and IP addresses, but not link-local, multicast or metadata addresses"
        raise PlanError("addresses", f"{address!r:.80} is not accepted", hint=hint)


def _check_pem(field: str, text: str, kind: str) -> None:
    if text and f"-----BEGIN {kind}-----" not in text:
        raise PlanError(field, "is not in PEM form", hint=f"accepted: text that contains -----BEGIN {kind}-----")


def _check_secrets(server: RemoteServer, password: str, moved: bool) -> None:
    tokens = _tokens(server)
    if not any(tokens.values()):
        words = "is required again, because the server changed" if moved else "is required"
        raise PlanError("password", words, hint="give a password, or a client certificate with its key")
    if bool(tokens["client_key"]) != bool(server.client_certificate):
        raise PlanError("client_key", "certificate and key belong together", hint="give both, or neither")
    if re.search(r"[\x00\n\r]", password):
        raise PlanError("password", "has a line break", hint="accepted: a password on one line")
