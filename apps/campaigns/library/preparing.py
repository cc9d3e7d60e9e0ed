"""Create or remove a data set on a host, by a campaign of one run without steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from apps.accounts.models import Role, User
from apps.accounts.services import audit, require, save
from apps.campaigns import services
from apps.campaigns.design import data, plan, targets
from apps.campaigns.design.before_start import previews
from apps.campaigns.design.request import Arrangement
from apps.campaigns.models import Campaign, DataCopy, DataSet
from apps.hosts.models import Host
from apps.tuning.models import Revision
from common.errors import PlanError


@transaction.atomic
def prepare(
    dataset: DataSet, host: Host, *, target: Mapping[str, str] | None = None, profile: Revision | None = None, by: User
) -> Campaign:
    """Create the data set in a private cluster of the host, for later runs."""
    require(by, Role.OPERATOR, "prepare data set", on=host)
    request = dict(target or {})
    placed = targets.target(host, previews.facts_of(host), request)
    if placed["kind"] != "private":
        hint = "the data set is created for each run and dropped afterwards: no preparation is needed"
        raise PlanError("target", f"{placed['data_dir']} cannot keep a data set", hint=hint)
    campaign = _campaign(host, f"Prepare {dataset} on {host}", "Is the data set ready for later runs?", by)
    campaign.dataset, campaign.profile, campaign.target = dataset, profile, request
    return _start(campaign, placed, dict(profile.settings) if profile else {}, dataset.spec, by)


@transaction.atomic
def remove(copy: DataCopy, *, by: User) -> Campaign:
    """Drop the copy from its cluster."""
    require(by, Role.OPERATOR, "remove data set", on=copy.host)
    name = str(copy.dataset or copy.database)
    dataset_spec = {"name": name, **copy.recipe, "reset": "auto", "ensure": "absent", "fingerprint": copy.fingerprint}
    campaign = _campaign(copy.host, f"Remove {name} from {copy.host}", "Is its space free again?", by)
    campaign.dataset = copy.dataset
    campaign.target = {"bin_dir": copy.target["bin_dir"]}
    settings = {"initdb": copy.initdb} if copy.initdb else {}
    return _start(campaign, copy.target, settings, dataset_spec, by)


def _campaign(host: Host, name: str, question: str, by: User) -> Campaign:
    kind = Campaign.Kind.PREPARATION
    return Campaign(
        kind=kind, name=name[:120], question=question, host=host, repetitions=1, order=Campaign.Order.AS_GIVEN, seed=0,
        metric="", sources=[], created_by=by,
    )  # fmt: skip


def _start(
    campaign: Campaign, target: Mapping[str, Any], settings: dict[str, Any], dataset_spec: data.DatasetSpec, by: User
) -> Campaign:
    """Start the only run. It has the data set and no steps."""
    campaign.factors = [{"name": "data set", "levels": [{"label": dataset_spec["name"], "set": {}}]}]
    collect = previews.collect(campaign, with_postgres=True)
    base = {"target": dict(target), "settings": settings, "dataset": dataset_spec, "steps": [], "collect": collect}
    planned = plan.expand(base, Arrangement.of(campaign))
    previews.check_on_host(planned[0].spec, campaign.host, previews.facts_of(campaign.host))
    save(campaign)
    services.enqueue(campaign, planned, by)
    action = "dataset.remove" if dataset_spec.get("ensure") == "absent" else "dataset.prepare"
    audit(by, action, campaign, after={"id": str(campaign.pk), "host": campaign.host.name, "dataset": dataset_spec})
    return campaign
