"""Forms of profiles, generated from the catalogue of settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms

from agents.settings import SETTINGS, Setting
from apps.accounts.forms import OfTeam
from apps.hosts.models import Host
from apps.tuning import fields
from apps.tuning.models import Profile


@dataclass(frozen=True)
class Group:
    """One setting with its fields; collapsed while all are empty."""

    setting: Setting
    fields: list[forms.BoundField]

    @property
    def filled_in(self) -> list[str]:
        """The labels of the fields that are filled in."""
        return [str(field.label) for field in self.fields if field.value() not in (None, "")]

    @property
    def wrong(self) -> bool:
        return any(field.errors for field in self.fields)


class RevisionForm(forms.Form):
    """The settings of a profile. `groups`: the settings with their fields, for the template."""

    note = forms.CharField(max_length=500, required=False, help_text="purpose of this revision")

    def __init__(self, data: Any = None, *, settings: dict[str, Any] | None = None) -> None:
        initial: dict[str, Any] = {}
        for name, setting in SETTINGS.items():
            initial |= fields.initial_values(f"settings.{name}", (settings or {}).get(name), setting.schema)
        super().__init__(data, initial=initial)
        for name, setting in SETTINGS.items():
            self.fields.update(dict(fields.build(f"settings.{name}", setting.schema)))

    @property
    def groups(self) -> list[Group]:
        below = {name: [self[key] for key in self.fields if _below(key, f"settings.{name}")] for name in SETTINGS}
        return [Group(setting, below[name]) for name, setting in SETTINGS.items()]

    def settings(self) -> dict[str, Any]:
        """Return the settings. PlanError if lines cannot be parsed; the service validates the rest."""
        typed = {
            name: fields.read(f"settings.{name}", each.schema, self.cleaned_data) for name, each in SETTINGS.items()
        }
        return {name: value for name, value in typed.items() if value}


def _below(key: str, path: str) -> bool:
    return key == path or key.startswith(f"{path}.")


class ProfileForm(OfTeam, RevisionForm):
    name = forms.CharField(max_length=63, help_text="for example: oltp-huge-pages")
    description = forms.CharField(required=False, max_length=500)
    field_order = ["name", "description", "team", "note"]


class DryRunForm(forms.Form):
    """A profile, or one of its revisions, on a host with known facts."""

    profile = forms.ModelChoiceField(
        Profile.objects.all(),
        to_field_name="name",
        empty_label="choose a profile",
        error_messages={"invalid_choice": "Profile %(value)s does not exist."},
    )
    r = forms.IntegerField(min_value=1, required=False, label="Revision", widget=forms.HiddenInput)
    host = forms.ModelChoiceField(
        Host.objects.none(),
        empty_label="choose a host",
        label="Host",
        error_messages={"invalid_choice": "This host does not exist, or was never checked."},
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        host = self.fields["host"]
        assert isinstance(host, forms.ModelChoiceField)  # noqa: S101 - for the type checker
        host.queryset = Host.objects.filter(facts_history__isnull=False).distinct()
        if not self.is_bound and not self.initial.get("host") and len(offered := list(host.queryset[:2])) == 1:
            self.initial["host"] = offered[0].pk

    def clean(self) -> dict[str, Any]:
        """Set `revision` to the chosen one, or to the latest."""
        cleaned = super().clean() or {}
        if "profile" in cleaned:
            numbered = {"number": cleaned["r"]} if cleaned.get("r") else {}
            cleaned["revision"] = cleaned["profile"].revisions.filter(**numbered).order_by("-number").first()
            if cleaned["revision"] is None:
                self.add_error("r", f"{cleaned['profile']} has no revision {cleaned.get('r') or 'yet'}.")
        return cleaned
