"""What every service does first and last: ask for the role, and write the audit row in the same transaction."""

from __future__ import annotations

import secrets
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import models, transaction
from django.http import HttpRequest
from rest_framework.request import Request

from apps.accounts.models import AuditEntry, Credential, Membership, ProviderAccount, Role, Team, Thing, User
from common.errors import PlanError, RoleError


def user_of(request: HttpRequest | Request) -> User:
    """The user behind a request that passed authentication; its role is the token's where a token was used."""
    if not isinstance(request.user, User):
        raise RoleError("login", "not logged in", hint="log in, or send a token")
    return request.user


def require(user: User, role: Role, action: str, *, on: Thing | None = None) -> None:
    """RoleError unless `user` may do what needs `role`: in the house, or on a thing that may be a team's."""
    if not user.may(role, on):
        raise _token_refusal(user, role, action, on) or _refusal(user, role, action, on)


def require_somewhere(user: User, role: Role, action: str) -> None:
    """RoleError unless `user` has `role` in the house or in any team. A door asks so; the service asks on the thing."""
    if not user.may_somewhere(role):
        raise _token_refusal(user, role, action, None, somewhere=True) or _refusal(user, role, action, None)


def _token_refusal(
    user: User, role: Role, action: str, on: Thing | None, *, somewhere: bool = False
) -> RoleError | None:
    """Names the limit of the token that asks, if the user may do it without the token; else None."""
    if not user.narrowed:
        return None
    owner = User.objects.get(pk=user.pk)
    if not (owner.may_somewhere(role) if somewhere else owner.may(role, on)):
        return None
    limits = user.limits
    if limits.team is None or not limits.role.includes(role):
        message = f"the token of {user} is {limits.role.value}; this needs {role.value}"
        return RoleError(action, message, hint=f"use a token with the role {role.value}, or log in with your password")
    foreign = [team for team in (on.owners if on else [None]) if team != limits.team]
    owning = Team.objects.filter(pk__in=[each for each in foreign if each is not None]).first()
    where = f"the team {owning}" if owning else "the instance"
    message = f"the token is limited to the team {Team.objects.get(pk=limits.team)}; this needs {role.value} in {where}"
    return RoleError(action, message, hint="use a token that is not limited to a team, or log in with your password")


def _refusal(user: User, role: Role, action: str, on: Thing | None) -> RoleError:
    """Names the first team that does not allow it, and who could."""
    lacking = [team for team in (on.owners if on else ()) if not user.role_in(team).includes(role)]
    team = Team.objects.filter(pk__in=[each for each in lacking if each is not None]).first()
    if team is None or None in lacking:
        return RoleError(action, f"{user} is {user.role}; this needs {role.value}", hint="ask an admin of your team")
    held = user.role_in(team.pk).value
    return RoleError(action, f"{user} is {held} in the team {team}; this needs {role.value} there", hint=_who(team))


def _who(team: Team) -> str:
    """Who can give a role in it."""
    admins = Membership.objects.filter(team=team, role=Role.ADMIN, user__is_active=True)
    names = ", ".join(admins.order_by("user__username").values_list("user__username", flat=True))
    return (
        f"an admin of the team can change it: {names}"
        if names
        else "the team has no admin: an instance admin can change it"
    )


def require_commands(user: User, action: str, field: str) -> None:
    """RoleError unless `user` may have code of their own executed on hosts: no role includes that. `field` holds it."""
    if not user.may_run_commands:
        message = f"{user} may not run commands, and {field} is a program, a script or SQL"
        raise RoleError(action, message, hint=who_grants())


def who_grants() -> str:
    """Who can give the permission to run commands, and how."""
    admins = User.objects.filter(role=Role.ADMIN, is_active=True).order_by("username")
    names = ", ".join(admins.values_list("username", flat=True)[:5])
    return f"an admin{f' ({names})' if names else ''} grants it: manage.py allow_commands NAME, or the API's users"


def save(row: models.Model) -> None:
    """Save a row that its own rules accept; PlanError names the first field that they refuse, and its value."""
    try:
        row.full_clean()
    except ValidationError as error:
        field, messages = next(iter(error.message_dict.items()))
        prefix = f"{getattr(row, field)!r}: " if field != NON_FIELD_ERRORS else ""
        raise PlanError(field, prefix + " ".join(messages)) from error
    row.save()


def audit(actor: User | None, action: str, target: object, *, before: Any = None, after: Any = None) -> None:
    """Append one row; call it inside the transaction of the act. `actor` None is the system itself."""
    AuditEntry.objects.create(actor=actor, action=action, target=str(target)[:200], before=before, after=after)


def beyond_token(by: User, action: str, why: str) -> RoleError:
    """The refusal of what the user may do, and the token that asks may not."""
    message = f"the current token has {limits_of(by)}; {why}"
    return RoleError(action, message, hint="log in with your password, or use a token that permits it")


def limits_of(user: User) -> str:
    """What the token that asks is limited to: "the role viewer, the team storage"."""
    limits = user.limits
    team = Team.objects.filter(pk=limits.team).first() if limits.team is not None else None
    scopes = f"the scope {', '.join(limits.scopes)}" if limits.scopes else ""
    return ", ".join(filter(None, [f"the role {limits.role.value}", f"the team {team}" if team else "", scopes]))


@transaction.atomic
def create_admin(name: str, *, reset: bool = False) -> User:
    """An admin without a password. `reset` makes one of an existing user, who is unlinked from the provider; PlanError
    where it exists without that."""
    user = User.objects.select_for_update().filter(username=name).first()
    if user and not reset:
        raise PlanError("name", f"{name!r} exists", hint="choose another name, or use --reset")
    before = {"role": user.role, "is_active": user.is_active} if user else None
    user = user or User(username=name)
    user.role, user.is_active = Role.ADMIN, True
    if not user.password:
        user.set_unusable_password()
    save(user)
    ProviderAccount.objects.filter(user=user).delete()  # a password works for users who are not linked
    audit(None, "user.create_admin", user, before=before, after={"role": user.role})
    return user


@transaction.atomic
def allow_commands(user: User, allowed: bool, *, by: User | None) -> None:
    """Grant or take the permission to run commands; `by` None is whoever has a shell on the server."""
    if by is not None:
        require(by, Role.ADMIN, "allow commands")
    before = {"may_run_commands": user.may_run_commands}
    user.may_run_commands = allowed
    user.save(update_fields=["may_run_commands"])
    audit(by, "user.allow_commands", user, before=before, after={"may_run_commands": allowed})


@transaction.atomic
def generate_password(user: User) -> str:
    """A new password, shown this once. What let in before ends."""
    password = secrets.token_urlsafe(18)
    user.set_password(password)
    user.save(update_fields=["password"])
    audit(None, "user.password", user, after={"ended": Credential.end_all(user)})
    return password


@transaction.atomic
def change_password(user: User, password: str) -> None:
    """Set a password that was checked against the validators; never the password, only the act is written down.
    Sessions, tokens and the feed of the user end: somebody who had the old password may have made them."""
    user.set_password(password)
    user.save(update_fields=["password"])
    audit(user, "password.change", user, after={"ended": Credential.end_all(user)})
