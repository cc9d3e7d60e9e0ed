"""Forms of hosts and SSH identities. They only parse; the rules are in models and services."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from django import forms
from django.conf import settings
from django.http import QueryDict

from apps.accounts.forms import OfTeam
from apps.accounts.models import Role, User
from apps.accounts.team import teams
from apps.hosts.models import Host, Identity
from apps.hosts.usage.windows import DAYS
from apps.infrastructure import references
from apps.request_values import whole


def read_labels(typed: str) -> list[str]:
    """Split labels that are separated by spaces or commas."""
    return typed.replace(",", " ").lower().split()


def remote_fields(posted: QueryDict) -> dict[str, Any]:
    """Return the fields of a remote server from its form. Addresses are separated by spaces or commas."""
    names = (
        *("database", "user", "sslmode", "ca_certificate", "client_certificate", "client_key"),
        *("password_from", "client_key_from"),
    )
    texts = {name: posted.get(name, "").strip() for name in names}
    port, wait_minutes = whole(posted.get("port", "")), whole(posted.get("wait_minutes", "") or "0")
    addresses = posted.get("addresses", "").replace(",", " ").split()
    return {
        **texts,
        "addresses": addresses,
        "port": port or 0,
        "wait_minutes": -1 if wait_minutes is None else wait_minutes,
        "use_database": posted.get("use_database") == "on",
        "password": posted.get("password", ""),
    }


class HostForm(OfTeam):
    writes: ClassVar[Role] = Role.ADMIN
    name = forms.CharField(max_length=63, help_text="a name: a-z, 0-9, dot, dash, underscore")
    labels = forms.CharField(
        required=False, max_length=1000, help_text="labels that decisions can use, such as oltp rack=b2"
    )
    address = forms.CharField(max_length=253, help_text="host name or IP address")
    port = forms.IntegerField(initial=22, min_value=1, max_value=65535)
    user = forms.CharField(max_length=32, initial="proving", label="Account", help_text="login name for SSH")
    identity = forms.ModelChoiceField(Identity.objects.all(), label="SSH key", empty_label=None)
    jump = forms.ModelChoiceField(
        Host.objects.all(), required=False, label="Jump host", empty_label="none: connect directly"
    )
    sudo = forms.BooleanField(
        required=False,
        label="Run the agent through sudo -n",
        help_text="level root: huge pages, kernel parameters, block devices, cpu power, services, restarts",
    )
    launcher = forms.BooleanField(
        required=False,
        label="Start the agent through proving-agent",
        help_text="recommended with sudo: verifies the server's signature; install it on the host first",
    )
    may_reboot = forms.BooleanField(
        required=False,
        label="Campaigns may restart it",
        help_text="planned restarts between runs; only if someone can reach its console in case it does not come back",
    )
    python = forms.CharField(max_length=200, initial="/usr/bin/python3", help_text="on the host, 3.9 or newer")
    spool_dir = forms.CharField(
        max_length=200,
        initial="/var/lib/proving-ground/spool",
        label="Spool directory",
        help_text="journals and results",
    )
    data_dir = forms.CharField(
        max_length=200,
        initial="/var/lib/proving-ground/clusters",
        label="Cluster directory",
        help_text="location of private clusters: choose the device that you want to measure",
    )
    os_user = forms.CharField(
        max_length=32,
        required=False,
        label="PostgreSQL's account",
        help_text="runs the clusters if the agent runs as root",
    )
    pg_bin_dirs = forms.CharField(
        required=False,
        label="Further PostgreSQL bin directories",
        widget=forms.Textarea(attrs={"rows": 2, "class": "mono"}),
        help_text="one per line, in addition to the usual places",
    )

    pg_data_dirs = forms.CharField(
        required=False,
        label="Further data directories",
        widget=forms.Textarea(attrs={"rows": 2, "class": "mono"}),
        help_text="of existing PostgreSQL clusters, one per line; most are found automatically",
    )

    def offer_teams(self, user: User) -> Self:
        """Offer the teams of `user`, jump hosts that `user` operates, and keys that no other team's hosts use."""
        jump, identity = self.fields["jump"], self.fields["identity"]
        assert isinstance(jump, forms.ModelChoiceField)  # noqa: S101 - for the type checker
        assert isinstance(identity, forms.ModelChoiceField)  # noqa: S101 - for the type checker
        jump.queryset = Host.objects.filter(teams.reach(user, Role.OPERATOR)).exclude(state=Host.State.ARCHIVE)
        identity.help_text = (
            "" if user.is_instance_admin else "that does not open hosts of other teams; an instance admin creates keys"
        )
        identity.queryset = Identity.objects.exclude(hosts__in=Host.objects.exclude(teams.reach(user, Role.ADMIN)))
        return super().offer_teams(user)

    def clean_labels(self) -> list[str]:
        return read_labels(self.cleaned_data["labels"])

    def clean_pg_bin_dirs(self) -> list[str]:
        text: str = self.cleaned_data["pg_bin_dirs"]
        return text.split()

    def clean_pg_data_dirs(self) -> list[str]:
        text: str = self.cleaned_data["pg_data_dirs"]
        return text.split()

    def fields_of_host(self) -> dict[str, Any]:
        return dict(self.cleaned_data)


class WindowsForm:
    """The rows of the table of windows: parallel lists of days, from and to."""

    BLANK = 1

    def __init__(self, posted: QueryDict) -> None:
        self._posted = posted

    def windows(self) -> list[dict[str, Any]]:
        """Return the windows in the form of Host.windows, without empty rows. windows.read() validates them."""
        columns = [self._posted.getlist(name) for name in ("from", "to")]
        rows = []
        for place, (begin, end) in enumerate(zip(*columns, strict=False)):
            days = [day for day in map(whole, self._posted.getlist(f"days-{place}")) if day is not None]
            if days or begin or end:
                rows.append({"days": days, "from": begin.strip(), "to": end.strip()})
        return rows

    @classmethod
    def of(cls, windows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the rows to show: the existing windows and an empty row."""
        blank = [{"days": [], "from": "", "to": ""} for _ in range(cls.BLANK)]
        return [
            {**row, "begin": row["from"], "days": [(day, name, day in row["days"]) for day, name in enumerate(DAYS)]}
            for row in [*windows, *blank]
        ]


class IdentityForm(forms.Form):
    name = forms.CharField(max_length=63, help_text="for example: bench-2026")
    private_key = forms.CharField(
        required=False,
        label="Private key",
        widget=forms.Textarea(attrs={"rows": 6, "class": "mono", "spellcheck": "false", "autocomplete": "off"}),
        help_text="leave empty to create a new ed25519 pair. It is stored encrypted and never shown again",
    )
    private_key_from = forms.CharField(
        required=False,
        max_length=references.LONGEST,
        label="Private key from",
        help_text="instead of a stored key: file:/PATH or env:NAME, read at each use",
    )
    certificate_from = forms.CharField(
        required=False,
        max_length=references.LONGEST,
        label="Certificate from",
        help_text="an OpenSSH user certificate that a CA signed, such as file:/PATH/KEY-cert.pub",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not str(settings.SECRET_SOURCES):
            del self.fields["private_key_from"], self.fields["certificate_from"]
