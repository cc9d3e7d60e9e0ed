"""Forms of campaigns and workloads."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import OuterRef, Q, Subquery

from agents.collectors import COLLECTORS, USUAL
from apps.accounts.models import Role, User
from apps.accounts.team import teams
from apps.campaigns.design import nuisance, targets
from apps.campaigns.models import Campaign, DataSet, Workload
from apps.campaigns.pages import factor_rows, load_fields, stop_form
from apps.campaigns.pages.load_fields import LoadForm
from apps.campaigns.pages.stop_form import StopForm
from apps.hosts.models import Facts, Host
from apps.tuning.models import Revision

# Fields that are no fields of CampaignDesign: parts of roles, nuisance and the stopping rule, and rows.
ALIKE = ("cool_down_s", "checkpoint", "drop_caches", "warm_up", "warm_up_s")
OF_ROLES = ("client", "standbys", "server_address", "server_port")
OF_RULE = stop_form.FIELDS
OF_ROWS = ("cells", "conditions", "factor_orders")
ARRANGED = ("design", "sample", *OF_ROWS)
UNSAID = {"design": Campaign.Design.FACTORIAL, "reboot": Campaign.Reboot.NEVER}


def alike_shown(alike: dict[str, Any]) -> dict[str, Any]:
    """Return a campaign's nuisance as initial values of the form."""
    warm = alike.get("warm_up") or {}
    kind = "steady" if "until" in warm else "time" if warm else ""
    shown = {name: value for name, value in alike.items() if name != "warm_up"}
    return {**shown, "warm_up": kind, "warm_up_s": warm.get("limit_s", warm.get("time_s"))}


def roles_shown(source: Campaign) -> dict[str, Any]:
    """Return a campaign's roles as initial values of the form."""
    roles = source.roles
    address = (roles.get("addresses") or {}).get(str(source.host_id))
    named = {name: roles.get(name) for name in ("client", "standbys")}
    return {**named, "server_address": address, "server_port": roles.get("port")}


def newest_datasets() -> Any:
    """The latest revision of each data set."""
    newest = DataSet.objects.filter(name=OuterRef("name")).order_by("-revision")
    return DataSet.objects.filter(pk=Subquery(newest.values("pk")[:1]))


def newest_workloads() -> Any:
    """The latest revision of each workload that can be run."""
    newest = Workload.objects.filter(name=OuterRef("name")).order_by("-revision")
    return Workload.objects.filter(pk=Subquery(newest.values("pk")[:1])).exclude(steps__0__has_key="metrics")


def reachable(by: User) -> Any:
    """Return the hosts that `by` can contact, without those that only describe the origin of imported results."""
    theirs = teams.reach(by, Role.OPERATOR)
    return Host.objects.filter(theirs).exclude(state=Host.State.ARCHIVE).order_by("name")


class CampaignForm(LoadForm, StopForm):
    """A campaign without its factors, which are rows. Without a workload it has the recipe's, or a standard one."""

    host = forms.ModelChoiceField(Host.objects.none(), empty_label="choose a host")
    target = forms.ChoiceField(
        required=False,
        label="PostgreSQL",
        help_text="an existing cluster is restarted only if an admin allows it",
    )
    placement = forms.ChoiceField(
        choices=Campaign.Placement.choices,
        required=False,
        help_text="an answer for each host, or one answer sooner, from identical hosts",
    )
    further_hosts = forms.ModelMultipleChoiceField(
        Host.objects.none(), required=False, widget=forms.CheckboxSelectMultiple, label="Other hosts"
    )
    priority = forms.IntegerField(
        min_value=-100, max_value=100, required=False, help_text="in the queues of its hosts; the highest starts first"
    )
    name = forms.CharField(max_length=120)
    question = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 2}), help_text="the question that the results answer"
    )
    workload = forms.ModelChoiceField(Workload.objects.none(), required=False)
    dataset = forms.ModelChoiceField(
        DataSet.objects.none(),
        required=False,
        empty_label="default of the workload",
        label="Data set",
        help_text="created once per host, pristine for every run",
    )
    profile = forms.ModelChoiceField(
        Revision.objects.none(),
        required=False,
        empty_label="none: host unchanged",
        help_text="all runs start from its settings",
    )
    repetitions = forms.IntegerField(
        min_value=1, max_value=1000, initial=5, help_text="of every combination; below 5, results are preliminary"
    )
    order = forms.ChoiceField(choices=Campaign.Order.choices, help_text="blocks balance changes over time")
    reboot = forms.ChoiceField(
        choices=Campaign.Reboot.choices,
        required=False,
        label="Restart the host",
        help_text="only if an admin allows restarts of the host; the run continues automatically",
    )
    client = forms.ModelChoiceField(
        Host.objects.none(),
        required=False,
        empty_label="the database host itself",
        label="Load from",
        help_text="another host that runs the load over the network",
    )
    standbys = forms.ModelMultipleChoiceField(
        Host.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="pg_basebackup creates each standby for the duration of a run",
    )
    server_address = forms.CharField(
        max_length=100,
        required=False,
        label="Address of the server",
        help_text="address for the other hosts, if it differs from the SSH address",
    )
    server_port = forms.IntegerField(
        required=False, min_value=1024, max_value=65535, label="Port of the server", help_text="default: 55432"
    )
    design = forms.ChoiceField(choices=Campaign.Design.choices, required=False, help_text="the combinations to run")
    sample = forms.IntegerField(required=False, min_value=1, label="Size of the sample", help_text="of a random sample")
    cells = forms.CharField(
        required=False,
        label="Combinations",
        widget=forms.Textarea(attrs={"rows": 3, "class": "mono", "placeholder": "on; 1GB\noff; 2GB"}),
        help_text="for a list: one per line, a level of each factor in order, separated by semicolons",
    )
    conditions = forms.CharField(
        required=False,
        label="Dependent levels",
        widget=forms.Textarea(
            attrs={"rows": 3, "class": "mono", "placeholder": "page size = 2MB; 1GB only with huge pages = on"}
        ),
        help_text="one per line; the factor applies only in these combinations",
    )
    factor_orders = forms.CharField(
        required=False,
        label="Order of factors",
        widget=forms.Textarea(attrs={"rows": 3, "class": "mono", "placeholder": "shared_buffers = descending"}),
        help_text="one per line, ascending or descending within each block; the first is the outermost",
    )
    cool_down_s = forms.FloatField(
        required=False,
        min_value=0,
        max_value=nuisance.DAY_S,
        label="Cool down (s)",
        help_text="before each run, after its data are ready",
    )
    checkpoint = forms.BooleanField(required=False, label="CHECKPOINT before each measured step")
    drop_caches = forms.ChoiceField(
        required=False,
        label="Drop the page cache",
        choices=[("", "never"), ("run", "before each run"), ("step", "before each run and each measured step")],
        help_text="of the whole host; requires level root",
    )
    warm_up = forms.ChoiceField(
        required=False,
        label="Warm up",
        choices=[("", "only the workload's own steps"), ("time", "for a fixed time"), ("steady", "until it is steady")],
        help_text="with the load of the first measured step",
    )
    warm_up_s = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=nuisance.DAY_S,
        label="Warm-up time, or maximum (s)",
        help_text=f"{nuisance.LIMIT_S} by default until steady",
    )
    metric = forms.CharField(
        max_length=80,
        initial="tps",
        widget=forms.TextInput(attrs={"list": "metrics"}),
        help_text="tps, latency_avg, read iops; with several measured steps, for example idx1.tps",
    )
    delta = forms.FloatField(
        initial=2,
        min_value=0.01,
        max_value=99,
        label="Minimum effect of interest (%)",
        help_text="set before the first run",
    )
    seed = forms.IntegerField(required=False, min_value=0, help_text="repeats an order; empty: random")
    interval_s = forms.FloatField(
        initial=1,
        min_value=0.1,
        max_value=3600,
        required=False,
        label="Seconds between samples",
        help_text="for each collector; default: 1",
    )
    sources = forms.MultipleChoiceField(
        choices=[(name, f"{name}: {each.help}") for name, each in COLLECTORS.items()],
        initial=list(USUAL),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Collectors",
    )

    def __init__(self, *args: Any, by: User | None = None, recipe: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Offer the hosts on which `by` is an operator."""
        super().__init__(*args, **kwargs)
        self._offer_hosts(teams.reach(by, Role.OPERATOR) if by else Q())
        self._offer_targets()
        self._offer("workload", newest_workloads())
        self._offer("dataset", newest_datasets())
        self._offer("profile", Revision.objects.select_related("profile").order_by("profile__name", "-number"))
        workload = self.fields["workload"]
        assert isinstance(workload, forms.ModelChoiceField)  # noqa: S101 - for the type checker
        workload.empty_label = "from the recipe" if recipe else "pgbench, TPC-B-like"
        if recipe and recipe.get("dataset"):
            dataset = self.fields["dataset"]
            assert isinstance(dataset, forms.ModelChoiceField)  # noqa: S101 - for the type checker
            dataset.empty_label = "from the recipe"

    def _offer(self, name: str, rows: Any) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ModelChoiceField)  # noqa: S101 - for the type checker
        field.queryset = rows

    def _offer_hosts(self, theirs: Q) -> None:
        """Offer the same hosts for each role, read by one query instead of one per field."""
        rows = Host.objects.filter(theirs, facts_history__isnull=False).distinct()
        self.hosts = list(rows.values_list("pk", "name"))
        for name in ("host", "client", "standbys", "further_hosts"):
            self._offer(name, rows)
            field = self.fields[name]
            assert isinstance(field, forms.ModelChoiceField)  # noqa: S101 - for the type checker
            field.choices = [*([("", field.empty_label)] if field.empty_label else []), *self.hosts]

    def _offer_targets(self) -> None:
        """Offer the targets of every host, because the host is chosen on the same page. The service refuses one that
        the host lacks."""
        newest = Facts.objects.order_by("host__name", "-number").distinct("host__name").select_related("host")
        newest = newest.prefetch_related("host__remote_servers").only("data", "host__name")
        groups = [(each.host.name, targets.choices(each.data) + targets.remotes(each.host)) for each in newest]
        field = self.fields["target"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - for the type checker
        field.choices = [("", targets.NEWEST), *groups]

    def _roles(self) -> dict[str, Any]:
        """Return the roles in the form of Campaign.roles."""
        named = {name: self.cleaned_data[name] for name in OF_ROLES}
        client, standbys = named["client"], [host.pk for host in named["standbys"]]
        roles: dict[str, Any] = {"client": client.pk} if client else {}
        roles |= {"standbys": standbys} if standbys else {}
        if not roles:
            return {}
        address, port = named["server_address"], named["server_port"]
        roles |= {"addresses": {str(self.cleaned_data["host"].pk): address}} if address else {}
        return roles | ({"port": port} if port else {})

    def offer_also(self, source: Campaign) -> None:
        """Also offer the objects of the source of a clone, which may have newer revisions."""
        for name, newest, own in (
            ("workload", newest_workloads(), source.workload_id),
            ("dataset", newest_datasets(), source.dataset_id),
        ):
            field = self.fields[name]
            assert isinstance(field, forms.ModelChoiceField)  # noqa: S101 - for the type checker
            field.queryset = newest.model.objects.filter(Q(pk__in=newest.values("pk")) | Q(pk=own))

    @classmethod
    def filled(cls, source: Campaign) -> dict[str, Any]:
        """Return every choice of a campaign as initial values of this form."""
        shown = {name: getattr(source, name) for name in cls.base_fields if hasattr(source, name)}
        shown |= alike_shown(source.nuisance) | stop_form.filled(source)
        shown |= {
            "conditions": factor_rows.conditions_of(source.factors),
            "factor_orders": factor_rows.orders_of(source.factors),
        }
        shown |= {"cells": factor_rows.cells_text(source.cells, load_fields.without_load(source.factors))}
        shown |= load_fields.load_of(source.factors)
        shown |= {"further_hosts": source.further_hosts.all()} if "further_hosts" in shown else {}
        target = " ".join(next(iter(source.target.items()), ()))
        shown |= roles_shown(source)
        return shown | {"name": f"{source.name[:113]} (copy)", "delta": f"{source.delta * 100:g}", "target": target}

    def choices(self) -> dict[str, Any]:
        """Return the fields of CampaignDesign, without empty ones and those of rows."""
        target = targets.read_choice(self.cleaned_data["target"])
        left = (*ALIKE, *OF_ROWS, *OF_ROLES, *OF_RULE, *load_fields.NAMES)
        own = {name: value for name, value in self.cleaned_data.items() if name not in left}
        fields = {**own, "delta": self.cleaned_data["delta"] / 100, "target": target, "nuisance": self._nuisance()}
        fields["roles"] = self._roles()
        return {name: value for name, value in fields.items() if value not in (None, "")}

    def _nuisance(self) -> dict[str, Any]:
        names = ("cool_down_s", "checkpoint", "drop_caches")
        alike = {name: self.cleaned_data[name] for name in names if self.cleaned_data[name]}
        seconds = self.cleaned_data["warm_up_s"]
        if self.cleaned_data["warm_up"] == "steady":
            alike["warm_up"] = {"until": "steady", "limit_s": seconds or nuisance.LIMIT_S}
        elif self.cleaned_data["warm_up"]:
            alike["warm_up"] = {"time_s": seconds}
        return alike

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("warm_up") == "time" and not cleaned.get("warm_up_s"):
            self.add_error("warm_up_s", "Enter a duration in seconds.")
        return cleaned

    def shown(self, *names: str) -> bool:
        """Return whether one of these fields differs from its default or has an error. The page then opens its
        section."""
        return any(
            self.errors.get(name) or self[name].value() not in (None, "", False, UNSAID.get(name)) for name in names
        )
