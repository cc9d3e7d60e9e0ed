"""Errors of the API as problem details (RFC 9457), and what the OpenAPI schema says of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

from django.http import Http404
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import APIView, exception_handler

from apps.web.rest import TokenAuthentication
from common.errors import HostError, PlanError, ProvingError, RoleError


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = TokenAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}


class Problem(serializers.Serializer[Any]):
    """Every error of the API, as application/problem+json."""

    title = serializers.CharField(help_text="the error")
    status = serializers.IntegerField()
    field = serializers.CharField(help_text="the field, host or tool with the error; empty if there is none")
    hint = serializers.CharField(help_text="accepted values, or the next step")
    blame = serializers.CharField(help_text="plan (the request), host, agent or workload")
    errors = serializers.ListField(  # type: ignore[assignment]  # the field, not the attribute
        child=serializers.DictField(child=serializers.CharField()),
        required=False,
        help_text="field and title of each error, if several fields have errors",
    )


class ProblemSchema(AutoSchema):
    """Operations answer problems as well: said once here, not on each of them."""

    def _get_response_bodies(self, direction: Literal["request", "response"] = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        problem_schema = self.resolve_serializer(Problem(), "response").ref
        content = {"application/problem+json": {"schema": problem_schema}}
        return bodies | {"default": {"content": content, "description": "a problem"}}


STATUS: dict[type[ProvingError], int] = {
    RoleError: status.HTTP_403_FORBIDDEN,
    PlanError: status.HTTP_400_BAD_REQUEST,
    HostError: status.HTTP_502_BAD_GATEWAY,
    ProvingError: status.HTTP_500_INTERNAL_SERVER_ERROR,
}
HINTS = {
    status.HTTP_401_UNAUTHORIZED: "log in, or send Authorization: Bearer TOKEN",
    status.HTTP_404_NOT_FOUND: "see /api/docs/ for all addresses; they end with a slash",
    status.HTTP_415_UNSUPPORTED_MEDIA_TYPE: "send JSON with Content-Type: application/json",
    status.HTTP_429_TOO_MANY_REQUESTS: "wait for the time in Retry-After",
}


# Django's message of get_object_or_404, with the name of the model.
NO_ROW = re.compile(r"No (\w+) matches the given query\.")


def problem(error: Exception, context: dict[str, Any]) -> Response | None:
    """Return any error as problem details, the project's own errors and those of the framework in the same shape.

    `api_names` of a view maps fields of services to their names in the API, for the errors of services."""
    if isinstance(error, ProvingError):
        code = next(code for kind, code in STATUS.items() if isinstance(error, kind))
        body = {"title": error.message, "status": code, "field": _api_name(error.subject, context), "hint": error.hint}
        return _problem_response(body | {"blame": error.blame}, code)
    if isinstance(error, Http404) and (missing := NO_ROW.fullmatch(str(error))):
        error = NotFound(f"there is no such {_words(missing[1])}, or you may not see it")
    answer = exception_handler(error, context)
    if answer is None:
        return None
    wrong = list(_flatten(answer.data))
    code = answer.status_code
    field, title = wrong[0]
    hint = HINTS.get(code, "")
    if code == status.HTTP_405_METHOD_NOT_ALLOWED:
        hint = "allowed are: " + str(context["view"].headers.get("Allow", ""))
    body = {"title": title, "status": code, "field": field, "hint": hint, "blame": "plan"}
    if len(wrong) > 1:
        body["errors"] = [{"field": field, "title": title} for field, title in wrong]
    return _problem_response(body, code, headers=answer.headers)


def _problem_response(body: dict[str, Any], code: int, headers: Any = None) -> Response:
    other_headers = {name: value for name, value in (headers or {}).items() if name.lower() != "content-type"}
    return Response(body, status=code, headers=other_headers, content_type="application/problem+json")


def _api_name(subject: str, context: dict[str, Any]) -> str:
    field, dot, rest = subject.partition(".")
    names: dict[str, str] = getattr(context.get("view"), "api_names", {})
    return names.get(field, field) + dot + rest


def _words(name: str) -> str:
    """ApiToken as "api token"."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()


def _flatten(detail: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """DRF's nested error details as (dotted field, message)."""
    if isinstance(detail, dict):
        for key, inner in detail.items():
            top = key in ("detail", api_settings.NON_FIELD_ERRORS_KEY)
            yield from _flatten(inner, path if top else f"{path}.{key}".lstrip("."))
    elif isinstance(detail, list):
        for index, inner in enumerate(detail):
            yield from _flatten(inner, f"{path}.{index}".lstrip(".") if isinstance(inner, dict | list) else path)
    else:
        yield path, str(detail)


class NotHere(APIView):
    """Answers unknown URLs of the API with a problem document instead of a page."""

    @extend_schema(exclude=True)
    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        raise NotFound(f"{request.path} is not an address of this API")
