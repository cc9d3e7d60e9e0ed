"""Checks that all services share: they require a role first, and write an audit entry in the same transaction."""

from __future__ import annotations

import secrets
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import models, transaction
from django.http import HttpRequest
from rest_framework.request import Request

from apps.accounts.models import AuditEntry, Credential, HasOwners, Membership, ProviderAccount, Role, Team, User
from common.errors import PlanError, RoleError


def user_of(request: HttpRequest | Request) -> User:
    """The user of an authenticated request, with roles reduced to the limits of its token, if it has one."""
    if not isinstance(request.user, User):
        raise RoleError("login", "not logged in", hint="log in, or send a token")
    return request.user


def require(user: User, role: Role, action: str, *, on: HasOwners | None = None) -> None:
    """RoleError unless `user` has `role`: in the instance, or on an object that a team can own."""
    if not user.may(role, on):
        raise _token_refusal(user, role, action, on) or _refusal(user, role, action, on)


def require_somewhere(user: User, role: Role, action: str) -> None:
    """RoleError unless `user` has `role` in the instance or in any team. Pages and API check this before they know the
    object; the service then calls `require` on it."""
    if not user.may_somewhere(role):
        raise _token_refusal(user, role, action, None, somewhere=True) or _refusal(user, role, action, None)


def _token_refusal(
    user: User, role: Role, action: str, on: HasOwners | None, *, somewhere: bool = False
) -> RoleError | None:
    """An error that names the limit of the request's token, if the user may do it without the token; otherwise None."""
    if not user.token_limits:
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
    own = Team.objects.filter(pk=limits.team).first()
    message = f"the token is limited to the team {own}; this needs {role.value} in {where}"
    return RoleError(action, message, hint="use a token that is not limited to a team, or log in with your password")


def _refusal(user: User, role: Role, action: str, on: HasOwners | None) -> RoleError:
    """An error that names the first team that does not allow it, and the admins who can change that."""
    lacking = [team for team in (on.owners if on else ()) if not user.role_in(team).includes(role)]
    team = Team.objects.filter(pk__in=[each for each in lacking if each is not None]).first()
    if team is None or None in lacking:
        return RoleError(action, f"{user} is {user.role}; this needs {role.value}", hint="ask an admin of your team")
    role_there = user.role_in(team.pk).value
    return RoleError(
        action, f"{user} is {role_there} in the team {team}; this needs {role.value} there", hint=_admins_of(team)
    )


def _admins_of(team: Team) -> str:
    """A hint that names the users who can change roles in the team."""
    admins = Membership.objects.filter(team=team, role=Role.ADMIN, user__is_active=True)
    names = ", ".join(admins.order_by("user__username").values_list("user__username", flat=True))
    return (
        f"an admin of the team can change it: {names}"
        if names
        else "the team has no admin: an instance admin can change it"
    )


def require_commands(user: User, action: str, field: str) -> None:
    """RoleError unless `user` has the permission to run commands on hosts, which no role includes. `field` is the field
    with the command."""
    if not user.may_run_commands:
        message = f"{user} may not run commands, and {field} is a program, a script or SQL"
        raise RoleError(action, message, hint=who_grants())


def who_grants() -> str:
    """A hint that says which users grant the permission to run commands, and how."""
    admins = User.objects.filter(role=Role.ADMIN, is_active=True).order_by("username")
    names = ", ".join(admins.values_list("username", flat=True)[:5])
    return f"an admin{f' ({names})' if names else ''} grants it: manage.py allow_commands NAME, or the API's users"


def save(row: models.Model) -> None:
    """Validate and save a row. PlanError names the first invalid field and its value."""
    try:
        row.full_clean()
    except ValidationError as error:
        field, messages = next(iter(error.message_dict.items()))
        prefix = f"{getattr(row, field)!r}: " if field != NON_FIELD_ERRORS else ""
        raise PlanError(field, prefix + " ".join(messages)) from error
    row.save()


def audit(actor: User | None, action: str, target: object, *, before: Any = None, after: Any = None) -> None:
    """Append an audit entry. Call it in the transaction of the change. `actor` None is the system."""
    AuditEntry.objects.create(actor=actor, action=action, target=str(target)[:200], before=before, after=after)


def beyond_token(by: User, action: str, reason: str) -> RoleError:
    """An error for an action that the user may do, but not with the token of this request."""
    message = f"the current token has {limits_of(by)}; {reason}"
    return RoleError(action, message, hint="log in with your password, or use a token that permits it")


def limits_of(user: User) -> str:
    """The limits of the request's token as text: "the role viewer, the team storage"."""
    limits = user.limits
    team = Team.objects.filter(pk=limits.team).first() if limits.team is not None else None
    scopes = f"the scope {', '.join(limits.scopes)}" if limits.scopes else ""
    return ", ".join(filter(None, [f"the role {limits.role.value}", f"the team {team}" if team else "", scopes]))


@transaction.atomic
def create_admin(name: str, *, reset: bool = False) -> User:
    """An admin without a password. With `reset`, an existing user becomes admin and is unlinked from the provider.
    PlanError if the user exists and `reset` is false."""
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
    """Grant or revoke the permission to run commands. `by` None is the operator of the server, at a shell."""
    if by is not None:
        require(by, Role.ADMIN, "allow commands")
    before = {"may_run_commands": user.may_run_commands}
    user.may_run_commands = allowed
    user.save(update_fields=["may_run_commands"])
    audit(by, "user.allow_commands", user, before=before, after={"may_run_commands": allowed})


@transaction.atomic
def generate_password(user: User) -> str:
    """A new password, shown only once. Sessions, tokens and the feed of the user end."""
    password = secrets.token_urlsafe(18)
    user.set_password(password)
    user.save(update_fields=["password"])
    audit(None, "user.password", user, after={"ended": Credential.end_all(user)})
    return password


@transaction.atomic
def change_password(user: User, password: str) -> None:
    """Set a password that the validators accepted. Sessions, tokens and the feed of the user end, because an attacker
    with the old password may have created them. The audit log has the change without the password."""
    user.set_password(password)
    user.save(update_fields=["password"])
    audit(user, "password.change", user, after={"ended": Credential.end_all(user)})
