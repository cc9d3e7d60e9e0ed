"""All checks of a campaign before it starts."""

from __future__ import annotations

from collections.abc import Iterator

from apps.accounts.models import Role, User
from apps.accounts.services import require
from apps.campaigns.design.before_start import placement, previews
from apps.campaigns.design.before_start.checks import of_host, rows, specs_on
from apps.campaigns.design.before_start.feasibility import DOUBTFUL, FAILED, OK, StartCheck
from apps.campaigns.library import scripts
from apps.campaigns.models import Campaign
from apps.hosts import contact
from apps.hosts.models import Host
from common.errors import PlanError

AREAS = {
    "settings": "privileges",
    "workload": "tools",
    "bin_dir": "tools",
    "target": "PostgreSQL",
    "reboot": "consent to restart",
    "allowed_paths": "allowed paths",
}


def checks(campaign: Campaign) -> list[StartCheck]:
    """Return the checks from the known facts of the hosts. A plan that is refused is a failed check, never an error."""
    try:
        return rows(campaign, previews.preview(campaign))
    except PlanError as error:
        return [*(row for host in placement.hosts_of(campaign) for row in of_host(host)), _refused(campaign, error)]


def _refused(campaign: Campaign, error: PlanError) -> StartCheck:
    name = AREAS.get(error.subject.partition(".")[0], "plan")
    return StartCheck(campaign.host.name, name, FAILED, f"{error.subject}: {error.message}", hint=error.hint)


def ask(campaign: Campaign, *, by: User) -> list[StartCheck]:
    """Return the same checks after a new check of every host, whose tools also parse the scripts. Contacts hosts."""
    require(by, Role.OPERATOR, "check campaign", on=campaign)
    for host in placement.hosts_of(campaign):
        if host.state != Host.State.QUARANTINED:
            contact.check_host(host)
    campaign = Campaign.objects.select_related("host", "workload", "dataset", "profile").get(pk=campaign.pk)
    return [*checks(campaign), *_scripts(campaign)]


def _scripts(campaign: Campaign) -> Iterator[StartCheck]:
    try:
        preview = previews.preview(campaign)
    except PlanError:
        return  # the plan's own check has the reason
    for share in preview.shares:
        name = share.host.name
        try:
            unchecked = scripts.unchecked_reason(specs_on(campaign, preview, share.host), share.host)
        except PlanError as error:
            yield StartCheck(name, "scripts", FAILED, error.message, hint=error.hint)
        else:
            yield StartCheck(name, "scripts", DOUBTFUL if unchecked else OK, unchecked or "its tools reported no error")
