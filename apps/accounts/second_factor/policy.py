"""The roles that need a second factor, and the refusals without one."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth import SESSION_KEY, logout
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from apps.accounts.identity import access
from apps.accounts.models import Passkey, SecondFactor, User
from apps.web.idempotency import problem
from common.errors import RoleError

# Key of the session's data in a session that began with a second factor, or in which one was enrolled.
MARK = "_second_factor"
# Names of the addresses that work before the enrolment.
ALLOWED_WITHOUT = (
    *("second_factor", "second_factor_confirm", "passkey_new", "passkey_creation", "passkey_add"),
    *("second_step", "login", "logout"),
)
TITLE = "your role needs a second factor, and you have none yet"
HINT = "add a passkey or enrol an authenticator app on the page Account"
FORBIDDEN = 403


def app(user: User) -> SecondFactor | None:
    """The authenticator app of `user`; None if there is none, or if its enrolment is not finished."""
    return SecondFactor.objects.filter(user_id=user.pk, confirmed_at__isnull=False).first()


def enrolled(user: User) -> bool:
    """Whether `user` has a second factor. A blocked passkey is one: the password alone does not replace it."""
    return app(user) is not None or Passkey.objects.filter(user_id=user.pk).exists()


def with_factor(users: QuerySet[User]) -> QuerySet[User]:
    """The users, with `has_factor`."""
    apps = SecondFactor.objects.filter(user=OuterRef("pk"), confirmed_at__isnull=False)
    return users.annotate(has_factor=Exists(apps) | Exists(Passkey.objects.filter(user=OuterRef("pk"))))


def required(user: User) -> bool:
    """Whether PROVING_SECOND_FACTOR_ROLES names a role of `user`, in the instance or in a team. It never does for
    users who sign in with the provider, which can ask for a second factor itself."""
    if not settings.SECOND_FACTOR_ROLES or not access.password_works(user):
        return False
    roles = {str(user.own_role_in(None)), *user.memberships.values_list("role", flat=True)}
    return not roles.isdisjoint(settings.SECOND_FACTOR_ROLES)


def check_may_issue_token(user: User) -> None:
    """RoleError if `user` needs a second factor and has none, because a token needs no second factor."""
    if required(user) and not enrolled(user):
        raise RoleError("issue token", TITLE, hint=HINT)


class Enforcement:
    """Redirects users who must enrol to the page that enrols, and refuses all other requests. It needs no query in
    sessions with a second factor, or if no role needs one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return _refusal(request) or self.get_response(request)


def _refusal(request: HttpRequest) -> HttpResponseBase | None:
    if not settings.SECOND_FACTOR_ROLES or SESSION_KEY not in request.session or MARK in request.session:
        return None
    user = request.user
    if request.path in {reverse(each) for each in ALLOWED_WITHOUT} or not isinstance(user, User) or not required(user):
        return None
    if enrolled(user):  # the session began before the role needed a second factor
        logout(request)
        return redirect("login")
    if request.path.startswith("/api/"):
        return problem(FORBIDDEN, TITLE, HINT, field="")
    if request.headers.get("HX-Request"):
        return HttpResponse(status=FORBIDDEN, headers={"HX-Redirect": reverse("second_factor")})
    return redirect("second_factor")
