"""`Idempotency-Key` on a POST: a request that is repeated after a lost response has its effect only once.

The terms are those of draft-ietf-httpapi-idempotency-key-header.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.core.files.uploadedfile import UploadedFile
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.multipartparser import MultiPartParserError
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.encoding import force_bytes
from rest_framework.response import Response

from apps.accounts.models import IdempotentRequest, User
from apps.web.requester import PREFIX, user_of

HEADER, REPLAYED = "Idempotency-Key", "Idempotent-Replayed"
LONGEST = 255
STORED_FOR = timedelta(hours=24)
# A server that died during a request leaves it "in progress". No request takes this long.
LOST_AFTER = timedelta(minutes=10)
# Fields that are shown only once. The stored response does not contain them.
SHOWN_ONCE = ("secret", "password")
# Responses that depend on more than the request itself, so a repeated request may get another one.
NOT_STORED = (401, 403, 409, 412, 429)


class IdempotencyMiddleware:
    """Responds to a repeated POST with the stored response. It runs after authentication."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        key = request.headers.get(HEADER)
        if key is None or request.method != "POST" or not request.path.startswith(PREFIX):
            return self.get_response(request)
        user = user_of(request)
        if user is None:
            return self.get_response(request)
        if not (0 < len(key) <= LONGEST and key.isascii() and key.isprintable()):
            hint = f"accepted: 1 to {LONGEST} printable ASCII characters, such as a UUID"
            return problem(400, f"{key[:40]!r} is not a valid key", hint)
        try:
            digest = digest_of(request, user.token_limits)
        except RequestDataTooBig:
            return problem(413, "the body is too large", "upload files as multipart/form-data", field="")
        except (MultiPartParserError, SuspiciousOperation) as error:
            return problem(400, str(error) or "the body cannot be read", "multipart/form-data", field="")
        return self._once(request, user, key, digest)

    def _once(self, request: HttpRequest, user: User, key: str, digest: str) -> HttpResponseBase:
        claimed = claim(user, key, request.path, digest)
        if claimed is None:
            known = IdempotentRequest.objects.filter(user=user, key=key, path=request.path).first()
            return stored_response(known, digest)
        try:
            response = self.get_response(request)
        except BaseException:
            claimed.delete()
            raise
        store(claimed, response)
        return response


def digest_of(request: HttpRequest, token_limits: str | None) -> str:
    """A digest of the body and of the token's limits, so that a token with other limits never gets the stored response.
    The digest of a multipart form covers its fields and files, because a repeated request has another boundary."""
    kind = request.headers.get("Content-Type", "").partition(";")[0]
    if kind == "multipart/form-data":
        parts = [
            list(request.POST.lists()),
            [_file(name, file) for name, files in request.FILES.lists() for file in files],
        ]
        return hashlib.sha256(json.dumps([kind, token_limits, *parts]).encode()).hexdigest()
    return hashlib.sha256(f"{kind}\n{token_limits or ''}\n".encode() + request.body).hexdigest()


def _file(field: str, sent: UploadedFile[Any]) -> list[str | None]:
    """Field, name and digest of a file. It is read in chunks, because large files are on disk, and rewound."""
    content = hashlib.sha256()
    for chunk in sent.chunks():
        content.update(chunk)
    sent.seek(0)
    return [field, sent.name, content.hexdigest()]


def claim(user: User, key: str, path: str, digest: str) -> IdempotentRequest | None:
    """A row for a request that is new; None if the row exists already."""
    now = timezone.now()
    same = IdempotentRequest.objects.filter(user=user, key=key, path=path)
    same.filter(created_at__lte=now - STORED_FOR).delete()
    same.filter(status=None, created_at__lte=now - LOST_AFTER).delete()
    try:
        with transaction.atomic():
            return IdempotentRequest.objects.create(user=user, key=key, path=path, digest=digest)
    except IntegrityError:
        return None


def store(claimed: IdempotentRequest, response: HttpResponseBase) -> None:
    """Store the response for repeated requests, except after a server error and for statuses in NOT_STORED."""
    if response.status_code >= 500 or response.status_code in NOT_STORED or not isinstance(response, HttpResponse):
        claimed.delete()
        return
    claimed.status, claimed.content_type = response.status_code, response.headers.get("Content-Type", "")
    claimed.body = _without_secrets(response)
    claimed.save(update_fields=["status", "content_type", "body"])


class SecretResponse(Response):
    """A response whose fields `hidden` are shown only once, like those of SHOWN_ONCE, and are not stored."""

    def __init__(self, data: Mapping[str, Any], hidden: Sequence[str], status: int) -> None:
        super().__init__(data, status=status)
        self.hidden = hidden


def _without_secrets(response: HttpResponse) -> bytes:
    data = getattr(response, "data", None)
    hidden = (*SHOWN_ONCE, *(response.hidden if isinstance(response, SecretResponse) else ()))
    if not isinstance(response, Response) or not isinstance(data, dict) or not any(data.get(each) for each in hidden):
        return bytes(response.content)
    bare = {name: "" if name in hidden else value for name, value in data.items()}
    return force_bytes(response.accepted_renderer.render(bare))


def stored_response(known: IdempotentRequest | None, digest: str) -> HttpResponse:
    """The stored response; 422 for another body, 409 while the first request is in progress."""
    if known is None or (known.digest == digest and known.status is None):
        answer = problem(409, "the first request with this key is still in progress", "try again in a moment")
        answer["Retry-After"] = "1"
        return answer
    if known.digest != digest:
        return problem(
            422, f"{known.key!r} was already used with another body or role", "use a separate key for each request"
        )
    answer = HttpResponse(bytes(known.body), status=known.status, content_type=known.content_type)
    answer[REPLAYED] = "true"
    return answer


def problem(status: int, title: str, hint: str, field: str = HEADER) -> HttpResponse:
    body = {"title": title, "status": status, "field": field, "hint": hint, "blame": "plan"}
    return JsonResponse(body, status=status, content_type="application/problem+json")


def forget() -> None:
    """Delete responses that are older than STORED_FOR."""
    IdempotentRequest.objects.filter(created_at__lte=timezone.now() - STORED_FOR).delete()
