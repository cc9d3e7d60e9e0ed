"""Runs, their events and their raw output as JSON."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.campaigns import queries
from apps.campaigns.api.serializers import BreakSerializer
from apps.campaigns.design.steps import loops
from apps.campaigns.models import Artefact, Run, RunEvent
from apps.web.renamed_fields import with_earlier_names


@with_earlier_names(cell="levels")
class RunRowSerializer(serializers.ModelSerializer[Run]):
    campaign = serializers.UUIDField(source="campaign_id")
    host = serializers.IntegerField(source="host_id")
    host_name = serializers.CharField(source="host.name")
    levels = serializers.DictField(source="cell", child=serializers.CharField(), help_text="factor -> level")
    error = serializers.JSONField(allow_null=True, help_text="blame, message, hint; null if there is no error")
    proof = serializers.JSONField(allow_null=True, help_text="checked, ok, lines: result of the check on the host")
    retry_of = serializers.UUIDField(
        source="retry_of_id", allow_null=True, help_text="the failed run that this run repeats"
    )

    class Meta:
        model = Run
        fields = [
            *("id", "campaign", "host", "host_name", "position", "block", "levels", "retry_of", "state", "outcome"),
            *(
                "agent_state",
                "agent_state_at",
                "epoch",
                "step",
                "error",
                "proof",
                "last_seq",
                "cancel_requested_at",
                "started_at",
                "ended_at",
                "ingested_at",
            ),
        ]


class RunSerializer(RunRowSerializer):
    spec = serializers.DictField(help_text="resolved and immutable")
    manifest = serializers.JSONField(allow_null=True, help_text="the manifest that the agent sealed")
    facts = serializers.IntegerField(
        source="facts.number",
        allow_null=True,
        default=None,
        help_text="version of the host's facts at its start",
    )
    loops = serializers.SerializerMethodField(
        help_text="`closed` or `open` for each measured step. Closed: A transaction starts when the last one ends, and "
        "latencies exclude that wait (coordinated omission). Open: A rate defines the start, and latencies include the "
        "lag."
    )
    host_changes = serializers.SerializerMethodField(help_text="relevant changes right before or right after this run")

    class Meta(RunRowSerializer.Meta):
        fields = [*RunRowSerializer.Meta.fields, "digest", "spec", "loops", "manifest", "facts", "host_changes"]

    def get_loops(self, run: Run) -> dict[str, str]:
        return loops(run.spec)

    @extend_schema_field(BreakSerializer(many=True))
    def get_host_changes(self, run: Run) -> Any:
        return BreakSerializer(queries.breaks_at(run), many=True).data


class EventSerializer(serializers.ModelSerializer[RunEvent]):
    data = serializers.DictField()  # type: ignore[assignment]  # the field, not the attribute

    class Meta:
        model = RunEvent
        fields = ["seq", "at", "kind", "data"]


class EventQuerySerializer(serializers.Serializer[Any]):
    after = serializers.IntegerField(default=0, min_value=0, help_text="only events with a greater seq")
    limit = serializers.IntegerField(default=500, min_value=1, max_value=5000)


class EventsSerializer(serializers.Serializer[Any]):
    results = EventSerializer(many=True)
    next_after = serializers.IntegerField(help_text="pass it as ?after= to continue")
    ended = serializers.BooleanField(help_text="true if the run has ended, so no more events follow")
    dropped = serializers.BooleanField(help_text="true if the run is so old that its event log was dropped")


class ArtefactSerializer(serializers.ModelSerializer[Artefact]):
    run = serializers.UUIDField(source="run_id")
    fetched = serializers.BooleanField(help_text="false if it was too large to fetch or damaged on the host")

    class Meta:
        model = Artefact
        fields = ["id", "run", "path", "size", "sha256", "fetched"]
