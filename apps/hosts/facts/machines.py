"""The identity of a host's machine: its machine-id together with its approved host key.

The machine-id is an unverified claim. A hostile host that claims the id of another one would share its queue and
epoch. So the first contact after the approval of a key binds both, and another pair needs approval."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q

from apps.accounts.models import Role, User
from apps.accounts.models.walls import everything
from apps.accounts.services import audit, require
from apps.hosts.models import Host, HostKey
from common.errors import HostError, PlanError, RoleError


def check(host: Host, machine_id: str, boot_id: str) -> None:
    """Bind the machine-id to the pinned key, or compare it with the bound one. HostError if they differ."""
    key = host.pinned_key
    if key is None or key.machine_id == machine_id:
        return
    others = _others(host, key, machine_id)
    if not key.machine_id and not others:
        if machine_id != boot_id:  # without a machine-id, the agent reports the boot ID
            _bind(host, key, machine_id)
        return
    Host.objects.filter(pk=host.pk).update(claimed_machine_id=machine_id)
    message, hint = _refusal(key, machine_id, others)
    raise HostError(host, message, hint=hint)


@transaction.atomic
def _bind(host: Host, key: HostKey, machine_id: str) -> None:
    """Bind them one at a time: of two hosts that claim the same machine-id for the first time, only one can be
    right."""
    list(HostKey.objects.select_for_update().filter(state=HostKey.State.PINNED).order_by("pk").values_list("pk"))
    if not _others(host, key, machine_id):
        HostKey.objects.filter(pk=key.pk, machine_id="").update(machine_id=machine_id)


def _others(host: Host, key: HostKey, machine_id: str) -> list[str]:
    """Return the names of hosts with this machine-id and another key. Two names of one machine have the same key.

    Hosts that the reader may not see are "another host"."""
    with everything():
        pinned = HostKey.objects.filter(state=HostKey.State.PINNED).exclude(Q(host=host) | Q(key=key.key))
        same = pinned.filter(Q(machine_id=machine_id) | Q(machine_id="", host__machine_id=machine_id))
        others = dict(same.values_list("host", "host__name"))
    seen = set(Host.objects.filter(pk__in=others).values_list("pk", flat=True))
    return sorted({name if pk in seen else "another host" for pk, name in others.items()})


def _refusal(key: HostKey, machine_id: str, others: list[str]) -> tuple[str, str]:
    """Return (problem, next step)."""
    if others:
        hint = (
            "give a cloned machine its own /etc/machine-id; if it is the same machine, an instance admin can accept it"
        )
        return f"reports machine-id {machine_id}, which belongs to {', '.join(others)} with another host key", hint
    message = f"reports machine-id {machine_id}; it was {key.machine_id} when its host key was approved"
    return (
        message,
        "if the machine was reinstalled or replaced, an admin can accept the new machine-id on the host's page",
    )


@transaction.atomic
def accept(host: Host, *, by: User) -> None:
    """Bind the last reported machine-id to the host's pinned key.

    If it belongs to another host, this needs an instance admin, because runs of both then wait for each other."""
    require(by, Role.ADMIN, "accept machine-id", on=host)
    key, claimed = host.pinned_key, host.claimed_machine_id
    if key is None or not claimed:
        raise PlanError("host", f"{host} has no machine-id to accept", hint="check the host first")
    others = _others(host, key, claimed)
    if others and not (by.is_instance_admin and by.may(Role.ADMIN)):
        message = f"machine-id {claimed} belongs to {', '.join(others)} with another host key"
        raise RoleError("accept machine-id", message, hint="ask an instance admin")
    before = {"machine_id": key.machine_id}
    HostKey.objects.filter(pk=key.pk).update(machine_id=claimed)
    Host.objects.filter(pk=host.pk).update(claimed_machine_id="")
    audit(by, "host.accept_machine", host, before=before, after={"machine_id": claimed, "shared_with": others})
