"""The audit log: who did what to which thing, filtered, and as CSV."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import path

from apps.accounts.audit import chain, records, syslog
from apps.accounts.models import Role, User
from apps.web.pages import keyset_page, needs, page, spoken
from common.errors import PlanError

SHOWN = 100


@needs(Role.ADMIN)
def audit_log(request: HttpRequest) -> HttpResponse:
    filters = records.Filters.of(request.GET)
    try:
        row_page = keyset_page(request, records.entries(filters), ("-id",), SHOWN)
    except PlanError as error:
        raise Http404(spoken(error)) from error
    context = {
        "entries": row_page.rows,
        "pages": row_page,
        "filters": filters,
        "filtered": filters != records.Filters(),
        "head": chain.head(),
        "receiver": list(syslog.status()),
        "people": User.objects.order_by("username"),
        "query": request.GET.urlencode(),
    }
    return page(request, "accounts/audit.html", context)


@needs(Role.ADMIN)
def audit_csv(request: HttpRequest) -> HttpResponseBase:
    """Download all entries that the filter selects."""
    try:
        rows = records.entries(records.Filters.of(request.GET))
    except PlanError as error:
        raise Http404(spoken(error)) from error
    headers = {"Content-Disposition": 'attachment; filename="audit.csv"', "X-Content-Type-Options": "nosniff"}
    return StreamingHttpResponse(records.csv_lines(rows), content_type="text/csv; charset=utf-8", headers=headers)


urlpatterns = [
    path("audit/", audit_log, name="audit_log"),
    path("audit/audit.csv", audit_csv, name="audit_csv"),
]
