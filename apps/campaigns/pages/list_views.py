"""The list of campaigns, with search, filters, sorting, and actions on several campaigns."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from apps.accounts.models import Role, Team
from apps.accounts.services import user_of
from apps.campaigns import archiving, queries
from apps.campaigns.models import Campaign
from apps.hosts.models import Host
from apps.request_values import whole
from apps.web.pages import keyset_page, needs, page, spoken, team_in_url
from common.wording import first_of

SHOWN = 50
ARCHIVED = "archived"  # the state filter that shows only archived campaigns
NEWEST_FIRST = "-created_at"
# Columns by which the list can be sorted.
SORTED = {
    "name": "Campaign",
    "state": "State",
    "host__name": "Host",
    "created_by__username": "By",
    "created_at": "Created",
}
DONE = {"archive": "Archived", "unarchive": "Unarchived", "cancel": "Cancelled", "delete": "Deleted"}


class ManyForm(forms.Form):
    action = forms.ChoiceField(choices=list(DONE.items()))
    campaign = forms.ModelMultipleChoiceField(
        Campaign.objects.select_related("host").order_by("name"),
        error_messages={"required": "No campaign is selected. Tick at least one."},
    )


@needs(Role.VIEWER)
def campaign_list(request: HttpRequest) -> HttpResponse:
    """List campaigns. `?sort=` names a column, with "-" for descending order; `?state=archived` shows archived ones
    only."""
    query, state, host = (request.GET.get(name, "").strip() for name in ("q", "state", "host"))
    team, sort = team_in_url(request), request.GET.get("sort", "")
    sort = sort if sort.removeprefix("-") in SORTED else NEWEST_FIRST
    rows = queries.listed().filter(archived_at__isnull=state != ARCHIVED)
    rows = rows.filter(Q(name__icontains=query) | Q(question__icontains=query)) if query else rows
    rows = rows.filter(state=state) if state not in ("", ARCHIVED) else rows
    rows = rows if whole(host) is None else rows.filter(host=whole(host))
    rows = rows if team is None else rows.filter(queries.of_team(team))
    row_page = keyset_page(request, rows, (sort, "-pk" if sort.startswith("-") else "pk"), SHOWN)
    context = {
        "campaigns": queries.with_run_counts(row_page.rows),
        "pages": row_page,
        "states": [*Campaign.State.values, ARCHIVED],
        "headings": _headings(sort),
        "actions": ["unarchive"] if state == ARCHIVED else ["archive", "cancel", "delete"],
        "only": _only(host, team),
        "filtered": bool(query or state or host or team is not None),
    }
    return page(request, "campaigns/list.html", context | {"q": query, "state": state, "host": host, "team": team})


def _headings(sort: str) -> dict[str, dict[str, str]]:
    """Return the heading of each column, with the `sort` of its link and its aria-sort.

    The first click sorts ascending (the date: descending), the second one reverses the order."""
    headings = {}
    for column, text in SORTED.items():
        first = NEWEST_FIRST if column == "created_at" else column
        other = column if first.startswith("-") else f"-{column}"
        order = "" if sort not in (first, other) else "descending" if sort.startswith("-") else "ascending"
        headings[column] = {"text": text, "sort": other if sort == first else first, "order": order}
    return headings


def _only(host: str, team: int | None) -> str:
    """Return the host or team to which a link limits the list; empty without one."""
    number = whole(host)
    hosts = Host.objects.none() if number is None else Host.objects.filter(pk=number)
    teams = Team.objects.none() if team is None else Team.objects.filter(pk=team)
    return " and ".join([each.name for each in hosts] + [f"hosts of the team {each.name}" for each in teams])


@require_POST
@needs(Role.OPERATOR, somewhere=True)
def campaigns_change(request: HttpRequest) -> HttpResponse:
    """Apply the action to each selected campaign, and return to the filtered list."""
    form = ManyForm(request.POST)
    if form.is_valid():
        action = form.cleaned_data["action"]
        done = archiving.change_many(action, form.cleaned_data["campaign"], by=user_of(request))
        if done.changed:
            messages.success(request, f"{DONE[action]}: {first_of(done.changed, 3)}.")
        for name, error in done.refused:
            messages.error(request, f"{name}: {spoken(error)}")
    for errors in form.errors.values():
        messages.error(request, str(errors[0]))
    query = request.GET.urlencode()
    return redirect(reverse("campaign_list") + (f"?{query}" if query else ""))


urlpatterns = [
    path("campaigns/", campaign_list, name="campaign_list"),
    path("campaigns/change/", campaigns_change, name="campaigns_change"),
]
