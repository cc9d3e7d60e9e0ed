"""Classes that settings.py names to the API framework: authentication, permission and paging.

The framework imports this module while it is being imported itself, so its views cannot be imported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from django.db.models import QuerySet
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import ParseError, ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.parsers import JSONParser
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from apps.accounts import services
from apps.accounts.models import NONE, ApiToken, Role, Scope, User, walls
from apps.accounts.tokens import admission
from apps.documents import check_depth
from apps.request_values import whole
from apps.web import keyset

if TYPE_CHECKING:
    from rest_framework.generics import GenericAPIView
    from rest_framework.serializers import BaseSerializer, Serializer
    from rest_framework.views import APIView


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer SECRET`. The user of such a request may do no more than the token permits."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, secret = get_authorization_header(request).decode("latin-1").partition(" ")
        if scheme.lower() != "bearer":
            return None
        address = str(request.META.get("REMOTE_ADDR", ""))
        token = admission.admit(secret.strip(), address)
        admission.note_use(token, address)
        walls.change_reader(lambda: token.user.hidden_teams)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class RolePermission(BasePermission):
    """Checks the role that `roles` of the viewset maps to the action. Other actions need VIEWER to read, and are
    refused if they write.

    The user needs the role in the instance. If `of_teams` names the action, the role in any team is sufficient here,
    because the service checks the role on the object.
    """

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not isinstance(request.user, User):
            return False
        action = getattr(view, "action", None)
        if action is None and str(request.method).lower() not in getattr(view, "action_map", {}):
            return True  # no action will run: the view responds with 405, or raises its own error
        needed = role_of(view, str(action), str(request.method))
        if needed is None:
            return False
        admission.check_scope(request.user, scope_of(view, str(action), str(request.method)), str(action))
        check = services.require_somewhere if action in getattr(view, "of_teams", ()) else services.require
        check(request.user, needed, str(action))
        return True


def role_of(view: Any, action: str, method: str) -> Role | None:
    """The role that an action of a viewset needs. None for a writing action without a declared role: it is refused."""
    default = Role.VIEWER if method.upper() in SAFE_METHODS else None
    roles: dict[str, Role] = getattr(view, "roles", {})
    return roles.get(action, default)


def scope_of(view: Any, action: str, method: str) -> str:
    """The scope that a token needs for an action of a viewset: that of the action in `scopes`, otherwise the viewset's
    `scope`. If neither is declared, only a token without scopes permits the action."""
    if method.upper() in SAFE_METHODS:
        return Scope.READ
    scopes: dict[str, str] = getattr(view, "scopes", {})
    return scopes.get(action, getattr(view, "scope", NONE))


class KeptJSONParser(JSONParser):
    """Accepts only JSON that PostgreSQL can store, without NUL and surrogate halves, up to a limited depth."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        try:
            document = super().parse(stream, media_type, parser_context)
            check_depth(document)
        except (RecursionError, ValueError) as error:
            raise ParseError(f"JSON parse error - {error or 'nested too deep'}") from error
        path = _unstorable_path(document)
        if path is not None:
            raise ValidationError({path: "NUL and surrogate halves cannot be stored; remove them"})
        return document


def _unstorable_path(value: Any, path: str = "") -> str | None:
    """Return the path of the first text that cannot be stored; None if there is none."""
    if isinstance(value, str):
        return path if "\x00" in value or not _encodable(value) else None
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        if isinstance(key, str) and _unstorable_path(key) is not None:
            return path
        inner_path = _unstorable_path(inner, f"{path}.{key}".lstrip("."))
        if inner_path is not None:
            return inner_path
    return None


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Pages(BasePagination):
    """`?cursor=` from `next` or `previous` of a response, and `?page_size=` up to 500. The total is not counted."""

    size, most = 50, 500

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self.address = request.build_absolute_uri()
        order = [*(queryset.query.order_by or queryset.model._meta.ordering)]
        size = min(whole(request.query_params.get("page_size", "")) or self.size, self.most)
        self.page = keyset.page(queryset, _unique(order), size, request.query_params.get("cursor", ""))
        return self.page.rows

    def get_paginated_response(self, data: Any) -> Response:
        return Response(
            {"next": self._link(self.page.next), "previous": self._link(self.page.previous), "results": data}
        )

    def _link(self, cursor: str) -> str | None:
        return replace_query_param(self.address, "cursor", cursor) if cursor else None

    def get_paginated_response_schema(self, schema: Any) -> dict[str, Any]:
        link = {"type": "string", "format": "uri", "nullable": True}
        properties = {"next": link, "previous": link, "results": schema}
        return {"type": "object", "required": ["results"], "properties": properties}

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [
            _parameter("cursor", "string", "cursor of a page, from `next` or `previous` of a response"),
            _parameter("page_size", "integer", f"rows per page; default: {self.size}, maximum: {self.most}"),
        ]


def _unique(order: Sequence[str]) -> list[str]:
    """The order with the key as the last column, in the direction of the first, so that the order is total."""
    if order and order[-1].removeprefix("-") in ("pk", "id"):
        return list(order)
    return [*order, "-pk" if order and order[0].startswith("-") else "pk"]


def _parameter(name: str, kind: str, description: str) -> dict[str, Any]:
    return {"name": name, "required": False, "in": "query", "description": description, "schema": {"type": kind}}


def paged(
    view: GenericAPIView[Any], rows: QuerySet[Any], serializer: type[BaseSerializer[Any]], **context: Any
) -> Response:
    """A page of rows of another model than the view's, such as the revisions of a profile. `context`: of the
    serializer."""
    return view.get_paginated_response(serializer(view.paginate_queryset(rows), many=True, context=context).data)


def body_of(request: Request, serializer: type[Serializer[Any]], *, partial: bool = False) -> dict[str, Any]:
    """The fields of a request's body. ValidationError names each that is wrong."""
    return _validated(serializer(data=request.data, partial=partial))


def query_of(request: Request, serializer: type[Serializer[Any]]) -> dict[str, Any]:
    """The parameters of a request's address. ValidationError names each that is wrong."""
    return _validated(serializer(data=request.query_params))


def _validated(serializer: Serializer[Any]) -> dict[str, Any]:
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)
