"""The user behind an account at the provider: known, linked or created at the first sign-in."""

from __future__ import annotations

import re

from django.conf import settings
from django.db import transaction

from apps.accounts.identity import access
from apps.accounts.identity.provider import Confirmed, refused
from apps.accounts.models import Credential, ProviderAccount, Role, User
from apps.accounts.services import audit, require, save
from common.errors import PlanError

IS_YOURS = "if it is your account, log in with your password and link it under Account; else ask an admin"
# Characters that Django's UnicodeUsernameValidator refuses in a user name.
ODD = re.compile(r"[^\w.@+-]")


@transaction.atomic
def sign_in(confirmed: Confirmed, *, address: str) -> ProviderAccount:
    """The account that the provider confirmed, with the roles of its groups. `address` is the client's.

    RoleError, and nothing is changed, if the groups give no role, the user is deactivated, or a first sign-in finds a
    local account that it may not take.
    """
    grant = access.granted(confirmed.claims)
    account = _known(confirmed) or _linked_by_mail(confirmed, address) or _created(confirmed, address)
    if not account.user.is_active:
        raise refused(f"the user {account.user} is switched off here", hint="ask an admin of your team")
    access.confirm(account, grant)
    audit(account.user, "login.provider", account.user, after={"account": str(account)[:200], "address": address})
    return account


@transaction.atomic
def link(user: User, confirmed: Confirmed, *, address: str) -> ProviderAccount:
    """Link `user`, who entered their password, to this account. The password no longer works, and the sessions that
    it started end."""
    grant = access.granted(confirmed.claims)
    if _known(confirmed):
        raise refused("this account at the provider is linked to another user", hint="ask an admin")
    if user.username == settings.BREAK_GLASS_ADMIN:
        raise refused(f"{user} is the break-glass admin", hint="link another user")
    if access.linked(user):
        raise refused(f"{user} is linked to an account at the provider already", hint="ask an admin")
    account = _link(user, confirmed, how="by the user", address=address)
    access.confirm(account, grant)
    return account


@transaction.atomic
def unlink(user: User, *, by: User) -> None:
    """The account at the provider no longer signs in as `user`. Sessions, tokens and the feed end; a link to set a
    password works again."""
    require(by, Role.ADMIN, "unlink users")
    account = access.linked(user)
    if account is None:
        raise PlanError("user", f"{user} is not linked to an account at the provider")
    account.delete()
    audit(by, "login.unlink", user, before={"account": str(account)[:200]}, after={"ended": Credential.end_all(user)})


def verified_mail(confirmed: Confirmed) -> str:
    """The mail address that the provider has verified; "" if it has verified none."""
    mail = confirmed.claims.get("email")
    return mail if isinstance(mail, str) and confirmed.claims.get("email_verified") is True else ""


def _known(confirmed: Confirmed) -> ProviderAccount | None:
    rows = ProviderAccount.objects.select_related("user").select_for_update(of=("self",))
    return rows.filter(issuer=confirmed.issuer, subject=confirmed.subject).first()


def _linked_by_mail(confirmed: Confirmed, address: str) -> ProviderAccount | None:
    """The one active user with the verified mail address, if PROVING_OIDC_LINK_BY_EMAIL allows it. Never an admin: an
    address must not be enough to become one."""
    mail = verified_mail(confirmed)
    if not (settings.OIDC_LINK_BY_EMAIL and mail):
        return None
    users = list(User.objects.filter(email__iexact=mail, is_active=True)[:2])
    if len(users) != 1 or users[0].role == Role.ADMIN or access.linked(users[0]):
        return None
    if users[0].username == settings.BREAK_GLASS_ADMIN or _is_admin_of_a_team(users[0]):
        return None
    return _link(users[0], confirmed, how="by mail address", address=address)


def _is_admin_of_a_team(user: User) -> bool:
    return user.memberships.filter(role=Role.ADMIN).exists()


def _link(user: User, confirmed: Confirmed, *, how: str, address: str) -> ProviderAccount:
    user.set_unusable_password()
    user.save(update_fields=["password"])
    account = ProviderAccount.objects.create(user=user, issuer=confirmed.issuer, subject=confirmed.subject)
    audit(user, "login.link", user, after={"account": str(account)[:200], "how": how, "address": address})
    return account


def _created(confirmed: Confirmed, address: str) -> ProviderAccount:
    """A new user, named by PROVING_OIDC_USERNAME_CLAIM. A name or address of an existing user is refused: a second
    account would be mistaken for the first."""
    mail, name = verified_mail(confirmed), user_name(confirmed)
    if User.objects.filter(username__iexact=name).exists():
        raise refused(f"the user name {name} is taken", hint=IS_YOURS)
    if mail and User.objects.filter(email__iexact=mail).exists():
        raise refused(f"another user has the mail address {mail}", hint=IS_YOURS)
    user = User(username=name, email=mail, role=Role.VIEWER)
    user.set_unusable_password()
    save(user)
    account = ProviderAccount.objects.create(user=user, issuer=confirmed.issuer, subject=confirmed.subject)
    audit(user, "login.create", user, after={"account": str(account)[:200], "address": address})
    return account


def user_name(confirmed: Confirmed) -> str:
    """The user name for a new account; characters that it may not contain become hyphens."""
    claim = confirmed.claims.get(settings.OIDC_USERNAME_CLAIM)
    name = claim if isinstance(claim, str) and claim.strip() else confirmed.subject
    return ODD.sub("-", User.normalize_username(name.strip()))[:150]
