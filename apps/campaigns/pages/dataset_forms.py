"""Forms to save a data set and to prepare one on a host."""

from __future__ import annotations

from typing import Any

from django import forms

from agents.datasets import DATASETS, RESETS
from apps.accounts.forms import OfTeam
from apps.accounts.models import Role, User
from apps.accounts.team import teams
from apps.campaigns.design import targets
from apps.hosts.models import Facts, Host
from apps.tuning import fields
from apps.tuning.models import Revision

ABOUT_RESETS = {
    "auto": "a clone or a copy if there is space, otherwise created again",
    "copy": "always a copy; a run without enough space fails",
    "reinit": "created again after a run that has written",
    "keep": "never: runs see the changes of earlier runs",
}


class DataSetForm(OfTeam):
    """A data set of one kind. Fields of its options are named options.<name>, as in errors."""

    name = forms.CharField(max_length=63, help_text="an existing name gets its next revision")
    description = forms.CharField(required=False, max_length=500)
    reset = forms.ChoiceField(
        choices=[(each, f"{each}: {ABOUT_RESETS[each]}") for each in RESETS],
        label="For runs that write",
        help_text="runs that only read share the data",
    )

    def __init__(
        self, data: Any, *, kind: str, options: dict[str, Any] | None = None, initial: dict[str, Any] | None = None
    ) -> None:
        self.kind, self.schema = kind, DATASETS[kind].schema
        super().__init__(
            data, initial={**fields.initial_values("options", options or {}, self.schema), **(initial or {})}
        )
        self.fields.update(dict(fields.build("options", self.schema, tuple(self.schema.get("required", ())))))

    @property
    def option_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name.startswith("options")]

    def options(self) -> dict[str, Any]:
        """Return the options. PlanError if JSON or lines cannot be parsed."""
        return fields.read("options", self.schema, self.cleaned_data)


class PrepareForm(forms.Form):
    """A host, one of its PostgreSQL installations, and the settings of the cluster while the data are created."""

    target = forms.ChoiceField(label="On", help_text="a private cluster, kept for later runs")
    profile = forms.ModelChoiceField(
        Revision.objects.none(),
        required=False,
        empty_label="none: PostgreSQL's defaults",
        help_text="its initdb options select the cluster; its parameters apply while the data are created",
    )

    def __init__(self, *args: Any, by: User, **kwargs: Any) -> None:
        """Offer the hosts on which `by` is an operator."""
        super().__init__(*args, **kwargs)
        profile, target = self.fields["profile"], self.fields["target"]
        assert isinstance(profile, forms.ModelChoiceField)  # noqa: S101 - for the type checker
        assert isinstance(target, forms.ChoiceField)  # noqa: S101 - for the type checker
        profile.queryset = Revision.objects.select_related("profile").order_by("profile__name", "-number")
        known = Facts.objects.filter(teams.reach(by, Role.OPERATOR, "host__team"))
        newest = known.order_by("host__name", "-number").distinct("host__name").select_related("host")
        target.choices = [("", "choose a PostgreSQL"), *(_offer(each.host, each.data) for each in newest)]

    def host(self) -> Host:
        return Host.objects.get(pk=self.cleaned_data["target"].partition(" ")[0])

    def target_request(self) -> dict[str, str]:
        """Return the request in the form of Campaign.target."""
        return targets.read_choice(self.cleaned_data["target"].partition(" ")[2])


def _offer(host: Host, facts: dict[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    private = [(value, label) for value, label in targets.choices(facts) if value.startswith("bin_dir ")]
    return host.name, [(f"{host.pk} {value}", f"{host}: {label}") for value, label in private]
