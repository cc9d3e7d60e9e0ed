"""Create, start and cancel campaigns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.collectors.per_transaction import PER_TRANSACTION
from apps.accounts.models import Role, User
from apps.accounts.services import audit, require, save
from apps.campaigns import recipes
from apps.campaigns.design import plan, steps, stopping
from apps.campaigns.design.before_start import checks, previews
from apps.campaigns.design.request import CampaignDesign, given
from apps.campaigns.execution import campaign_end, halts, nudges, queue
from apps.campaigns.library import code, datasets, own_recipes, scripts, workloads
from apps.campaigns.models import Campaign, Run, RunPart
from apps.hosts.models import Facts, Host
from common.errors import PlanError

MOST_PRIORITY = 100


def create_campaign(*, by: User, **fields: Any) -> Campaign:
    """Create a draft from the fields of CampaignDesign; see create_draft. None selects the default of a field."""
    return create_draft(CampaignDesign(**given(fields)), by=by)


@transaction.atomic
def create_draft(design: CampaignDesign, *, by: User, cloned_from: Campaign | None = None) -> Campaign:
    """Create a draft, checked as far as the facts of its hosts allow.

    PlanError names the invalid field. RoleError names the team of a host, including further hosts and roles, in
    which `by` is no operator."""
    for each in (design.host, *design.further_hosts):
        require(by, Role.OPERATOR, "create campaign", on=each)
    _check_measured(design)
    campaign = Campaign(**design.columns(), created_by=by, cloned_from=cloned_from)
    require(by, Role.OPERATOR, "create campaign", on=campaign)
    _check_private(campaign, design.further_hosts)
    _check_planned(campaign, design.further_hosts, by)
    save(campaign)
    campaign.further_hosts.set(design.further_hosts)
    after = {"id": str(campaign.pk), "recipe": campaign.recipe, "seed": campaign.seed}
    after |= {"cloned_from": str(campaign.cloned_from_id)} if campaign.cloned_from_id else {}
    audit(by, "campaign.create", campaign, after=after)
    return campaign


def _check_private(campaign: Campaign, further_hosts: Iterable[Host]) -> None:
    """PlanError if the campaign uses an object of a private team on a host of another team. Users of that host would
    find it busy with a campaign that they may not see."""
    teams_of_hosts = {*campaign.owners, *(host.team_id for host in further_hosts)}
    profile = campaign.profile.profile if campaign.profile else None
    used = [
        ("host", campaign.host),
        ("profile", profile),
        ("workload", campaign.workload),
        ("dataset", campaign.dataset),
    ]
    used += [("further_hosts", host) for host in further_hosts]
    for field, owned in used:
        if owned and owned.team and owned.team.private and teams_of_hosts != {owned.team_id}:
            message = f"{owned} belongs to the private team {owned.team}, and not all hosts of the campaign do"
            raise PlanError(field, message, hint=f"use only hosts of {owned.team}")


def _check_measured(design: CampaignDesign) -> None:
    """Raise PlanError if the requested metric cannot be measured or compared."""
    if not 0 < design.delta < 1:
        raise PlanError("delta", f"{design.delta} is not between 0 and 1", hint="0.02 means 2 %")
    workload = design.workload
    if steps.imported(workload.steps):
        raise PlanError("workload", f"{workload} was imported, so it cannot run", hint="choose another workload")
    _check_collector(steps.metric(workload.steps, design.metric).name, design.sources)


def _check_planned(campaign: Campaign, further_hosts: Sequence[Host], by: User) -> None:
    """Plan the runs of a new campaign and check them against its stopping rule, which needs to know the number of
    blocks."""
    planned = previews.preview(campaign, further_hosts).runs
    check_permission(planned, by)
    rule = stopping.read(campaign.stop, campaign.factors, campaign.repetitions)
    stopping.check(rule, (run.cell for run in planned), campaign.factors)
    campaign.open_blocks = rule.least if rule else None


def _check_collector(metric: str, collectors: Sequence[str]) -> None:
    """Raise PlanError if a collector that the metric needs is switched off."""
    figure = PER_TRANSACTION.get(metric)
    if figure and figure.collector not in collectors:
        hint = f"add {figure.collector} to the collectors, or choose another metric"
        raise PlanError("metric", f"{metric} needs the collector {figure.collector}", hint=hint)


def check_permission(planned: Sequence[plan.Planned], by: User) -> None:
    """Require the permissions for the code in all planned runs: a factor may add code that the workload does not
    have."""
    specs = {run.digest: run.spec for run in planned}
    specs |= {part.digest: part.spec for run in planned for part in run.parts}
    code.require_for(list(specs.values()), by, "plan a campaign that runs commands")


@transaction.atomic
def create_from_recipe(*, by: User, host: Host, recipe: str, **overrides: Any) -> Campaign:
    """Create a draft from a recipe, with levels scaled to the host. `overrides`: fields of CampaignDesign."""
    require(by, Role.OPERATOR, "create campaign", on=host)
    template = own_recipes.get(recipe)
    facts = previews.facts_of(host)
    fields = of_recipe(template, host, facts) | given(overrides)
    if "factors" not in fields:
        fields["factors"] = recipes.factors(template, facts)
    if "workload" not in fields:
        fields["workload"] = workloads.recipe_workload(recipe, recipes.steps(template, facts), by)
    own = recipes.dataset(template, facts)
    if own and "dataset" not in fields:
        fields["dataset"] = datasets.recipe_dataset(recipe, own, by)
    return create_draft(CampaignDesign(host=host, **fields), by=by)


def of_recipe(recipe: recipes.Recipe, host: Host, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of CampaignDesign from a recipe, without factors, workload and data. PlanError if the host
    lacks something that it needs."""
    if recipe.get("needs") == "root" and facts["level"] != "root":
        message = f"{recipe['name']} needs level root; {host} gives level {facts['level']}"
        raise PlanError("recipe", message, hint="register the host with sudo, or choose another recipe")
    return {
        "recipe": recipe["name"],
        "recipe_version": recipe["version"],
        "name": f"{recipe['title']} on {host}"[:120],
        **recipes.design(recipe),
    }


def start_campaign(campaign: Campaign, *, by: User) -> str:
    """Plan all runs with the current facts, check their scripts on the host, and queue them.

    Returns the reason if scripts could not be checked, else "". PlanError if a run is not possible or a script is
    broken."""
    require(by, Role.OPERATOR, "start campaign", on=campaign)
    _check_private(campaign, campaign.further_hosts.all())
    previewed = previews.preview(campaign)
    for share in previewed.shares:
        _check_released(share.host)
    check_permission(previewed.runs, by)
    checks.refuse(checks.rows(campaign, previewed))
    planned = previewed.runs
    reasons = (
        scripts.unchecked_reason(_specs(campaign, planned, share.host), share.host) for share in previewed.shares
    )
    unchecked = " ".join(dict.fromkeys(filter(None, reasons)))
    with transaction.atomic():
        enqueue(campaign, planned, by)
        after = {"id": str(campaign.pk), "runs": len(planned), "unchecked": unchecked}
        audit(by, "campaign.start", campaign, after=after)
    return unchecked


def _specs(campaign: Campaign, planned: Sequence[plan.Planned], host: Host) -> list[Any]:
    return [run.spec for run in planned if (run.host or campaign.host_id) == host.pk]


def _check_released(host: Host) -> None:
    if host.state == Host.State.QUARANTINED:
        hint = "check the host and release it on its page"
        raise PlanError("host", f"{host} is quarantined: {host.state_reason}", hint=hint)


def enqueue(campaign: Campaign, planned: Sequence[plan.Planned], by: User) -> None:
    """Queue the runs of a draft on its hosts; in the caller's transaction."""
    check_permission(planned, by)
    _check_released(campaign.host)
    draft = Campaign.objects.filter(pk=campaign.pk, state=Campaign.State.DRAFT)
    if not draft.update(state=Campaign.State.RUNNING, started_at=timezone.now(), started_by=by):
        raise PlanError("state", f"{campaign} was already started", hint="create a new campaign to repeat it")
    add_runs(campaign, planned)
    campaign.refresh_from_db()
    halts.arm_hosts(campaign)


def add_runs(campaign: Campaign, planned: Sequence[plan.Planned]) -> None:
    """Add planned runs to the queue, after existing ones; in the caller's transaction."""
    measured = {campaign.host_id, *(each.host for each in planned)} - {0}
    newest = {row.host_id: row for row in Facts.objects.filter(host__in=measured).order_by("number").defer("data")}
    first = next_position(campaign)
    runs = Run.objects.bulk_create(
        [
            Run(
                campaign=campaign,
                host_id=each.loader or each.host or campaign.host_id,
                position=first + place,
                block=each.block,
                cell=each.cell,
                spec=each.spec,
                digest=each.digest,
                facts=newest.get(each.host or campaign.host_id),
            )
            for place, each in enumerate(planned)
        ],
        batch_size=1000,
    )
    RunPart.objects.bulk_create(
        [
            RunPart(run=run, position=n, host_id=part.host, role=part.role, spec=part.spec, digest=part.digest)
            for run, each in zip(runs, planned, strict=True)
            for n, part in enumerate(each.parts)
        ],
        batch_size=1000,
    )


def next_position(campaign: Campaign) -> int:
    """Return the position of a run that is planned after all others."""
    last = campaign.runs.order_by("-position").values_list("position", flat=True).first()
    return 0 if last is None else last + 1


@transaction.atomic
def set_priority(campaign: Campaign, priority: int, *, by: User) -> None:
    """Change the priority in the queues of its hosts. Active runs continue."""
    require(by, Role.OPERATOR, "set priority", on=campaign)
    if not -MOST_PRIORITY <= priority <= MOST_PRIORITY:
        raise PlanError("priority", f"{priority} is not between -{MOST_PRIORITY} and {MOST_PRIORITY}")
    if campaign.ended_at:
        raise PlanError("state", f"{campaign} is {campaign.state}", hint="none of its runs is queued")
    before, campaign.priority = campaign.priority, priority
    Campaign.objects.filter(pk=campaign.pk).update(priority=priority)
    about = {"before": {"priority": before}, "after": {"id": str(campaign.pk), "priority": priority}}
    audit(by, "campaign.priority", campaign, **about)


@transaction.atomic
def cancel_campaign(campaign: Campaign, *, by: User) -> None:
    """Cancel queued runs now; stop active runs and restore their hosts."""
    require(by, Role.OPERATOR, "cancel campaign", on=campaign)
    open_states = [Campaign.State.DRAFT, *halts.GOING_ON]
    if not Campaign.objects.filter(pk=campaign.pk, state__in=open_states).update(state=Campaign.State.CANCELLED):
        raise PlanError(
            "state", f"{campaign} is {campaign.state}", hint="only a draft, running or paused campaign can be cancelled"
        )
    for run in campaign.runs.exclude(state=Run.State.ENDED).select_related("host"):
        cancel(run)
    campaign_end.close_campaign(campaign.pk)
    halts.arm_hosts(campaign)
    audit(by, "campaign.cancel", campaign, after={"id": str(campaign.pk)})
    campaign.refresh_from_db()


@transaction.atomic
def cancel_run(run: Run, *, by: User) -> None:
    """Cancel one run. Its campaign continues."""
    require(by, Role.OPERATOR, "cancel run", on=run.campaign)
    if not cancel(run):
        raise PlanError("state", f"{run} has ended", hint="there is nothing to cancel")
    campaign_end.close_campaign(run.campaign_id)
    queue.arm_host(run.host_id)
    after = {"id": str(run.pk), "campaign": str(run.campaign_id), "run": run.position + 1}
    audit(by, "run.cancel", run, after=after)
    run.refresh_from_db()


def cancel(run: Run) -> bool:
    """Cancel a run: a queued one ends here; one that the agent may know is flagged, and its tick stops it."""
    if halts.end_queued(run):
        return True
    now = timezone.now()
    active = Run.objects.filter(pk=run.pk).exclude(state=Run.State.ENDED)
    requested = bool(active.update(cancel_requested_at=now, next_tick_at=now))
    nudges.nudge(run.pk)
    return requested
