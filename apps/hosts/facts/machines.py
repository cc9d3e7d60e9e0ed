"""Which machine a host is: its machine-id counts together with the host key that was approved.

A machine-id is only what a host says. A hostile host that says another host's would share its queue and its epoch. So
the first contact after the approval of a key binds both together, and another pair needs somebody's consent.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q

from apps.accounts.models import Role, User
from apps.accounts.models.walls import everything
from apps.accounts.services import audit, require
from apps.hosts.models import Host, HostKey
from common.errors import HostError, PlanError, RoleError


def check(host: Host, machine_id: str, boot_id: str) -> None:
    """Bind the machine-id to the pinned key, or see that it is the one that was bound. HostError otherwise."""
    key = host.pinned_key
    if key is None or key.machine_id == machine_id:
        return
    others = _others(host, key, machine_id)
    if not key.machine_id and not others:
        if machine_id != boot_id:  # without a machine-id, the agent reports the id of the boot
            _bind(host, key, machine_id)
        return
    Host.objects.filter(pk=host.pk).update(claimed_machine_id=machine_id)
    message, hint = _refusal(key, machine_id, others)
    raise HostError(host, message, hint=hint)


@transaction.atomic
def _bind(host: Host, key: HostKey, machine_id: str) -> None:
    """One after the other: of two hosts that say the same for the first time, only one is right."""
    list(HostKey.objects.select_for_update().filter(state=HostKey.State.PINNED).order_by("pk").values_list("pk"))
    if not _others(host, key, machine_id):
        HostKey.objects.filter(pk=key.pk, machine_id="").update(machine_id=machine_id)


def _others(host: Host, key: HostKey, machine_id: str) -> list[str]:
    """Names of hosts that are this machine by another key. Two names of one machine show the same key. Hosts that the
    reader may not see are "another host"."""
    with everything():
        pinned = HostKey.objects.filter(state=HostKey.State.PINNED).exclude(Q(host=host) | Q(key=key.key))
        same = pinned.filter(Q(machine_id=machine_id) | Q(machine_id="", host__machine_id=machine_id))
        others = dict(same.values_list("host", "host__name"))
    seen = set(Host.objects.filter(pk__in=others).values_list("pk", flat=True))
    return sorted({name if pk in seen else "another host" for pk, name in others.items()})


def _refusal(key: HostKey, machine_id: str, others: list[str]) -> tuple[str, str]:
    """(what is wrong, what to do)."""
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
    """Bind the machine-id that the host reported last to its pinned key. If it belongs to another host, this needs an
    instance admin: runs of both then wait for each other."""
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
