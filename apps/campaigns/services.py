"""Creating, starting and cancelling campaigns."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents import planning
from agents.collectors import COLLECTORS
from agents.errors import Unplannable
from agents.protocol import REBOOT
from agents.settings import SETTINGS
from agents.workloads import WORKLOADS
from apps.accounts.models import Role, User
from apps.accounts.services import audit, require, require_commands, save
from apps.campaigns import (
    checks,
    data,
    datasets,
    halts,
    nudges,
    own_recipes,
    placement,
    plan,
    queries,
    queue,
    recipes,
    roles,
    scripts,
    steps,
    stopping,
    targets,
    workloads,
)
from apps.campaigns.models import Campaign, DataSet, Run, RunPart, Workload
from apps.campaigns.placement import Preview
from apps.errors import PlanError
from apps.hosts import paths
from apps.hosts.models import Facts, Host
from apps.tuning.models import Revision

MOST_PRIORITY = 100


@transaction.atomic
def create_campaign(
    *,
    by: User,
    host: Host,
    name: str,
    question: str,
    workload: Workload,
    dataset: DataSet | None = None,
    factors: list[dict[str, Any]],
    profile: Revision | None = None,
    repetitions: int = 5,
    order: str = Campaign.Order.RANDOMISED,
    seed: int | None = None,
    reboot: str = Campaign.Reboot.NEVER,
    metric: str = "tps",
    delta: float = 0.02,
    interval_s: float = 1.0,
    sources: list[str] | None = None,
    recipe: str = "",
    recipe_version: int | None = None,
    target: dict[str, str] | None = None,
    design: str = Campaign.Design.FACTORIAL,
    cells: list[dict[str, str]] | None = None,
    sample: int | None = None,
    nuisance: dict[str, Any] | None = None,
    stop: dict[str, Any] | None = None,
    budget_h: float | None = None,
    max_failures: int | None = None,
    priority: int = 0,
    placement: str = Campaign.Placement.ONE,
    further_hosts: Sequence[Host] = (),
    roles: dict[str, Any] | None = None,
    cloned_from: Campaign | None = None,
) -> Campaign:
    """A draft, checked as far as the host's facts allow. PlanError names the field that is wrong, RoleError the team of
    a host, be it a further one or one of its roles, in which `by` is no operator."""
    for each in (host, *further_hosts):
        require(by, Role.OPERATOR, "create campaign", on=each)
    if not 0 < delta < 1:
        raise PlanError("delta", f"{delta} is not between 0 and 1", hint="0.02 means 2 %")
    if steps.imported(workload.steps):
        raise PlanError("workload", f"{workload} was imported: nothing can run it", hint="choose another workload")
    steps.metric(workload.steps, metric)
    campaign = Campaign(
        name=name,
        question=question,
        recipe=recipe,
        recipe_version=recipe_version,
        host=host,
        profile=profile,
        workload=workload,
        dataset=dataset,
        factors=factors,
        repetitions=repetitions,
        order=order,
        seed=secrets.randbits(32) if seed is None else seed,
        reboot=reboot,
        metric=metric,
        delta=delta,
        target=target or {},
        interval_s=interval_s,
        sources=list(COLLECTORS) if sources is None else sources,
        design=design,
        cells=cells or [],
        sample=sample,
        nuisance=nuisance or {},
        stop=stop or {},
        budget_h=budget_h,
        max_failures=max_failures,
        priority=priority,
        placement=placement,
        roles=roles or {},
        cloned_from=cloned_from,
        created_by=by,
    )
    require(by, Role.OPERATOR, "create campaign", on=campaign)
    planned = preview(campaign, further_hosts).runs
    check_permission(planned, by)
    rule = stopping.read(campaign.stop, factors, repetitions)
    stopping.check(rule, (run.cell for run in planned), factors)
    campaign.open_blocks = rule.least if rule else None
    save(campaign)
    campaign.further_hosts.set(further_hosts)
    after = {"id": str(campaign.pk), "recipe": recipe, "seed": campaign.seed}
    after |= {"cloned_from": str(cloned_from.pk)} if cloned_from else {}
    audit(by, "campaign.create", campaign, after=after)
    return campaign


def check_permission(planned: Sequence[plan.Planned], by: User) -> None:
    """A factor may bring in what the workload does not run by itself."""
    specs = {run.digest: run.spec for run in planned}
    if any(steps.runs_code(spec["steps"]) for spec in specs.values()):
        require_commands(by, "plan a campaign that runs commands")


@transaction.atomic
def create_from_recipe(*, by: User, host: Host, recipe: str, **overrides: Any) -> Campaign:
    """A draft from a recipe, its levels scaled to the host; `overrides` are fields of create_campaign."""
    require(by, Role.OPERATOR, "create campaign", on=host)
    template = own_recipes.get(recipe)
    facts = facts_of(host)
    fields = {**of_recipe(template, host, facts), **{key: each for key, each in overrides.items() if each is not None}}
    if "factors" not in fields:
        fields["factors"] = recipes.factors(template, facts)
    if "workload" not in fields:
        fields["workload"] = workloads.recipe_workload(recipe, recipes.steps(template, facts), by)
    own = recipes.dataset(template, facts)
    if own and "dataset" not in fields:
        fields["dataset"] = datasets.recipe_dataset(recipe, own, by)
    return create_campaign(by=by, host=host, **fields)


def of_recipe(recipe: recipes.Recipe, host: Host, facts: dict[str, Any]) -> dict[str, Any]:
    """What a recipe says of a campaign besides its factors, its workload and its data. PlanError where the host gives
    less than it needs."""
    if recipe.get("needs") == "root" and facts["level"] != "root":
        said = f"{recipe['name']} needs level root; {host} gives level {facts['level']}"
        raise PlanError("recipe", said, hint="register the host with sudo, or choose another recipe")
    return {
        "recipe": recipe["name"],
        "recipe_version": recipe["version"],
        "name": f"{recipe['title']} on {host}"[:120],
        **{key: recipe[key] for key in ("question", "repetitions", "order", "metric", "delta")},
        **{key: recipe[key] for key in recipes.DESIGN if key in recipe},
    }


def preview(campaign: Campaign, further: Sequence[Host] | None = None) -> Preview:
    """The runs that starting now would plan, for each host by its own facts. PlanError where the request or a host does
    not allow them; `further` are the further hosts of a campaign that is not saved yet."""
    hosts = placement.hosts_of(campaign, further)
    found = {host: _preview_on(placement.on(campaign, host)) for host in hosts}
    runs = placement.placed(campaign, {host: one.runs for host, one in found.items()})
    shares = placement.shares(runs, {host: one.seconds / max(1, len(one.runs)) for host, one in found.items()})
    longest, now = max(shares, key=lambda share: share.seconds), timezone.now()
    return replace(
        found[longest.host],
        runs=runs,
        seconds=longest.seconds,
        known=all(one.known for one in found.values()),
        restarts=sum(plan.restarts(run.spec) for run in runs),
        shares=shares,
        notes=[note for share in shares for note in placement.notes(share, found[share.host].longest_s, now)],
    )


def _preview_on(campaign: Campaign) -> Preview:
    """On its first host alone."""
    facts = facts_of(campaign.host)
    if campaign.reboot != Campaign.Reboot.NEVER:
        _check_reboots(campaign.host, facts)
    cast = roles.read(campaign)
    loader, there = (cast.loader.host, dict(cast.loader.facts)) if cast else (campaign.host, facts)
    wanted = [_placed(step, loader, there) for step in campaign.steps]
    with_postgres = bool(campaign.dataset) or any(WORKLOADS[step["kind"]].needs_postgres for step in wanted)
    base = {
        "target": targets.target(campaign.host, facts, campaign.target) if with_postgres else None,
        "settings": _settings(campaign),
        "dataset": campaign.dataset.wanted if campaign.dataset else None,
        "steps": wanted,
        "collect": collect(campaign, with_postgres),
    }
    if any(WORKLOADS[step["kind"]].needs_directory for step in wanted):
        base["allowed_paths"] = paths.of(loader)
    factors = plan.read_factors(campaign.factors)
    planned = plan.expand(
        base,
        factors,
        campaign.repetitions,
        campaign.order,
        campaign.seed,
        campaign.reboot,
        design=campaign.design,
        listed=campaign.cells,
        sample=campaign.sample,
        alike=campaign.nuisance,
    )
    for run in {each.digest: each for each in planned}.values():
        targets.check_private(run.spec, campaign.host, facts)
    planned = roles.assign(cast, planned) if cast else planned
    for run in {each.digest: each for each in planned}.values():
        check_on_host(run.spec, loader, there)
        for part in run.parts:
            member = next(each for each in cast.members if each.host.pk == part.host) if cast else None
            check_on_host(part.spec, member.host, dict(member.facts)) if member else None
    measured_s = queries.restart_seconds(campaign.host)
    restart_s = plan.REBOOT_S if measured_s is None else measured_s
    learned = queries.overheads(campaign.host, restart_s)
    estimates = {run.digest: _estimate(run.spec, learned, restart_s) for run in planned}
    took = sum(estimates[run.digest] for run in planned)
    known = all(plan.shape(run.spec) in learned for run in {each.digest: each for each in planned}.values())
    restarts = sum(plan.restarts(run.spec) for run in planned)
    longest_s = max(estimates.values(), default=0.0)
    return Preview(planned, took, known, restarts, restart_s, measured_s is not None, longest_s)


def _estimate(spec: Any, learned: queries.Overheads, restart_s: float) -> float:
    overhead_s = learned.get(plan.shape(spec), plan.OVERHEAD_S)
    return max(0.0, plan.seconds(spec, overhead_s, restart_s))


def _placed(step: steps.Step, host: Host, facts: dict[str, Any]) -> steps.Step:
    """The step, with the directories of its tool and of its files where the workload does not say them."""
    kind, options = WORKLOADS[step["kind"]], dict(step["options"])
    if kind.needs_directory:
        options.setdefault("directory", host.data_dir)
    if kind.bundled:
        options.setdefault("bin_dir", targets.newest_with(host, facts, kind.tools[0]))
    return {**step, "options": options}


def collect(campaign: Campaign, with_postgres: bool) -> dict[str, Any]:
    """What looks on, in the shape of a spec; without PostgreSQL its collectors have nothing to look at."""
    for place, name in enumerate(campaign.sources):
        if name not in COLLECTORS:
            raise PlanError(f"sources.{place}", f"{name!r} is no collector", hint=f"known: {', '.join(COLLECTORS)}")
    wanted = [name for name in COLLECTORS if name in campaign.sources]
    useful = [name for name in wanted if with_postgres or not COLLECTORS[name].needs_postgres]
    return {"interval_s": campaign.interval_s, "sources": useful}


def _check_reboots(host: Host, facts: dict[str, Any]) -> None:
    if facts["level"] != "root":
        hint = "register it with sudo, or plan without restarts"
        raise PlanError("reboot", f"{host} gives level {facts['level']}, which cannot restart it", hint=hint)
    if not host.may_reboot:
        hint = "an admin allows it on the host's page, or plan without restarts"
        raise PlanError("reboot", f"{host} must not be restarted by campaigns", hint=hint)


def _settings(campaign: Campaign) -> dict[str, Any]:
    if campaign.profile:
        return dict(campaign.profile.settings)
    return own_recipes.settings_of(campaign)


def facts_of(host: Host) -> dict[str, Any]:
    """Its newest facts, with the paths that it has. PlanError when it was never checked."""
    facts = paths.known(host)
    if not facts:
        raise PlanError("host", f"{host} was never checked", hint="check it: a campaign is planned from its facts")
    return facts


def check_on_host(spec: Any, host: Host, facts: dict[str, Any]) -> None:
    """PlanError when a setting or a workload cannot be had on this host: the agent's own rules, before it is asked."""
    load = [step for step in spec["steps"] if step["kind"] != REBOOT]
    steps.check(load)
    if (spec["dataset"] or {}).get("kind") == data.PGBENCH:
        _check_tool("pgbench", "the data set", host, facts)
    for step in load:
        targets.check_bin_dir(step["options"].get("bin_dir", ""), host, facts)
        for tool in WORKLOADS[step["kind"]].needs(step["options"]):
            _check_tool(tool, step["kind"], host, facts)
    try:
        targets.check(spec, host, facts)
        planning.check_spec(facts, spec)
    except Unplannable as error:
        hint = f"{error.accepted}. {error.hint}".strip(". ")
        field = f"settings.{error.field}" if error.field.split(".")[0] in SETTINGS else error.field
        raise PlanError(field, f"{error.value!r} is not possible on {host}", hint=hint) from error


def _check_tool(tool: str, kind: str, host: Host, facts: dict[str, Any]) -> None:
    bundled = {name for each in facts["postgresql"] for name in each["tools"]}
    if tool not in facts["tools"] and tool not in bundled:
        raise PlanError("workload", f"{kind} needs {tool}, which is not on {host}", hint=f"install {tool} there")


def start_campaign(campaign: Campaign, *, by: User) -> str:
    """Plan all runs from the facts of now, have their scripts checked on the host, and put them into its queue.

    PlanError where a run cannot be, or a script is broken; in words why scripts were not checked, or "".
    """
    require(by, Role.OPERATOR, "start campaign", on=campaign)
    previewed = preview(campaign)
    for share in previewed.shares:
        _check_released(share.host)
    check_permission(previewed.runs, by)
    checks.refuse(checks.rows(campaign, previewed))
    planned = previewed.runs
    told = (scripts.check_runs(_specs(campaign, planned, share.host), share.host) for share in previewed.shares)
    unchecked = " ".join(dict.fromkeys(filter(None, told)))
    with transaction.atomic():
        enqueue(campaign, planned)
        after = {"id": str(campaign.pk), "runs": len(planned), "unchecked": unchecked}
        audit(by, "campaign.start", campaign, after=after)
    return unchecked


def _specs(campaign: Campaign, planned: Sequence[plan.Planned], host: Host) -> list[Any]:
    return [run.spec for run in planned if (run.host or campaign.host_id) == host.pk]


def _check_released(host: Host) -> None:
    if host.state == Host.State.QUARANTINED:
        hint = "look at it and release it on its page"
        raise PlanError("host", f"{host} is in quarantine: {host.state_reason}", hint=hint)


def enqueue(campaign: Campaign, planned: Sequence[plan.Planned]) -> None:
    """A draft becomes its runs, in the queues of its hosts; in the caller's transaction."""
    _check_released(campaign.host)
    draft = Campaign.objects.filter(pk=campaign.pk, state=Campaign.State.DRAFT)
    if not draft.update(state=Campaign.State.RUNNING, started_at=timezone.now()):
        raise PlanError("state", f"{campaign} was started before", hint="create a new campaign to run it again")
    add_runs(campaign, planned)
    campaign.refresh_from_db()
    halts.arm_hosts(campaign)


def add_runs(campaign: Campaign, planned: Sequence[plan.Planned]) -> None:
    """Planned runs become queued ones, after those that there are; in the caller's transaction."""
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
    """The place of a run that is planned after all others."""
    last = campaign.runs.order_by("-position").values_list("position", flat=True).first()
    return 0 if last is None else last + 1


@transaction.atomic
def set_priority(campaign: Campaign, priority: int, *, by: User) -> None:
    """Where it stands in the queues of its hosts from now on; the run that is under way goes on."""
    require(by, Role.OPERATOR, "set priority", on=campaign)
    if not -MOST_PRIORITY <= priority <= MOST_PRIORITY:
        raise PlanError("priority", f"{priority} is not between -{MOST_PRIORITY} and {MOST_PRIORITY}")
    if campaign.ended_at:
        raise PlanError("state", f"{campaign} is {campaign.state}", hint="nothing of it waits in a queue")
    before, campaign.priority = campaign.priority, priority
    Campaign.objects.filter(pk=campaign.pk).update(priority=priority)
    about = {"before": {"priority": before}, "after": {"id": str(campaign.pk), "priority": priority}}
    audit(by, "campaign.priority", campaign, **about)


@transaction.atomic
def cancel_campaign(campaign: Campaign, *, by: User) -> None:
    """End what waits at once, and have what runs stopped and its host put back."""
    require(by, Role.OPERATOR, "cancel campaign", on=campaign)
    open_states = [Campaign.State.DRAFT, *halts.GOING_ON]
    if not Campaign.objects.filter(pk=campaign.pk, state__in=open_states).update(state=Campaign.State.CANCELLED):
        raise PlanError(
            "state", f"{campaign} is {campaign.state}", hint="only a draft, a running or a paused one can be cancelled"
        )
    for run in campaign.runs.exclude(state=Run.State.ENDED).select_related("host"):
        cancel(run)
    queue.close_campaign(campaign.pk)
    halts.arm_hosts(campaign)
    audit(by, "campaign.cancel", campaign, after={"id": str(campaign.pk)})
    campaign.refresh_from_db()


@transaction.atomic
def cancel_run(run: Run, *, by: User) -> None:
    """Cancel one run; its campaign goes on."""
    require(by, Role.OPERATOR, "cancel run", on=run.campaign)
    if not cancel(run):
        raise PlanError("state", f"{run} has ended", hint="nothing is left to cancel")
    queue.close_campaign(run.campaign_id)
    queue.arm_host(run.host_id)
    after = {"id": str(run.pk), "campaign": str(run.campaign_id), "run": run.position + 1}
    audit(by, "run.cancel", run, after=after)
    run.refresh_from_db()


def cancel(run: Run) -> bool:
    """A queued run ends here; one that the agent may know is flagged, and its tick does the rest."""
    if halts.end_queued(run):
        return True
    now = timezone.now()
    active = Run.objects.filter(pk=run.pk).exclude(state=Run.State.ENDED)
    asked = bool(active.update(cancel_requested_at=now, next_tick_at=now))
    nudges.nudge(run.pk)
    return asked
