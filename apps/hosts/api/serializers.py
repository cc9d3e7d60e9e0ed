"""Hosts, identities, keys, facts and problems as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.hosts.access import keys
from apps.hosts.api.schedule import HealthSerializer, ReservationSerializer, WindowSerializer
from apps.hosts.facts import changes
from apps.hosts.models import ACCOUNT, NAME, ClusterConsent, Facts, Host, HostKey, Identity, Trouble
from apps.hosts.usage import reservations
from apps.infrastructure import references
from apps.web.visible_keys import VisibleKeyField


class IdentitySerializer(serializers.ModelSerializer[Identity]):
    private_key = serializers.CharField(
        write_only=True,
        required=False,
        trim_whitespace=False,
        max_length=20_000,
        help_text="an unencrypted OpenSSH or PEM key; without it, the server creates a pair. Never shown again",
    )

    private_key_from = serializers.CharField(
        required=False,
        max_length=references.LONGEST,
        help_text="instead of a stored key: file:/PATH or env:NAME, read at each use",
    )
    certificate_from = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=references.LONGEST,
        help_text="an OpenSSH user certificate, such as file:/PATH/KEY-cert.pub, read at each use",
    )
    certificate_ends_at = serializers.SerializerMethodField(help_text="when it expires; null without a certificate")
    problem = serializers.SerializerMethodField(help_text='why the key cannot be used now; "" if it can')

    class Meta:
        model = Identity
        fields = [
            *("id", "name", "public_key", "private_key", "private_key_from", "certificate_from"),
            *("certificate_ends_at", "problem", "created_at"),
        ]
        read_only_fields = ["public_key", "created_at"]

    def get_certificate_ends_at(self, identity: Identity) -> datetime | None:
        certificate = keys.state(identity).certificate
        return certificate.ends if certificate else None

    def get_problem(self, identity: Identity) -> str:
        return keys.state(identity).problem


class CertificateSerializer(serializers.Serializer[Any]):
    certificate_from = serializers.CharField(
        allow_blank=True,
        max_length=references.LONGEST,
        help_text="an OpenSSH user certificate, such as file:/PATH/KEY-cert.pub; empty: log in without one",
    )


class HostSerializer(serializers.ModelSerializer[Host]):
    # Empty only for a host that is an archive of imported results.
    user = serializers.RegexField(
        r"^([a-z_][a-z0-9_-]{0,31}\$?)?$",
        max_length=32,
        error_messages={"invalid": ACCOUNT.message},
        help_text="login name for SSH",
    )
    port = serializers.IntegerField(min_value=1, max_value=65535, required=False, help_text="default: 22")
    pg_bin_dirs = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="further PostgreSQL bin directories"
    )
    pg_data_dirs = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="further data directories of clusters"
    )
    labels = serializers.ListField(
        child=serializers.CharField(max_length=63), required=False, help_text="labels that decisions can use"
    )
    fingerprint = serializers.CharField(
        read_only=True, allow_null=True, help_text="of the approved host key; null before approval"
    )

    jump = VisibleKeyField(Host, queryset=Host.objects.all(), required=False, help_text="id of the jump host")
    windows = serializers.ListField(
        child=WindowSerializer(),
        required=False,
        help_text="when runs may start; [] always. A window may cross midnight",
    )
    guard_command = serializers.CharField(read_only=True, help_text="restores the host from a shell on the host")

    class Meta:
        model = Host
        fields = [
            *(
                "id",
                "name",
                "address",
                "port",
                "user",
                "sudo",
                "launcher",
                "identity",
                "jump",
                "python",
                "spool_dir",
                "data_dir",
            ),
            *("pg_bin_dirs", "pg_data_dirs", "os_user", "may_reboot", "windows", "time_zone", "labels"),
            *("state", "state_reason", "machine_id", "level", "health_checked_at"),
            *("fingerprint", "supervisor", "units", "agent_version", "team"),
            *("last_contact_at", "check_requested_at", "release_requested_at", "created_at", "guard_command"),
        ]
        extra_kwargs = {
            "name": {"validators": [NAME]},  # the service checks that it is free, on hidden hosts too
            "address": {"required": True, "allow_blank": False},
            "identity": {"required": True, "help_text": "id of the SSH key; null only for a host of imported results"},
        }
        read_only_fields = [
            *("state", "state_reason", "machine_id", "level", "supervisor", "units", "agent_version"),
            *("health_checked_at",),
            *("last_contact_at", "check_requested_at", "release_requested_at", "created_at"),
        ]


class HostDetailSerializer(HostSerializer):
    facts = serializers.DictField(read_only=True, help_text="the newest; {} before the first check")
    health = HealthSerializer(many=True, read_only=True)
    reservation = serializers.SerializerMethodField(help_text="the active one; null if there is none")

    class Meta(HostSerializer.Meta):
        fields = [*HostSerializer.Meta.fields, "facts", "health", "reservation"]

    @extend_schema_field(ReservationSerializer(allow_null=True))
    def get_reservation(self, host: Host) -> Any:
        reservation = reservations.in_force(host, timezone.now())
        return ReservationSerializer(reservation).data if reservation else None


class HostKeySerializer(serializers.ModelSerializer[HostKey]):
    approved_by = serializers.CharField(source="approved_by.username", default=None, allow_null=True, read_only=True)

    class Meta:
        model = HostKey
        fields = ["fingerprint", "key", "state", "seen_at", "approved_by", "approved_at"]


class FingerprintSerializer(serializers.Serializer[Any]):
    fingerprint = serializers.CharField(
        help_text="fingerprint of the offered key, as printed by ssh-keygen -l on the host"
    )


class PathsSerializer(serializers.Serializer[Any]):
    paths = serializers.ListField(child=serializers.CharField(), help_text="files on the host")


class RecoveredSerializer(serializers.Serializer[Any]):
    run = serializers.UUIDField()
    state = serializers.CharField()
    outcome = serializers.CharField(help_text="empty if the run continues")
    clean = serializers.BooleanField(allow_null=True, help_text="false: the host is not restored")
    did = serializers.ListField(child=serializers.CharField(), help_text="what was ended and restored, in words")


class RestoredSerializer(serializers.Serializer[Any]):
    recovered = RecoveredSerializer(many=True)


class ConsentSerializer(serializers.Serializer[Any]):
    data_dir = serializers.CharField(help_text="of one of the host's clusters")
    may = serializers.ChoiceField(choices=ClusterConsent.May.choices, help_text="each permission is separate")


class ClusterConsentSerializer(serializers.Serializer[Any]):
    measure = serializers.CharField(
        source="measure.given_by.username", default=None, allow_null=True, help_text="the admin who allowed it"
    )
    restart = serializers.CharField(source="restart.given_by.username", default=None, allow_null=True)
    disturb_clients = serializers.CharField(source="disturb_clients.given_by.username", default=None, allow_null=True)


class ClusterSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    data_dir = serializers.CharField()
    version = serializers.CharField()
    port = serializers.IntegerField()
    running = serializers.BooleanField()
    owner = serializers.CharField()
    unit = serializers.CharField(help_text="systemd service; empty for a server that pg_ctl started")
    include = serializers.CharField(help_text="the file that a run can write; empty: its configuration includes none")
    consent = ClusterConsentSerializer()


class FactsSerializer(serializers.ModelSerializer[Facts]):
    data = serializers.DictField(help_text="as read by the agent")  # type: ignore[assignment]  # the field

    class Meta:
        model = Facts
        fields = ["number", "digest", "taken_at", "seen_at", "data"]


class FactsRowSerializer(serializers.ModelSerializer[Facts]):
    class Meta:
        model = Facts
        fields = ["number", "digest", "taken_at", "seen_at"]


class FactsPairSerializer(serializers.Serializer[Any]):
    """Two versions; by default the newest and the one before it."""

    before = serializers.IntegerField(min_value=1, required=False, help_text="number of the earlier version")
    after = serializers.IntegerField(min_value=1, required=False, help_text="number of the later version")


class FactChangeSerializer(serializers.Serializer[changes.FactChange]):
    path = serializers.CharField(help_text="name of the fact, such as kernel.release or block_devices.vda.scheduler")
    before = serializers.JSONField(allow_null=True, help_text="null: unknown")
    after = serializers.JSONField(allow_null=True, help_text="null: unknown")
    weighty = serializers.BooleanField(help_text="runs before and after it are not comparable")


class FactsDiffSerializer(serializers.Serializer[Any]):
    before = serializers.IntegerField(help_text="number of a version")
    after = serializers.IntegerField(help_text="number of a version")
    changes = FactChangeSerializer(many=True)


class TroubleSerializer(serializers.ModelSerializer[Trouble]):
    host_name = serializers.CharField(source="host.name", read_only=True)
    keys = serializers.ListField(child=serializers.DictField(), help_text="`key`, `original`, `ours`, `found`")
    problems = serializers.ListField(child=serializers.CharField(), help_text="other obstacles")
    closed_by = serializers.CharField(source="closed_by.username", default=None, allow_null=True)

    class Meta:
        model = Trouble
        fields = [
            *("id", "host", "host_name", "run", "kind", "keys", "problems"),
            *("opened_at", "closed_at", "closed_by", "resolution"),
        ]
