"""Add, change, check, release and remove hosts, and pin their keys."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import CASCADE
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.accounts.models.walls import everything
from apps.accounts.services import audit, require, save
from apps.hosts import contact
from apps.hosts.access import hops, keys, ssh
from apps.hosts.facts import machines
from apps.hosts.models import Host, HostKey, Identity, RemoteServer, Trouble
from apps.hosts.usage import remote_servers, windows
from apps.infrastructure import addresses, references, vault, waking
from common.errors import HostError, PlanError, WorkloadError

# Fields that decide which machine and account a contact reaches, and what runs there first. If a user changed them
# with a key that also opens other hosts, they would reach those.
WAY = ("address", "port", "user", "sudo", "identity_id", "jump_id", "python", "spool_dir", "launcher")
CHECK_S = 180.0  # each address may time out


@transaction.atomic
def create_identity(
    name: str, *, private_key: str = "", private_key_from: str = "", certificate_from: str = "", by: User
) -> Identity:
    """Create a key pair for logins: a new one, the uploaded one, or the one that a reference names."""
    require(by, Role.ADMIN, "create identity")
    identity = Identity(name=name, private_key_from=private_key_from, certificate_from=certificate_from)
    if private_key_from:
        if private_key:
            raise PlanError("private_key", "is given twice", hint="give the key or its reference")
        references.check("private_key_from", private_key_from)
    else:
        pair = keys.read_private(private_key) if private_key else keys.generate(f"proving-ground {name}")
        identity.public_key, identity.private_key_encrypted = pair[0], vault.encrypt(pair[1])
    _try_login(identity, "private_key_from" if private_key_from else "certificate_from")
    save(identity)
    audit(by, "identity.create", identity, after=_sources(identity))
    return identity


@transaction.atomic
def change_certificate(identity: Identity, certificate_from: str, *, by: User) -> None:
    """Log in with the certificate that a reference names, or without one if it is ""."""
    require(by, Role.ADMIN, "change certificate")
    before = _sources(identity)
    identity.certificate_from = certificate_from
    _try_login(identity, "certificate_from")
    save(identity)
    audit(by, "identity.certificate", identity, before=before, after=_sources(identity))


def _try_login(identity: Identity, field: str) -> None:
    """Read key and certificate as a connection would. PlanError that names the reference that does not work."""
    if identity.certificate_from:
        references.check("certificate_from", identity.certificate_from)
    try:
        identity.public_key = keys.login(identity).public_key
    except HostError as error:
        wrong = "certificate_from" if error.subject == identity.certificate_from else field
        raise PlanError(wrong, f"{error.subject} {error.message}", hint=error.hint) from error


def _sources(identity: Identity) -> dict[str, str]:
    """For the audit log: which key it is, and from where it is read."""
    names = ("public_key", "private_key_from", "certificate_from")
    return {name: getattr(identity, name) for name in names if getattr(identity, name)}


@transaction.atomic
def add_host(*, by: User, **fields: Any) -> Host:
    """Add a host, without connecting to it. PlanError names the invalid field."""
    host = Host(**fields)
    require(by, Role.ADMIN, "add host", on=host)
    _check_way(host, by)
    host.labels = sorted(set(host.labels))
    windows.read(host.windows, host.time_zone)
    _check_address(host)
    save(host)
    audit(by, "host.add", host, after=_public(host))
    return host


@transaction.atomic
def archive_host(name: str, *, by: User) -> Host:
    """Return the host of that name, or a new one that is only a name: for results from elsewhere. Nothing can run
    there."""
    known = Host.objects.filter(name=name).first()
    require(by, Role.OPERATOR, "add archive host", on=known)
    if known:
        return known
    host = Host(name=name, state=Host.State.ARCHIVE)
    save(host)
    audit(by, "host.archive", host)
    return host


@transaction.atomic
def change_host(host: Host, *, by: User, **fields: Any) -> Host:
    """Change the connection or the team of a host.

    Moving it to another team needs admins of both. Changing the connection needs the same rights on key and jump
    host as adding it. After a change of the address, its key has to be approved again."""
    require(by, Role.ADMIN, "change host", on=host)
    before, way = _public(host), _way(host)
    for name, value in fields.items():
        setattr(host, name, value)
    require(by, Role.ADMIN, "transfer host to a team", on=host)
    if _way(host) != way:
        _check_way(host, by)
    host.labels = sorted(set(host.labels))
    windows.read(host.windows, host.time_zone)
    _check_address(host)
    if (host.address, host.port) != (before["address"], before["port"]):
        host.host_keys.filter(state=HostKey.State.PINNED).update(state=HostKey.State.RETIRED)
        host.state = Host.State.NEW
    save(host)
    audit(by, "host.change", host, before=before, after=_public(host))
    return host


@transaction.atomic
def remove_host(host: Host, *, by: User) -> None:
    """Delete a host that nothing refers to. PlanError names what does.

    Its keys, facts, permissions and its part in decisions by label are deleted with it."""
    require(by, Role.ADMIN, "remove host", on=host)
    referring = _referring(host)
    if referring:
        hint = "its results are kept; use a reservation or maintenance windows to keep runs away"
        raise PlanError("host", f"{host} is named by {', '.join(referring)}", hint=hint)
    audit(by, "host.remove", host, before=_public(host))
    host.delete()


def _referring(host: Host) -> list[str]:
    """Return what would be lost or would lose its host: everything that CASCADE does not delete. Problems count,
    because they belong to runs."""
    related = Host._meta.related_objects
    relations = [
        relation for relation in related if relation.on_delete is not CASCADE or relation.related_model is Trouble
    ]
    with everything():
        referring = [relation for relation in relations if getattr(host, str(relation.get_accessor_name())).exists()]
    return sorted({str(relation.related_model._meta.verbose_name_plural) for relation in referring})


def fetch_host_key(host: Host, *, by: User) -> HostKey:
    """Fetch the key of the host and store it as offered. A user has to approve it."""
    require(by, Role.ADMIN, "fetch host key", on=host)
    if host.state == Host.State.ARCHIVE:
        hint = "set its address, account and SSH key first"
        raise PlanError("host", f"{host} exists only in imported results", hint=hint)
    key = hops.fetch_host_key(host)
    known = host.host_keys.filter(key=key).exclude(state=HostKey.State.RETIRED).first()
    if known:
        return known
    with transaction.atomic():
        offered = HostKey.objects.create(host=host, key=key, fingerprint=keys.fingerprint(key))
        audit(by, "host_key.fetch", host, after={"fingerprint": offered.fingerprint})
    return offered


@transaction.atomic
def approve_host_key(host: Host, fingerprint: str, *, by: User) -> HostKey:
    """Pin the offered key with this fingerprint and retire the earlier one.

    The key decides which machine is reached, so this needs the rights of a change of the connection."""
    require(by, Role.ADMIN, "approve host key", on=host)
    _check_way(host, by)
    offered = host.host_keys.filter(fingerprint=fingerprint, state=HostKey.State.OFFERED).first()
    if offered is None:
        raise PlanError("fingerprint", f"{host} did not offer {fingerprint!r}", hint="fetch the host key first")
    host.host_keys.filter(state=HostKey.State.PINNED).update(state=HostKey.State.RETIRED)
    offered.state, offered.approved_by, offered.approved_at = HostKey.State.PINNED, by, timezone.now()
    offered.save()
    audit(by, "host_key.approve", host, after={"fingerprint": fingerprint})
    return offered


def install_units(host: Host, *, by: User) -> list[str]:
    """Install the systemd units that supervise runs. Returns the files that were written."""
    return list(_ask(host, "install", "install units", "written", by))


def uninstall_units(host: Host, *, by: User) -> list[str]:
    """Remove the units. Returns the files that were removed. PlanError while a run is active."""
    return list(_ask(host, "uninstall", "uninstall units", "removed", by))


def restore_host(host: Host, *, by: User) -> list[dict[str, Any]]:
    """Make the agent restore what dead runs left. Returns the actions for each run."""
    return list(_ask(host, "restore", "restore host", "recovered", by))


def _ask(host: Host, verb: str, action: str, key: str, by: User) -> Any:
    require(by, Role.ADMIN, action, on=host)
    answer = contact.ask(host, verb)[key]
    audit(by, f"host.{verb}", host, after={key: answer})
    return answer


def query_remote_server(host: Host, name: str, *, by: User) -> RemoteServer:
    """Make the agent connect to a remote server, and store the answer, or the error, with the server."""
    require(by, Role.OPERATOR, "check remote server", on=host)
    server = remote_servers.get(host, name)
    installed: list[dict[str, Any]] = host.facts.get("postgresql", [])
    bin_dir = max(installed, key=lambda each: each["major"])["bin_dir"] if installed else ""
    answer, error = dict[str, Any](), None
    try:
        with ssh.Link(host) as link:
            contact.record_contact(host, link.hello)
            if link.hello["busy"]:
                raise PlanError("host", f"{host} measures run {link.hello['busy']}", hint="check again when it ends")
            request = {"server": remote_servers.connection(server), "access": remote_servers.access(server)}
            answer = link.call("remote", **request, bin_dir=bin_dir, timeout_s=CHECK_S)
    except (HostError, WorkloadError) as failure:
        error = failure.as_dict()
    changes = {"checked": answer or server.checked, "check_error": error, "checked_at": timezone.now()}
    # Not if an admin has changed the server meanwhile, because the answer is about the earlier one.
    RemoteServer.objects.filter(pk=server.pk, changed_at=server.changed_at).update(**changes)
    return remote_servers.get(host, name)


@transaction.atomic
def request_check(host: Host, *, by: User) -> None:
    """Request that a worker connects and reads the facts soon."""
    require(by, Role.OPERATOR, "check host", on=host)
    if host.pinned_key is None:
        raise PlanError("host", f"the host key of {host} is not approved", hint="fetch, compare and approve it")
    Host.objects.filter(pk=host.pk).update(check_requested_at=timezone.now())
    transaction.on_commit(lambda: waking.send("hosts.check", str(host.pk)))


def accept_machine(host: Host, *, by: User) -> None:
    """Trust the machine-id that the host reports now, and check it again."""
    machines.accept(host, by=by)
    request_check(host, by=by)


@transaction.atomic
def release_host(host: Host, *, by: User) -> None:
    """Have the agent restore what is left, by a worker. If that succeeds, the host takes runs again."""
    require(by, Role.ADMIN, "release host", on=host)
    if not Host.objects.filter(pk=host.pk, state=Host.State.QUARANTINED).exists():
        raise PlanError("host", f"{host} is not in quarantine")
    Host.objects.filter(pk=host.pk).update(release_requested_at=timezone.now(), release_requested_by=by)
    audit(by, "host.release", host, before={"reason": host.state_reason})
    transaction.on_commit(lambda: waking.send("hosts.release", str(host.pk)))


@transaction.atomic
def dismiss(trouble: Trouble, *, by: User) -> Trouble:
    """Dismiss a conflict and leave the value as it is. Values that were not restored are released, never dismissed."""
    require(by, Role.OPERATOR, "dismiss conflict", on=trouble.host)
    if trouble.kind == Trouble.Kind.DIRTY:
        hint = "restore the host, then release it"
        raise PlanError("trouble", f"{trouble.host} is not restored: that cannot be dismissed", hint=hint)
    open_ones = Trouble.objects.filter(pk=trouble.pk, closed_at=None)
    if not open_ones.update(closed_at=timezone.now(), closed_by=by, resolution=f"dismissed by {by}"):
        raise PlanError("trouble", f"already resolved: {trouble.resolution}")
    audit(by, "trouble.dismiss", trouble.host, before={"run": str(trouble.run), "keys": trouble.keys})
    trouble.refresh_from_db()
    return trouble


def _way(host: Host) -> tuple[Any, ...]:
    return tuple(getattr(host, name) for name in WAY)


def _check_way(host: Host, by: User) -> None:
    """Check rights on jump host and key: connecting through a host uses it, and a key opens every host that has it."""
    if host.jump:
        require(by, Role.OPERATOR, "connect through", on=host.jump)
        if host.jump.state == Host.State.ARCHIVE:
            hint = "choose a host that is reached over SSH"
            raise PlanError("jump", f"{host.jump} exists only in imported results and cannot be reached", hint=hint)
    if host.identity:
        require(by, Role.ADMIN, "use SSH key", on=host.identity)


def _check_address(host: Host) -> None:
    for field in ("address", "user", "identity"):
        if not getattr(host, field):
            raise PlanError(field, "required for a host that the server contacts", hint="address, user and identity")
    if host.jump_id is None and host.address:
        try:
            addresses.resolve(host.address)
        except HostError as error:
            raise PlanError("address", error.message, hint=error.hint) from error


def _public(host: Host) -> dict[str, Any]:
    names = [
        *("name", "address", "port", "user", "sudo", "launcher", "python", "spool_dir", "data_dir"),
        *("pg_bin_dirs", "pg_data_dirs", "os_user", "labels"),
    ]
    return {name: getattr(host, name) for name in (*names, "may_reboot", "windows", "time_zone")} | {
        "identity": str(host.identity),
        "jump": str(host.jump or ""),
        "team": str(host.team or ""),
    }
