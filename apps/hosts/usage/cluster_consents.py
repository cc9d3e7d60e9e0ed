"""Permissions for existing PostgreSQL clusters of a host, and the admin who gave each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from apps.accounts.models import Role, User
from apps.accounts.services import audit, require
from apps.hosts.models import ClusterConsent, Host
from common.errors import PlanError

May = ClusterConsent.May


def clusters(host: Host, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the clusters of the facts, each with "consent": {measure, restart, disturb_clients: ClusterConsent or
    None}."""
    consents = {(consent.data_dir, consent.may): consent for consent in host.consents.select_related("given_by")}
    return [
        {**cluster, "consent": {may.value: consents.get((cluster["data_dir"], may.value)) for may in May}}
        for cluster in facts.get("clusters", [])
    ]


def of(host: Host, data_dir: str) -> dict[str, bool]:
    """Return the consent in the form of a spec."""
    consents = set(host.consents.filter(data_dir=data_dir).values_list("may", flat=True))
    return {may.value: may.value in consents for may in May}


@transaction.atomic
def allow(host: Host, data_dir: str, may: str, *, by: User) -> None:
    """Allow one kind of use: to measure a cluster, to restart it, or to measure it while it has other clients."""
    require(by, Role.ADMIN, f"allow to {_word(may)}", on=host)
    if data_dir not in [cluster["data_dir"] for cluster in host.facts.get("clusters", [])]:
        raise PlanError("data_dir", f"{data_dir!r} is not a cluster of {host}", hint="check the host again")
    _, new = ClusterConsent.objects.get_or_create(host=host, data_dir=data_dir, may=may, defaults={"given_by": by})
    if new:
        audit(by, f"cluster.allow_{may}", host, after={"data_dir": data_dir})


@transaction.atomic
def withdraw(host: Host, data_dir: str, may: str, *, by: User) -> None:
    """Withdraw a permission now. Queued runs that were planned with it fail when they start."""
    require(by, Role.ADMIN, f"forbid to {_word(may)}", on=host)
    consent = host.consents.filter(data_dir=data_dir, may=may).first()
    if consent is None:
        raise PlanError("data_dir", f"no admin has allowed to {_word(may)} {data_dir!r} of {host}")
    audit(by, f"cluster.forbid_{may}", host, before={"data_dir": data_dir, "given_by": str(consent.given_by)})
    consent.delete()


def check(host: Host, target: Mapping[str, Any] | None) -> None:
    """Raise PlanError if the target of a spec needs a permission that does not exist or was withdrawn."""
    if not target or target["kind"] != "existing":
        return
    consents = of(host, target["data_dir"])
    if not consents[May.MEASURE]:
        raise not_measured(host, target["data_dir"])
    for may, carried in target["consent"].items():
        if carried and not consents[may]:
            hint = "an admin can allow it on the host's page; then start the campaign again"
            raise PlanError("target", f"the permission to {_word(may)} {target['data_dir']} was revoked", hint=hint)


def not_measured(host: Host, data_dir: str) -> PlanError:
    """Return the error for a cluster that runs may not measure."""
    hint = f"an admin can allow it on the page of {host}; or use a private cluster"
    return PlanError("target", f"no admin has allowed campaigns to measure {data_dir} of {host}", hint=hint)


def _word(may: str) -> str:
    if may not in May.values:
        raise PlanError("may", f"{may!r} is not a permission", hint="one of " + ", ".join(May.values))
    return May(may).label
