"""Plan a campaign as if it started now, on each host by its facts, and estimate how long it would take. Writes
nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.utils import timezone

from agents.collectors import COLLECTORS
from agents.errors import Unplannable
from agents.run import planning
from agents.settings import SETTINGS
from agents.wire.protocol import BOOT, REBOOT
from agents.workloads import WORKLOADS
from apps.campaigns import queries
from apps.campaigns.design import data, plan, roles, steps, targets
from apps.campaigns.design.before_start import placement
from apps.campaigns.design.before_start.placement import StartPreview
from apps.campaigns.design.request import Arrangement
from apps.campaigns.library import own_recipes
from apps.campaigns.models import Campaign
from apps.campaigns.twins import preloading
from apps.hosts.models import Host
from apps.hosts.usage import allowed_paths
from common.errors import PlanError


def preview(campaign: Campaign, further: Sequence[Host] | None = None) -> StartPreview:
    """Return the runs that a start would plan now, on each host by its own facts. PlanError if the request or a host
    does not allow them.

    `further`: the further hosts of a campaign that is not saved yet."""
    hosts = placement.hosts_of(campaign, further)
    by_host = {host: _preview_on(placement.on(campaign, host)) for host in hosts}
    runs = placement.placed(campaign, {host: one.runs for host, one in by_host.items()})
    shares = placement.shares(runs, {host: one.seconds / max(1, len(one.runs)) for host, one in by_host.items()})
    longest, now = max(shares, key=lambda share: share.seconds), timezone.now()
    return replace(
        by_host[longest.host],
        runs=runs,
        seconds=longest.seconds,
        known=all(one.known for one in by_host.values()),
        restarts=plan.count_restarts(runs, campaign.order),
        shares=shares,
        notes=[note for share in shares for note in placement.notes(share, by_host[share.host].longest_s, now)],
    )


def _preview_on(campaign: Campaign) -> StartPreview:
    """Plan the campaign on its first host only."""
    facts = facts_of(campaign.host)
    if campaign.reboot != Campaign.Reboot.NEVER:
        _check_reboots("reboot", campaign.host, facts)
    by_role = roles.read(campaign)
    loader, there = (by_role.loader.host, dict(by_role.loader.facts)) if by_role else (campaign.host, facts)
    base = _base(campaign, facts, loader, [_placed(step, loader, there) for step in campaign.steps])
    planned = plan.expand(base, Arrangement.of(campaign))
    for run in {each.digest: each for each in planned}.values():
        targets.check_private(run.spec, campaign.host, facts)
    planned = roles.assign(by_role, planned) if by_role else planned
    for run in {each.digest: each for each in planned}.values():
        check_on_host(run.spec, loader, there)
        for part in run.parts:
            member = next(each for each in by_role.members if each.host.pk == part.host) if by_role else None
            check_on_host(part.spec, member.host, dict(member.facts)) if member else None
    learned = queries.estimates(loader)
    specs = {run.digest: run.spec for run in planned}
    took = {digest: learned.seconds(spec) for digest, spec in specs.items()}
    restarts = plan.count_restarts(planned, campaign.order)
    saved = sum(plan.restarts(run.spec) for run in planned) - restarts
    return StartPreview(
        planned,
        seconds=sum(took[run.digest] for run in planned) - saved * learned.restart_s,
        known=all(map(learned.knows, specs.values())),
        restarts=restarts,
        restart_s=learned.restart_s,
        restart_known=learned.restart_is_measured,
        longest_s=max(took.values(), default=0.0),
    )


def _base(campaign: Campaign, facts: dict[str, Any], loader: Host, placed: list[steps.Step]) -> dict[str, Any]:
    """Return the common part of the specs of all runs. `loader`: the host that runs the steps."""
    kinds = [WORKLOADS[step["kind"]] for step in placed]
    with_postgres = bool(campaign.dataset) or any(kind.needs_postgres for kind in kinds)
    target = targets.target(campaign.host, facts, campaign.target) if with_postgres else None
    base: dict[str, Any] = {
        "target": target,
        "settings": preloading.settings(_settings(campaign), campaign.dataset, placed, target),
        "dataset": campaign.dataset.spec if campaign.dataset else None,
        "steps": placed,
        "collect": collect(campaign, with_postgres),
    }
    if target is None and loader.os_user:
        base["os_user"] = loader.os_user
    if any(kind.needs_directory for kind in kinds):
        base["allowed_paths"] = allowed_paths.of(loader)
    return base


def _placed(step: steps.Step, host: Host, facts: dict[str, Any]) -> steps.Step:
    """Return the step with the directories of its tool and files, where the workload does not define them."""
    kind, options = WORKLOADS[step["kind"]], dict(step["options"])
    if kind.needs_directory:
        options.setdefault("directory", host.data_dir)
    if kind.bundled:
        options.setdefault("bin_dir", targets.newest_with(host, facts, kind.tools[0]))
    return {**step, "options": options}


def collect(campaign: Campaign, with_postgres: bool) -> dict[str, Any]:
    """Return the collectors as part of a spec. Without PostgreSQL, those that need it are left out."""
    for place, name in enumerate(campaign.sources):
        if name not in COLLECTORS:
            raise PlanError(f"sources.{place}", f"{name!r} is not a collector", hint=f"known: {', '.join(COLLECTORS)}")
    chosen = [name for name in COLLECTORS if name in campaign.sources]
    useful = [name for name in chosen if with_postgres or not COLLECTORS[name].needs_postgres]
    return {"interval_s": campaign.interval_s, "sources": useful}


def _check_reboots(field: str, host: Host, facts: dict[str, Any]) -> None:
    if facts["level"] != "root":
        hint = "register the host with sudo, or plan without restarts"
        raise PlanError(field, f"{host} gives level {facts['level']}, which cannot restart it", hint=hint)
    if not host.may_reboot:
        hint = "an admin can allow it on the page of the host; or plan without restarts"
        raise PlanError(field, f"{host} must not be restarted by campaigns", hint=hint)


def _check_boots(host: Host, facts: dict[str, Any]) -> None:
    field = f"settings.{BOOT}"
    _check_reboots(field, host, facts)
    if host.supervisor != "systemd":
        hint = "an admin can install them on the page of the host: they restore it even if the server never connects"
        raise PlanError(field, f"{host} has no systemd units of Proving Ground", hint=hint)


def _settings(campaign: Campaign) -> dict[str, Any]:
    if campaign.profile:
        return dict(campaign.profile.settings)
    return own_recipes.settings_of(campaign)


def facts_of(host: Host) -> dict[str, Any]:
    """Return the newest facts of a host, with its allowed paths. PlanError if it was never checked."""
    facts = allowed_paths.newest_facts(host)
    if not facts:
        raise PlanError("host", f"{host} was never checked", hint="check the host: planning needs its facts")
    return facts


def check_on_host(spec: Any, host: Host, facts: dict[str, Any]) -> None:
    """PlanError if a setting or a workload is not possible on this host, by the rules of the agent."""
    if spec["settings"].get(BOOT):
        _check_boots(host, facts)
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
    bundled = {name for installation in facts["postgresql"] for name in installation["tools"]}
    if tool not in facts["tools"] and tool not in bundled:
        raise PlanError(
            "workload", f"{kind} needs {tool}, which is not installed on {host}", hint=f"install {tool} on the host"
        )
