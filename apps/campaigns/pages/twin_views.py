"""Pages of twins: the list, the upload of a captured file, and the statements that a twin has or lacks."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path

from apps.accounts.forms import OfTeam
from apps.accounts.models import Role
from apps.accounts.services import user_of
from apps.campaigns.models import Campaign, DataSet, Twin
from apps.campaigns.pages.forms import newest_datasets
from apps.campaigns.twins import services
from apps.campaigns.twins.preloading import is_twin
from apps.hosts.models import NAME
from apps.web.pages import blame, needs, of_team, page
from common.errors import PlanError, RoleError

SHOWN = 100  # statements


class TwinForm(OfTeam):
    """A captured file, and how its load runs."""

    file = forms.FileField(label="Captured file", help_text="that proving twin capture wrote")
    name = forms.CharField(max_length=63, validators=[NAME], help_text="of the data set and the workload")
    factor = forms.FloatField(
        initial=1.0,
        min_value=services.LEAST,
        max_value=services.MOST,
        label="Factor",
        help_text="rows per row of production",
    )
    dataset = forms.ModelChoiceField(
        DataSet.objects.none(),
        required=False,
        label="Data",
        empty_label="synthetic rows",
        help_text="or an existing data set, such as a copy of production",
    )
    clients = forms.IntegerField(initial=8, min_value=1, max_value=10000, label="Clients")
    jobs = forms.IntegerField(initial=2, min_value=1, max_value=1024, label="Threads of pgbench")
    time_s = forms.IntegerField(initial=60, min_value=1, max_value=86400, label="Duration (s)")
    pace = forms.ChoiceField(
        choices=[("closed", "closed loop"), ("production", "call rate of production")], label="Pace"
    )
    transactions = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        max_length=10_000,
        label="Transactions",
        help_text="query ids of the statements of one transaction, in order; one transaction per line",
    )
    without = forms.CharField(
        required=False, max_length=10_000, label="Left out", help_text="query ids of statements that the twin omits"
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        dataset = self.fields["dataset"]
        assert isinstance(dataset, forms.ModelChoiceField)  # noqa: S101 - for the type checker
        dataset.queryset = newest_datasets()


@needs(Role.VIEWER)
def twin_list(request: HttpRequest) -> HttpResponse:
    twins = Twin.objects.select_related("dataset", "workload", "author", "team").defer("statements", "missing")
    return page(request, "campaigns/twins/list.html", {"twins": of_team(request, twins)})


@needs(Role.VIEWER)
def twin_detail(request: HttpRequest, pk: int) -> HttpResponse:
    twin = get_object_or_404(Twin.objects.select_related("dataset", "workload", "team"), pk=pk)
    context = {
        "twin": twin,
        "is_synthetic": is_twin(twin.dataset),
        "made": _with_percent(twin.made),
        "left_out": _with_percent(twin.left_out[:SHOWN]),
        "missing": twin.missing[:SHOWN],
        "campaigns": Campaign.objects.filter(workload=twin.workload_id, dataset=twin.dataset_id)[:SHOWN],
    }
    return page(request, "campaigns/twins/detail.html", context)


def _with_percent(statements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**statement, "percent": 100 * statement["share"]} for statement in statements]


@needs(Role.TUNER, somewhere=True)
def twin_add(request: HttpRequest) -> HttpResponse:
    form = TwinForm(request.POST or None, request.FILES or None)
    form.offer_teams(user_of(request))
    if request.method == "POST" and form.is_valid():
        fields = form.cleaned_data
        load = services.Load(fields["clients"], fields["jobs"], fields["time_s"], fields["pace"])
        more = {"factor": fields["factor"], "load": load, "team": fields.get("team")}
        more["dataset"] = fields["dataset"]
        more["without"] = services.ids(fields["without"])
        lines = (services.ids(line) for line in fields["transactions"].splitlines())
        more["transactions"] = [each for each in lines if each]
        try:
            twin = services.create(fields["name"], fields["file"].read(), by=user_of(request), **more)
        except RoleError:
            raise
        except PlanError as error:
            blame(form, error)
        else:
            messages.success(request, f"Twin {twin} created: a data set and a workload.")
            return redirect("twin_detail", twin.pk)
    if request.FILES:  # browsers do not send the file again
        form["file"].help_text = "choose the file again"
    return page(request, "campaigns/twins/form.html", {}, form)


urlpatterns = [
    path("twins/", twin_list, name="twin_list"),
    path("twins/add/", twin_add, name="twin_add"),
    path("twins/<int:pk>/", twin_detail, name="twin_detail"),
]
