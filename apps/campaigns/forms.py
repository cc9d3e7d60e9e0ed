"""Forms of campaigns and workloads."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import OuterRef, Subquery

from agents.collectors import COLLECTORS
from apps.campaigns import targets
from apps.campaigns.models import Campaign, DataSet, Workload
from apps.hosts.models import Facts, Host
from apps.tuning.models import Revision

ROLES = ("client", "standbys", "server_address", "server_port")


def newest_datasets() -> Any:
    """The latest revision of each data set."""
    newest = DataSet.objects.filter(name=OuterRef("name")).order_by("-revision")
    return DataSet.objects.filter(pk=Subquery(newest.values("pk")[:1]))


def newest_workloads() -> Any:
    """The latest revision of each workload that can be run."""
    newest = Workload.objects.filter(name=OuterRef("name")).order_by("-revision")
    return Workload.objects.filter(pk=Subquery(newest.values("pk")[:1])).exclude(steps__0__has_key="metrics")


def reachable() -> Any:
    """Hosts that can be asked something: not those that only name where old results come from."""
    return Host.objects.exclude(state=Host.State.ARCHIVE).order_by("name")


class CampaignForm(forms.Form):
    """Everything but the factors, which are rows. With a recipe the workload may be left to it."""

    host = forms.ModelChoiceField(Host.objects.none(), empty_label="choose a host")
    target = forms.ChoiceField(
        required=False,
        label="PostgreSQL",
        help_text="an existing one is restarted only where that is allowed",
    )
    name = forms.CharField(max_length=120)
    question = forms.CharField(widget=forms.Textarea(attrs={"rows": 2}), help_text="what a reader of the result asks")
    workload = forms.ModelChoiceField(Workload.objects.none(), empty_label="choose a workload")
    dataset = forms.ModelChoiceField(
        DataSet.objects.none(),
        required=False,
        empty_label="what the workload's scale asks for",
        label="Data set",
        help_text="made once per host, pristine for every run",
    )
    profile = forms.ModelChoiceField(
        Revision.objects.none(),
        required=False,
        empty_label="none: the host as it is",
        help_text="all runs start from it",
    )
    repetitions = forms.IntegerField(
        min_value=1, max_value=1000, initial=5, help_text="of every combination; below 5 an answer is preliminary"
    )
    order = forms.ChoiceField(choices=Campaign.Order.choices, help_text="blocks even out what changes with time")
    reboot = forms.ChoiceField(
        choices=Campaign.Reboot.choices,
        required=False,
        label="Restart the host",
        help_text="only a host that an admin allows to be restarted; the run goes on by itself",
    )
    client = forms.ModelChoiceField(
        Host.objects.none(),
        required=False,
        empty_label="the host itself, beside its server",
        label="Load from",
        help_text="another host that runs the load over the network",
    )
    standbys = forms.ModelMultipleChoiceField(
        Host.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="each has a copy made by pg_basebackup for the time of a run",
    )
    server_address = forms.CharField(
        max_length=100,
        required=False,
        label="Address of the server",
        help_text="by which the other hosts reach it, where it is not that of SSH",
    )
    server_port = forms.IntegerField(
        required=False, min_value=1024, max_value=65535, label="Port of the server", help_text="55432 when empty"
    )
    metric = forms.CharField(
        max_length=80,
        initial="tps",
        widget=forms.TextInput(attrs={"list": "metrics"}),
        help_text="tps, latency_avg, read iops; idx1.tps of one of several measured steps",
    )
    delta = forms.FloatField(
        initial=2, min_value=0.01, max_value=99, label="Margin that matters (%)", help_text="fixed before any run"
    )
    seed = forms.IntegerField(required=False, min_value=0, help_text="repeats an order; drawn when empty")
    interval_s = forms.FloatField(
        initial=1,
        min_value=0.1,
        max_value=3600,
        required=False,
        label="Seconds between samples",
        help_text="of each collector; 1 when empty",
    )
    sources = forms.MultipleChoiceField(
        choices=[(name, f"{name}: {each.help}") for name, each in COLLECTORS.items()],
        initial=list(COLLECTORS),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Collectors",
    )

    def __init__(self, *args: Any, recipe: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._offer("host", Host.objects.filter(facts_history__isnull=False).distinct())
        for role in ("client", "standbys"):
            self._offer(role, Host.objects.filter(facts_history__isnull=False).distinct())
        self._offer_targets()
        self._offer("workload", newest_workloads())
        self._offer("dataset", newest_datasets())
        self._offer("profile", Revision.objects.select_related("profile").order_by("profile__name", "-number"))
        if recipe:
            workload = self.fields["workload"]
            assert isinstance(workload, forms.ModelChoiceField)  # noqa: S101 - for the type checker
            workload.required, workload.empty_label = False, "the recipe's own"
        if recipe and recipe.get("dataset"):
            dataset = self.fields["dataset"]
            assert isinstance(dataset, forms.ModelChoiceField)  # noqa: S101 - for the type checker
            dataset.empty_label = "the recipe's own"

    def _offer(self, name: str, rows: Any) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ModelChoiceField)  # noqa: S101 - for the type checker
        field.queryset = rows

    def _offer_targets(self) -> None:
        """Of every host: its own are known only when it is chosen. The service refuses what is not there."""
        newest = Facts.objects.order_by("host__name", "-number").distinct("host__name").select_related("host")
        groups = [(each.host.name, targets.choices(each.data)) for each in newest]
        field = self.fields["target"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - for the type checker
        field.choices = [("", targets.NEWEST), *groups]

    def _roles(self, named: dict[str, Any]) -> dict[str, Any]:
        """In the shape of Campaign.roles."""
        client, standbys = named["client"], [host.pk for host in named["standbys"]]
        roles: dict[str, Any] = {"client": client.pk} if client else {}
        roles |= {"standbys": standbys} if standbys else {}
        if not roles:
            return {}
        address, port = named["server_address"], named["server_port"]
        roles |= {"addresses": {str(self.cleaned_data["host"].pk): address}} if address else {}
        return roles | ({"port": port} if port else {})

    def choices(self) -> dict[str, Any]:
        """Fields of services.create_campaign, without what was left empty."""
        target = targets.wanted(self.cleaned_data["target"])
        given = {**self.cleaned_data, "delta": self.cleaned_data["delta"] / 100, "target": target}
        given["roles"] = self._roles({name: given.pop(name) for name in ROLES})
        return {name: value for name, value in given.items() if value not in (None, "")}
