"""Invites, changes and deactivates users, and resets forgotten passwords by a link that works once."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.tokens import default_token_generator
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from apps.accounts.identity import access
from apps.accounts.models import Credential, Role, User
from apps.accounts.notices import mail
from apps.accounts.services import audit, require, save
from common.errors import PlanError, ProvingError

AGAIN_S = 300  # so that pressing a button cannot fill a mailbox


@transaction.atomic
def invite(username: str, email: str, role: Role, *, by: User) -> User:
    """Create a user, who chooses a password with the link that `send_link` mails. PlanError if the name is taken."""
    require(by, Role.ADMIN, "invite users")
    user = User(username=username.strip(), email=_address(email), role=role)
    user.set_unusable_password()
    save(user)
    audit(by, "user.invite", user, after={"role": role.value, "email": user.email})
    return user


@transaction.atomic
def change(
    user: User, *, by: User, role: Role | None = None, is_active: bool | None = None, email: str | None = None
) -> None:
    """Change the fields that are not None. A deactivated user is logged out everywhere and loses all tokens. The
    last admin stays one."""
    require(by, Role.ADMIN, "change users")
    if role is not None and role != user.role and settings.OIDC_ROLES and access.linked(user):
        message = f"the groups at {settings.OIDC_NAME} define the role of {user}"
        raise PlanError("role", message, hint="change them there")
    requested = {"role": role, "is_active": is_active, "email": None if email is None else _address(email)}
    after = {name: value for name, value in requested.items() if value is not None and value != getattr(user, name)}
    admins = list(User.objects.select_for_update().filter(role=Role.ADMIN, is_active=True).values_list("pk", flat=True))
    if admins == [user.pk] and (after.get("role", Role.ADMIN) != Role.ADMIN or after.get("is_active") is False):
        raise PlanError("role", f"{user} is the only admin", hint="make another user an admin first")
    before = {name: getattr(user, name) for name in after}
    for name, value in after.items():
        setattr(user, name, value)
    if after:
        save(user)
        audit(by, "user.change", user, before=before, after=after)
    if after.get("is_active") is False:
        Credential.end_all(user)


def link(user: User) -> str:
    """Return the URL where `user` chooses a password. It works once, for three days, and ends with a login."""
    key = urlsafe_base64_encode(force_bytes(user.pk))
    token = default_token_generator.make_token(user)
    return settings.BASE_URL + reverse("password_set", args=[key, token])


def check_password_works(user: User) -> None:
    """PlanError if `user` may only sign in with the provider."""
    if not access.password_works(user):
        message = f"a password does not work for {user}"
        raise PlanError("user", message, hint=f"{user} signs in with {settings.OIDC_NAME}")


def send_link(user: User) -> None:
    """Mail the link. PlanError if the server sends no mail or the user has no address; HostError if it is refused."""
    check_password_works(user)
    if not user.email:
        raise PlanError("email", f"{user} has no mail address", hint="an admin can add one on the page of users")
    days = settings.PASSWORD_RESET_TIMEOUT // 86400
    text = (
        f"Your user name at Proving Ground is {user.username}. Set a password here:\n\n{link(user)}\n\nThe link "
        f"works once, for {days} days. If you did not expect this mail, ignore it: nothing has changed.\n"
    )
    mail.send(user.email, "Set a password", text, f"password-{user.pk}-{default_token_generator.make_token(user)}")


@transaction.atomic
def send_invitation(user: User, *, by: User) -> None:
    """The first link, or another."""
    require(by, Role.ADMIN, "invite users")
    send_link(user)
    audit(by, "user.send_link", user)


def forgot(email: str) -> None:
    """Mail a link to the user with this address, if there is one. The response does not reveal whether there is."""
    for user in User.objects.filter(email__iexact=email, is_active=True).exclude(email=""):
        if access.password_works(user) and cache.add(f"password-link:{user.pk}", 1, AGAIN_S):
            try:
                send_link(user)
            except ProvingError as error:
                audit(None, "user.send_link", user, after={"error": str(error)})
            else:
                audit(None, "user.send_link", user, after={"asked": "through the form of the login page"})


def _address(email: str) -> str:
    try:
        validate_email(email.strip())
    except ValidationError as error:
        raise PlanError(
            "email", f"{email[:80]!r} is not a mail address", hint="accepted: an address such as ada@example.org"
        ) from error
    return email.strip()
