"""Teams: their members with roles, and the hosts, profiles, workloads, data sets and decisions that they own."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from apps.accounts.models import ApiToken, Membership, Owned, Role, Team, TrustedJob, User
from apps.accounts.services import audit, require, save
from apps.request_values import whole
from common.errors import PlanError
from common.wording import and_of, counted

# Names of the kinds of objects that a team can own. Other apps define their models.
OF_TEAMS = ("host", "profile", "workload", "dataset", "decision")


def kinds() -> dict[str, type[Owned]]:
    """Name of each kind of object that a team can own -> its model."""
    models = {str(subclass._meta.model_name): subclass for subclass in Owned.__subclasses__()}
    return {word: models[word] for word in OF_TEAMS}


@transaction.atomic
def create_team(name: str, about: str = "", private: bool = False, *, by: User) -> Team:
    """A team without members that owns nothing yet. For instance admins only."""
    require(by, Role.ADMIN, "create team")
    team = Team(name=name.strip(), about=about.strip(), private=private)
    save(team)
    audit(by, "team.create", team, after={"id": team.pk, "about": team.about, "private": team.private})
    return team


@transaction.atomic
def change_team(
    team: Team, *, by: User, name: str | None = None, about: str | None = None, private: bool | None = None
) -> Team:
    """Change the fields that are not None. Admins of the team may change `private`, instance admins all fields."""
    require(by, Role.ADMIN, "change team", on=team if name is None and about is None else None)
    before = {"name": team.name, "about": team.about, "private": team.private}
    team.name = team.name if name is None else name.strip()
    team.about = team.about if about is None else about.strip()
    team.private = team.private if private is None else private
    save(team)
    after = {"id": team.pk, "name": team.name, "about": team.about, "private": team.private}
    audit(by, "team.change", team, before=before, after=after)
    end_tokens_of_others(team)
    return team


def end_tokens_of_others(team: Team) -> None:
    """Delete tokens and trusted jobs that are limited to a private team that their owners cannot see any more."""
    if team.private:
        members = Membership.objects.filter(team=team).values("user")
        for model in (ApiToken, TrustedJob):
            limited = model._default_manager.filter(team=team)
            limited.exclude(user__in=members).exclude(user__role=Role.ADMIN).delete()


@transaction.atomic
def remove_team(team: Team, *, by: User) -> None:
    """Delete a team and its memberships. Needs an instance admin. PlanError if the team owns objects."""
    require(by, Role.ADMIN, "remove team")
    belongs = [counted(count, str(kinds()[kind]._meta.verbose_name)) for _, kind, count in belongings(team) if count]
    if belongs:
        hint = "transfer them to another team first, or to no team"
        raise PlanError("team", f"{team} owns {and_of(belongs)}", hint=hint)
    members = {membership.user.username: membership.role for membership in team.memberships.select_related("user")}
    audit(by, "team.remove", team, before={"id": team.pk, "members": members})
    team.delete()


@transaction.atomic
def set_member(team: Team, user: User, role: Role, *, by: User) -> Membership:
    """Add an existing user to the team, or change the role of a member. Needs an admin of the team or the instance."""
    require(by, Role.ADMIN, "change members", on=team)
    if not user.is_active:
        raise PlanError("user", f"{user} is switched off", hint="an instance admin can switch the user on")
    known = Membership.objects.select_for_update().filter(team=team, user=user).first()
    before = {"role": known.role} if known else None
    made, _ = Membership.objects.update_or_create(team=team, user=user, defaults={"role": role})
    audit(by, "team.member", made, before=before, after={"team": team.pk, "user": user.username, "role": role.value})
    return made


@transaction.atomic
def remove_member(team: Team, user: User, *, by: User) -> None:
    """Remove a member, who remains a viewer. The last admin can be removed, because instance admins are admins of the
    team as well."""
    require(by, Role.ADMIN, "change members", on=team)
    membership = Membership.objects.filter(team=team, user=user).first()
    if membership is None:
        raise PlanError("user", f"{user} is not a member of {team}", hint="the page of the team lists its members")
    audit(by, "team.leave", membership, before={"team": team.pk, "user": user.username, "role": membership.role})
    membership.delete()
    end_tokens_of_others(team)


@transaction.atomic
def hand_over(thing: Owned, team: Team | None, *, by: User) -> None:
    """Move an object, with all revisions of its name, into a team, or with None out of its team. Needs an admin of both
    teams; None stands for the instance."""
    word = str(thing._meta.verbose_name)
    require(by, Role.ADMIN, f"transfer {word}", on=thing)
    before, thing.team = str(thing.team or ""), team
    require(by, Role.ADMIN, f"receive {word}", on=thing)
    _rows(thing).update(team=team)
    about = {"id": thing.pk, "team": str(team or "")}
    audit(by, f"{thing._meta.model_name}.hand_over", thing, before={"team": before}, after=about)


def _rows(thing: Owned) -> QuerySet[Any]:
    """The row of the object, or the rows of all revisions with its name."""
    rows: QuerySet[Any] = type(thing)._default_manager.all()
    return rows.filter(name=getattr(thing, "name", "")) if hasattr(thing, "revision") else rows.filter(pk=thing.pk)


def owned_by_name(kind: str, name: str) -> Owned:
    """The object with this name, or with this number if its kind has no names. PlanError if there is none."""
    if kind not in kinds():
        raise PlanError("kind", f"{kind!r} cannot belong to a team", hint="one of " + ", ".join(kinds()))
    rows: QuerySet[Any] = kinds()[kind]._default_manager.all()
    clean_name = name.replace("\0", "").strip()
    by_name = any(field.name == "name" for field in kinds()[kind]._meta.get_fields())
    matches = rows.filter(name=clean_name) if by_name else rows.filter(pk=whole(clean_name))
    first: Owned | None = matches.order_by("-pk").first()
    if first is None:
        by_what = "name" if by_name else "number in its address"
        raise PlanError("name", f"{kind} {clean_name!r} does not exist", hint=f"give the {by_what} of an existing one")
    return first


def belongings(team: Team) -> list[tuple[str, str, int]]:
    """(title, kind, number of objects) of each kind. Revisions of one name count as one object."""
    counts = []
    for kind, model in kinds().items():
        rows = model._default_manager.filter(team=team)
        one = "name" if any(field.name == "revision" for field in model._meta.get_fields()) else "pk"
        counts.append((str(model._meta.verbose_name_plural), kind, rows.order_by().values(one).distinct().count()))
    return counts


def open_to(user: User, role: Role) -> QuerySet[Team]:
    """Teams in which `user` has `role`; for instance admins every team. A token can limit them to one team."""
    if not user.limits.role.includes(role):
        return Team.objects.none()
    enough = [candidate for candidate in Role if candidate.includes(role)]
    joined = Team.objects.filter(memberships__user=user, memberships__role__in=enough)
    rows = Team.objects.all() if user.is_instance_admin else joined
    return rows if user.limits.team is None else rows.filter(pk=user.limits.team)


def reach(user: User, role: Role, path: str = "team") -> Q:
    """A filter for the rows on which `user` has `role`, by the team at `path`."""
    owned = Q(**{f"{path}__in": open_to(user, role)})
    return owned | Q(**{f"{path}__isnull": True}) if user.may(role) else owned
