"""Pages of teams: the list, and one team with its members and objects."""

from __future__ import annotations

from collections.abc import Callable

from django import forms
from django.contrib import messages
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from apps.accounts.models import Membership, Role, Team, User
from apps.accounts.services import user_of
from apps.accounts.team import teams
from apps.request_values import whole
from apps.web.pages import attempt, blame, needs, page
from common.errors import PlanError

# Kind -> the page that lists its things; ?team= leaves those of a team.
LISTS = {
    "host": "host_list",
    "profile": "profile_list",
    "workload": "workload_list",
    "dataset": "dataset_list",
    "decision": "timeline",
}
Act = Callable[[Team, User, HttpRequest], object]


class TeamForm(forms.Form):
    name = forms.CharField(max_length=63, help_text="for example: storage")
    about = forms.CharField(required=False, max_length=500, help_text="its purpose, in one line")
    private = forms.BooleanField(required=False, help_text="only members see the team and what belongs to it")


@needs(Role.VIEWER)
def team_list(request: HttpRequest) -> HttpResponse:
    return _list(request, TeamForm())


def _list(request: HttpRequest, form: TeamForm) -> HttpResponse:
    mine = {membership.team_id: membership.role for membership in Membership.objects.filter(user=user_of(request))}
    rows = [(team, mine.get(team.pk, "")) for team in Team.objects.annotate(members=Count("memberships"))]
    return page(request, "accounts/teams.html", {"rows": rows}, form)


@require_POST
@needs(Role.ADMIN)
def team_add(request: HttpRequest) -> HttpResponse:
    form = TeamForm(request.POST)
    if form.is_valid():
        try:
            team = teams.create_team(by=user_of(request), **form.cleaned_data)
        except PlanError as error:
            blame(form, error)
        else:
            messages.success(request, f"Team {team} is created. Next, add members.")
            return redirect("team_detail", team.pk)
    return _list(request, form)


@needs(Role.VIEWER)
def team_detail(request: HttpRequest, pk: int) -> HttpResponse:
    team, user = get_object_or_404(Team, pk=pk), user_of(request)
    members = list(team.memberships.select_related("user").order_by("user__username"))
    inside = [member.user_id for member in members]
    context = {
        "team": team,
        "members": members,
        "roles": Role.choices,
        "others": User.objects.filter(is_active=True).exclude(pk__in=inside).order_by("username"),
        "belongings": [
            (title, count, f"{reverse(LISTS[kind])}?team={team.pk}") for title, kind, count in teams.belongings(team)
        ],
        "kinds": teams.OF_TEAMS,
        "elsewhere": teams.open_to(user, Role.ADMIN).exclude(pk=team.pk),
    }
    return page(request, "accounts/team.html", context)


def _user(request: HttpRequest) -> User:
    key = request.POST.get("user", "")
    user = User.objects.filter(pk=whole(key) or 0).first()
    if user is None:
        raise PlanError("user", f"{key!r:.40} is not a user", hint="choose one of the users")
    return user


def _role(request: HttpRequest) -> Role:
    role = request.POST.get("role", "")
    if role not in Role.values:
        raise PlanError("role", f"{role!r:.40} is not a role", hint="one of " + ", ".join(Role.values))
    return Role(role)


def _set_member(team: Team, by: User, request: HttpRequest) -> object:
    return teams.set_member(team, _user(request), _role(request), by=by)


def _remove_member(team: Team, by: User, request: HttpRequest) -> object:
    return teams.remove_member(team, _user(request), by=by)


def _take(team: Team, by: User, request: HttpRequest) -> object:
    return teams.hand_over(teams.owned_by_name(request.POST.get("kind", ""), request.POST.get("name", "")), team, by=by)


def _give(team: Team, by: User, request: HttpRequest) -> object:
    """Give an object of this team to the team in `to`, or to the instance if that is empty."""
    thing, key = (
        teams.owned_by_name(request.POST.get("kind", ""), request.POST.get("name", "")),
        request.POST.get("to", ""),
    )
    if thing.team_id != team.pk:
        raise PlanError(
            "name", f"{thing} does not belong to the team {team}", hint="the lists of the team show the names"
        )
    return teams.hand_over(thing, get_object_or_404(Team, pk=whole(key)) if key else None, by=by)


def _set_private(team: Team, by: User, request: HttpRequest) -> object:
    return teams.change_team(team, by=by, private=request.POST.get("private") == "on")


ACTIONS: dict[str, tuple[Act, str]] = {
    "set-private": (_set_private, "The visibility of {team} is updated."),
    "set-member": (_set_member, "The members of {team} are updated."),
    "remove-member": (_remove_member, "The members of {team} are updated."),
    "take": (_take, "It now belongs to the team {team}."),
    "give": (_give, "It no longer belongs to the team {team}."),
}


@require_POST
@needs(Role.ADMIN)
def team_change(request: HttpRequest, pk: int) -> HttpResponse:
    team, name, about = get_object_or_404(Team, pk=pk), request.POST.get("name", ""), request.POST.get("about", "")
    done = f"{team} is updated."
    attempt(request, lambda: teams.change_team(team, by=user_of(request), name=name, about=about), done)
    return redirect("team_detail", pk)


@require_POST
@needs(Role.ADMIN)
def team_remove(request: HttpRequest, pk: int) -> HttpResponse:
    team = get_object_or_404(Team, pk=pk)
    gone = attempt(request, lambda: teams.remove_team(team, by=user_of(request)), f"Team {team} is deleted.")
    return redirect("team_list") if gone else redirect("team_detail", pk)


@require_POST
@needs(Role.ADMIN, somewhere=True)
def team_action(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    team, by = get_object_or_404(Team, pk=pk), user_of(request)
    if action not in ACTIONS:
        raise Http404(action)
    act, done = ACTIONS[action]
    attempt(request, lambda: act(team, by, request), done.format(team=team))
    return redirect("team_detail", pk)


urlpatterns = [
    path("teams/", team_list, name="team_list"),
    path("teams/add/", team_add, name="team_add"),
    path("teams/<int:pk>/", team_detail, name="team_detail"),
    path("teams/<int:pk>/change/", team_change, name="team_change"),
    path("teams/<int:pk>/remove/", team_remove, name="team_remove"),
    path("teams/<int:pk>/<slug:action>/", team_action, name="team_action"),
]
