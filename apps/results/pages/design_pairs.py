"""The facts of a campaign's design, as its page lists them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.template.defaultfilters import date, pluralize

from apps.accounts.models import Role, User
from apps.accounts.models.walls import sees
from apps.accounts.templatetags.pages import percent
from apps.campaigns.design import roles
from apps.campaigns.design.stopping import Rule
from apps.campaigns.execution.schedule import OnHost
from apps.campaigns.models import Campaign, Schedule, Slot
from apps.web.pairs import BREAK, Pair, Part, code, joined, link, muted, pair

MINUTE = "Y-m-d H:i"


def design_pairs(campaign: Campaign, rule: Rule | None, hosts: Iterable[OnHost], by: User) -> Iterator[Pair]:
    """Each pair is read when the page draws it: the parts that htmx requests do not show them."""
    yield from _runs(campaign, rule, hosts, by)
    yield from _measured(campaign)
    yield from _around(campaign)


def _runs(campaign: Campaign, rule: Rule | None, hosts: Iterable[OnHost], by: User) -> Iterator[Pair]:
    """Which runs it has, where, and in which order."""
    factors = [f"{each['name']}: {', '.join(level['label'] for level in each['levels'])}" for each in campaign.factors]
    yield pair("Factors", *joined(BREAK, factors))
    if campaign.kind == Campaign.Kind.IMPORTED:
        yield pair("Repetitions", f"up to {campaign.repetitions}")
        yield pair("Imported", template="results/campaign/_imported.html")
    else:
        planned = f"at most {campaign.repetitions}, {rule.sentence}" if rule else campaign.repetitions
        restarts = campaign.reboot != Campaign.Reboot.NEVER
        reboot = f"; the host is restarted {campaign.get_reboot_display()}" if restarts else ""
        yield pair("Repetitions", f"{planned}, {campaign.get_order_display()}, seed {campaign.seed}{reboot}")
    if campaign.placement != Campaign.Placement.ONE:
        names = ", ".join(each.host.name for each in hosts)
        yield pair("Hosts", campaign.get_placement_display() + (f": {names}" if names else ""))
    if by_role := roles.role_names(campaign):
        yield pair("Roles", *joined(BREAK, ((f"{role}: ", link(name, "host_detail", name)) for role, name in by_role)))
    waits = campaign.kind == Campaign.Kind.COMPARISON and not campaign.ended_at
    if waits and by.may(Role.OPERATOR, campaign):
        yield pair("Priority", template="results/campaign/_priority.html")
    elif waits or campaign.priority:
        yield pair("Priority", campaign.priority)


def _measured(campaign: Campaign) -> Iterator[Pair]:
    """What each of its runs does."""
    imported, dataset, workload = campaign.kind == Campaign.Kind.IMPORTED, campaign.dataset, campaign.workload
    if campaign.metric:
        chosen = "chosen when it was imported" if imported else "set before the first run"
        yield pair("Minimum effect of interest", f"{percent(campaign.delta)} of {campaign.compared}, {chosen}")
    if dataset:
        yield pair("Data set", link(dataset, "dataset_detail", dataset.name, r=dataset.revision))
    if campaign.target:
        yield pair("PostgreSQL", *_target(campaign.target))
    if workload:
        yield pair("Workload", link(workload, "workload_detail", workload.name, r=workload.revision))
    if profile := campaign.profile:
        yield pair("Profile", link(profile, "profile_detail", profile.profile.name, r=profile.number))
    else:
        yield pair("Profile", "unknown" if imported else "none: no settings changed")


def _target(target: dict[str, Any]) -> tuple[str, Part]:
    if target.get("data_dir"):
        return "the existing cluster in ", code(target["data_dir"])
    if target.get("remote"):
        return "the remote server ", code(target["remote"])
    return "a private cluster of ", code(target.get("bin_dir", ""))


def _around(campaign: Campaign) -> Iterator[Pair]:
    """What it comes from, its limits, and what repeats it."""
    if campaign.recipe:
        yield pair("Recipe", campaign.recipe)
    if campaign.budget_h:
        yield pair("Budget", campaign.budget_h, " hours of its runs")
    if campaign.max_failures:
        yield pair("Pauses", f"when {campaign.max_failures} run{pluralize(campaign.max_failures)} failed")
    if (original := campaign.cloned_from) and sees(original):
        yield pair("Clone of", link(original.name, "campaign_detail", original.pk))
    if part := getattr(campaign, "search_round", None):  # the room to the right names it
        note = muted("only its confirmation shows a gain") if part.kind == "search" else ""
        yield pair("Part of", link(part.search.name, "searches_detail", part.search_id), ", a value search", note)
    if slot := Slot.objects.filter(campaign=campaign).select_related("schedule").first():
        yield pair("Started by", link(slot.schedule.name, "schedule_detail", slot.schedule_id), ", a schedule")
    for each in campaign.schedules.exclude(state=Schedule.State.DELETED):
        yield pair("Repeats", link(each.name, "schedule_detail", each.pk), f": {each.when} {each.time_zone}")
    yield pair("By", f"{campaign.created_by}, {date(campaign.created_at, MINUTE)}")
    imported, began, ended = campaign.kind == Campaign.Kind.IMPORTED, campaign.started_at, campaign.ended_at
    if imported and began == ended:
        yield pair("Measured", "when is unknown")
    elif ended:
        yield pair("Measured" if imported else "Took", f"{date(began, MINUTE)} to {date(ended, 'H:i:s')}")
