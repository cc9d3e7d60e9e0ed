"""Forms of profiles, made from the catalogue of settings."""

from __future__ import annotations

from typing import Any

from django import forms

from agents.settings import SETTINGS
from apps.hosts.models import Host
from apps.tuning import fields


class RevisionForm(forms.Form):
    """What a profile asks for; `groups` are the settings with their fields, for the template."""

    note = forms.CharField(max_length=500, required=False, help_text="why this revision: what it is meant to change")

    def __init__(self, data: Any = None, *, settings: dict[str, Any] | None = None) -> None:
        initial: dict[str, Any] = {}
        for name, setting in SETTINGS.items():
            initial |= fields.shown(f"settings.{name}", (settings or {}).get(name), setting.schema)
        super().__init__(data, initial=initial)
        for name, setting in SETTINGS.items():
            self.fields.update(dict(fields.build(f"settings.{name}", setting.schema)))

    @property
    def groups(self) -> list[dict[str, Any]]:
        return [
            {"setting": setting, "fields": [self[key] for key in self.fields if _below(key, f"settings.{name}")]}
            for name, setting in SETTINGS.items()
        ]

    def settings(self) -> dict[str, Any]:
        """PlanError where lines cannot be read; the rest is for the service to judge."""
        typed = {
            name: fields.read(f"settings.{name}", each.schema, self.cleaned_data) for name, each in SETTINGS.items()
        }
        return {name: wanted for name, wanted in typed.items() if wanted}


def _below(key: str, path: str) -> bool:
    return key == path or key.startswith(f"{path}.")


class ProfileForm(RevisionForm):
    name = forms.CharField(max_length=63, help_text="for example: oltp-huge-pages")
    description = forms.CharField(required=False, max_length=500)
    field_order = ["name", "description", "note"]


class DryRunForm(forms.Form):
    host = forms.ModelChoiceField(Host.objects.none(), required=False, empty_label="choose a host", label="Host")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        host = self.fields["host"]
        assert isinstance(host, forms.ModelChoiceField)  # noqa: S101 - for the type checker
        host.queryset = Host.objects.filter(facts_history__isnull=False).distinct()
