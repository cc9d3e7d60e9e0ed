"""Access with a provider: who may sign in, by which means, and the roles that groups grant."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.accounts.identity import mapping
from apps.accounts.models import Credential, Membership, ProviderAccount, Role, Team, User
from apps.accounts.models.walls import change_reader, everything
from apps.accounts.services import audit
from apps.accounts.team.teams import end_tokens_of_others
from common.errors import RoleError

BY = "groups at the provider"


def enabled() -> bool:
    """Whether a provider is configured."""
    return bool(settings.OIDC_ISSUER)


def linked(user: User) -> ProviderAccount | None:
    """The account at the provider with which `user` signs in. One query at most, and none without a provider."""
    account: ProviderAccount | None = getattr(user, "provider_account", None) if enabled() else None
    return account


def password_works(user: User) -> bool:
    """Whether `user` may log in with a password: with a provider, only users who are not linked to it, or, if
    PROVING_BREAK_GLASS_ADMIN is set, only that one."""
    if not enabled():
        return True
    if settings.BREAK_GLASS_ADMIN:
        return user.username == settings.BREAK_GLASS_ADMIN
    return linked(user) is None


def lapsed(user: User) -> str:
    """Why the API tokens and the feed of `user` do not work until the next sign-in at the provider; "" if they do."""
    account = linked(user)
    if account is None or account.confirmed_at > timezone.now() - timedelta(days=settings.OIDC_TOKEN_DAYS):
        return ""
    return (
        f"{settings.OIDC_NAME} last confirmed this account on {account.confirmed_at:%Y-%m-%d}; sign in once in the"
        " browser to use its tokens again"
    )


def granted(claims: dict[str, Any]) -> mapping.Grant:
    """Return the roles of the groups in the claims. RoleError if PROVING_OIDC_ROLES is set and there are none."""
    held = mapping.groups(claims, settings.OIDC_GROUPS_CLAIM)
    grant = mapping.grant(held, settings.OIDC_ROLES, settings.OIDC_TEAMS)
    if settings.OIDC_ROLES and not grant.role:
        message = "none of your groups at the provider has a role here"
        raise RoleError("sign-in", message, hint="ask your administrator which group you need")
    return grant


@transaction.atomic
def confirm(account: ProviderAccount, grant: mapping.Grant) -> None:
    """Give the account's user the roles of the groups, and no others, in the instance and in every team that
    PROVING_OIDC_TEAMS names. What changes is in the audit log."""
    user = User.objects.select_for_update().get(pk=account.user_id)
    if settings.OIDC_ROLES and user.role != grant.role:
        audit(None, "user.change", user, before={"role": user.role}, after={"role": grant.role, "by": BY})
        user.role = Role(grant.role)
        user.save(update_fields=["role"])
    with everything():
        for team in Team.objects.filter(name__in={entry.team for entry in settings.OIDC_TEAMS}):
            _set_member(team, user, grant.teams.get(team.name, ""))
    change_reader(lambda: User.objects.get(pk=user.pk).hidden_teams)
    account.confirmed_at = timezone.now()
    account.save(update_fields=["confirmed_at"])


def _set_member(team: Team, user: User, role: str) -> None:
    """Set the membership that the groups grant; `role` "" removes it."""
    known = Membership.objects.filter(team=team, user=user).first()
    if role == (known.role if known else ""):
        return
    about = {"team": team.pk, "user": user.username}
    before = {"role": known.role} if known else None
    if known and not role:
        audit(None, "team.leave", known, before={**about, "role": known.role}, after={"by": BY})
        known.delete()
        end_tokens_of_others(team)
        return
    made, _ = Membership.objects.update_or_create(team=team, user=user, defaults={"role": role})
    audit(None, "team.member", made, before=before, after={**about, "role": role, "by": BY})


@transaction.atomic
def end(user: User, reason: str) -> None:
    """The provider took the access away: sessions, API tokens and the feed of `user` end."""
    audit(None, "access.end", user, after={"reason": reason, "ended": Credential.end_all(user)})
