"""Forms of the account page, and of channels."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from django import forms

from apps.accounts.models import Role, Scope, Team, User
from apps.accounts.notices.events import KINDS
from apps.accounts.notices.kinds import CHANNELS
from apps.accounts.notices.kinds.base import Field
from apps.accounts.team import teams
from apps.accounts.tokens.lifecycle import MOST_DAYS, MOST_OVERLAP_H


class TokenForm(forms.Form):
    name = forms.CharField(max_length=80, help_text="its purpose, for example: nightly CI")
    role = forms.ChoiceField(choices=Role.choices, help_text="at most your own role, in the instance or in a team")
    days = forms.IntegerField(initial=90, min_value=1, max_value=MOST_DAYS, label="Valid for (days)")
    scopes = forms.MultipleChoiceField(
        choices=[(scope.value, scope.label) for scope in Scope],
        widget=forms.CheckboxSelectMultiple,
        required=False,
        help_text="Choose none to permit all actions of the role.",
    )
    team = forms.ModelChoiceField(
        Team.objects.none(),
        required=False,
        empty_label="not limited to a team",
        label="Only in team",
        help_text="the role then counts only for what this team owns",
    )
    networks = forms.CharField(
        max_length=1000,
        required=False,
        label="Only from networks",
        help_text="such as 10.2.0.0/16 192.0.2.7, separated by spaces",
    )

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"initial": {"role": user.role}, **kwargs})
        team = self.fields["team"]
        assert isinstance(team, forms.ModelChoiceField)  # noqa: S101 - for the type checker
        team.queryset = teams.open_to(user, Role.VIEWER)
        if not team.queryset.exists():
            del self.fields["team"]


class RotationForm(forms.Form):
    overlap_hours = forms.IntegerField(min_value=0, max_value=MOST_OVERLAP_H)


class OfTeam(forms.Form):
    """The field for the owning team, in forms of objects that a team can own."""

    writes: ClassVar[Role] = Role.TUNER
    team = forms.ModelChoiceField(
        Team.objects.none(),
        required=False,
        empty_label="no team",
        help_text="roles in the team define who can change it; without a team, instance roles do",
    )

    def offer_teams(self, user: User) -> Self:
        """Offer the teams in which `user` may write the object, and no team if the instance role suffices. A single
        choice is selected; without teams there is no field."""
        offered, field = list(teams.open_to(user, self.writes)), self.fields["team"]
        assert isinstance(field, forms.ModelChoiceField)  # noqa: S101 - for the type checker
        field.queryset = Team.objects.filter(pk__in=[each.pk for each in offered])
        if user.may(self.writes):
            if not offered:
                del self.fields["team"]
        else:
            field.required, field.empty_label = True, None if len(offered) == 1 else "choose a team"
            self.initial = {"team": offered[0] if len(offered) == 1 else None, **self.initial}
        return self


class ChannelForm(forms.Form):
    name = forms.CharField(max_length=63, help_text="a name, for example: on call")
    events = forms.MultipleChoiceField(
        choices=[(kind, f"{title[:1].upper()}{title[1:]}") for kind, title in KINDS.items()],
        widget=forms.CheckboxSelectMultiple,
        required=False,
        label="Events",
    )

    def __init__(self, kind: str, *args: Any, is_new: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The name of an input is the subject of the errors about it.
        self.own = CHANNELS[kind].fields
        own = {field.name if field.name == "address" else f"details.{field.name}": field for field in self.own}
        for name, field in own.items():
            self.fields[name] = _secret_input(field, is_new=is_new) if field.secret else _text_input(field)
        self.order_fields(["name", *own])

    @property
    def inputs(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name != "events"]

    def request(self) -> dict[str, Any]:
        """The arguments of `channels.create` and `channels.change`. An empty secret is left out."""
        fixed = {name: self.cleaned_data[name] for name in ("name", "address", "events")}
        details = {f"details.{field.name}": field for field in self.own if field.name != "address"}
        given = {name: field for name, field in details.items() if self.cleaned_data[name] or not field.secret}
        return {**fixed, "details": {field.name: self.cleaned_data[name] for name, field in given.items()}}


def _text_input(field: Field) -> forms.CharField:
    return forms.CharField(max_length=500, required=field.required, label=field.label, help_text=field.help)


def _secret_input(field: Field, *, is_new: bool) -> forms.CharField:
    required, unchanged = is_new and field.required, "the current one" if field.required else "the current one, if any"
    help_text = field.help if is_new else f"Leave empty to keep {unchanged}."
    widget = forms.PasswordInput(attrs={"autocomplete": "off"})
    return forms.CharField(max_length=500, required=required, label=field.label, help_text=help_text, widget=widget)
