"""Shared by pages: permission checks, and a service's error next to the field that it names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.utils.http import content_disposition_header

from apps.accounts.models import Role
from apps.accounts.services import user_of
from apps.request_values import whole
from apps.web import keyset
from common.errors import PlanError, ProvingError, RoleError

P = ParamSpec("P")
M = TypeVar("M", bound=Model)
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]
UNPROCESSABLE, TOO_MANY = 422, 429
PATHS = ("settings.", "workload.", "steps.", "dataset.", "target.")  # of what a factor sets, as a person wrote it


def needs(role: Role, *, somewhere: bool = False) -> Callable[[View[P]], View[P]]:
    """403 unless the user's role includes `role`; the service asks again, for the API comes in by another door.

    `somewhere`: a role in any team will do here, for the service asks on the thing itself.
    """

    def decorate(view: View[P]) -> View[P]:
        def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            user = user_of(request)
            if not (user.may_somewhere(role) if somewhere else user.may(role)):
                raise PermissionDenied(f"You are {user.role}; this needs the role {role.value}.")
            try:
                return view(request, *args, **kwargs)
            except RoleError as error:
                raise PermissionDenied(spoken(error)) from error

        update_wrapper(guarded, view)
        guarded.__dict__["somewhere"] = somewhere
        return guarded

    return decorate


def blame(form: forms.BaseForm, error: ProvingError) -> None:
    """Put the complaint beside the field it names: the whole of `subject`, or as much of it as is a field."""
    if isinstance(error, RoleError):
        raise error
    name = error.subject
    while name and name not in form.fields:
        name = name.rpartition(".")[0]
    inner = error.subject.removeprefix(name).lstrip(".")
    form.add_error(name or None, sentence(inner, error) if name else spoken(error))


def sentence(subject: str, error: ProvingError) -> str:
    """ "shared_buffers: '1XB' is no number. Accepted: ..." """
    text = f"{subject}: {error.message}" if subject else error.message
    return f"{text}. {error.hint[:1].upper()}{error.hint[1:]}." if error.hint else f"{text}."


def spoken(error: ProvingError) -> str:
    """Return the error as a complete sentence, with its path, host or tool, but without a field's name."""
    is_field = isinstance(error, PlanError) and not error.subject.startswith(PATHS)
    return sentence("" if is_field else error.subject, error)


def attempt(request: HttpRequest, action: Callable[[], Any], done: str) -> bool:
    """Do what a button asks and say how it went; the caller redirects to the page that shows it."""
    try:
        action()
    except RoleError:
        raise
    except ProvingError as error:
        messages.error(request, spoken(error))
        return False
    messages.success(request, done)
    return True


def page(
    request: HttpRequest, template: str, context: dict[str, Any], form: forms.BaseForm | None = None
) -> HttpResponse:
    """The template, with 422 when the form that it shows again was not accepted."""
    status = UNPROCESSABLE if form is not None and form.is_bound and form.errors else 200
    return render(request, template, context if form is None else {"form": form, **context}, status=status)


def of_team(request: HttpRequest, rows: QuerySet[M]) -> QuerySet[M]:
    """The rows, each with its team; of ?team= alone where that names one."""
    with_team, team = rows.select_related("team"), team_in_url(request)
    return with_team if team is None else with_team.filter(team=team)


def team_in_url(request: HttpRequest) -> int | None:
    """The key in ?team=, be there such a team or not."""
    return whole(request.GET.get("team", ""))


def row_in_url(request: HttpRequest, rows: QuerySet[M], name: str) -> M:
    """Return the row whose id is in the query parameter `name`. 404 if there is none."""
    try:
        key = UUID(request.GET.get(name, ""))
    except ValueError as error:
        raise Http404(f"?{name}= is not the id of a {name}") from error
    return get_object_or_404(rows, pk=key)


def keyset_page(request: HttpRequest, rows: QuerySet[M], order: Sequence[str], size: int) -> keyset.Page[M]:
    """The rows at ?cursor=, the first ones without. 404 for a cursor that is not of this list."""
    try:
        return keyset.page(rows, order, size, request.GET.get("cursor", ""))
    except PlanError as error:
        raise Http404(spoken(error)) from error


def too_often(request: HttpRequest, wait_s: int, title: str = "too many attempts from your address") -> HttpResponse:
    """429, and when the address may try again."""
    context = {"title": title, "hint": f"try again in {-(-wait_s // 60)} min", "status": TOO_MANY}
    response = render(request, "refused.html", context, status=TOO_MANY)
    response["Retry-After"] = str(wait_s)
    return response


def attachment(name: str, text: str) -> HttpResponse:
    """A text as a download that no browser interprets."""
    response = HttpResponse(text, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    response["X-Content-Type-Options"] = "nosniff"
    return response
