"""Uploads and downloads over HTTP, for pages and API."""

from __future__ import annotations

from typing import IO, Any, cast

from django.core.files.uploadedfile import UploadedFile
from django.http import FileResponse, Http404, HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.datastructures import MultiValueDict

from apps.campaigns.models import Campaign, Run
from apps.request_values import content_length
from apps.results.exchange.downloads import Export
from apps.results.imports.files import LARGEST_UPLOAD
from common.errors import PlanError


def contents(sent: MultiValueDict[str, UploadedFile[Any]]) -> list[tuple[str, bytes]]:
    """Return (name, content) of the files in a request. PlanError if they exceed the limit."""
    files = [each for name in sent for each in sent.getlist(name)]
    total = sum(file.size or 0 for file in files)
    if total > LARGEST_UPLOAD:
        raise _too_large(total)
    return [(file.name or "", file.read()) for file in files]


def check_length(request: HttpRequest) -> None:
    """Raise PlanError by the declared length of a request, whose body is a little larger than its files."""
    size = content_length(request)
    if size > LARGEST_UPLOAD + 1024**2:
        raise _too_large(size)


def _too_large(size: int) -> PlanError:
    hint = "compress them, or import them in parts"
    return PlanError("files", f"{size} bytes; at most {LARGEST_UPLOAD} are accepted at once", hint=hint)


def download(export: Export, row: Campaign | Run, name: str) -> HttpResponseBase:
    """Return an export as a streamed download that browsers do not render. Http404 if the row does not have it."""
    if not export.offered(row):
        raise Http404(f"{row} has no {name}")
    made, name = export.make(row), f"{row._meta.model_name}-{row.pk}-{name}"
    if hasattr(made, "read"):
        file = cast("IO[bytes]", made)
        response: HttpResponseBase = FileResponse(file, as_attachment=True, filename=name)
    else:
        response = StreamingHttpResponse(made)
        response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Content-Type"] = export.content_type
    response["X-Content-Type-Options"] = "nosniff"
    return response
