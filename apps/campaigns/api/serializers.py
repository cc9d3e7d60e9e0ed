"""Workloads, recipes and campaigns as JSON."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents.collectors import COLLECTORS
from agents.wire.protocol import ROLES
from apps.accounts.models import Team
from apps.campaigns import queries
from apps.campaigns.design import words
from apps.campaigns.design.factors import ORDERS as FACTOR_ORDERS
from apps.campaigns.design.steps import single
from apps.campaigns.models import Campaign, DataSet, Workload
from apps.campaigns.recipes.reading import LARGEST
from apps.hosts.models import NAME, Host
from apps.tuning.models import Revision


class StepSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=ROLES, required=False, help_text="measure where absent")
    kind = serializers.CharField(help_text="the tool")
    options = serializers.DictField(help_text="what its kind accepts")
    metrics = serializers.DictField(
        required=False, help_text="of imported results only: figure -> unit and better; such a step cannot be run"
    )


class WorkloadSerializer(serializers.ModelSerializer[Workload]):
    steps = StepSerializer(many=True)
    kinds = serializers.CharField(read_only=True, help_text="its tools")
    author = serializers.CharField(source="author.username", default=None, allow_null=True, read_only=True)

    class Meta:
        model = Workload
        fields = ["id", "name", "revision", "steps", "kinds", "digest", "description", "team", "author", "created_at"]
        read_only_fields = fields


class NewTeamField(serializers.PrimaryKeyRelatedField[Team]):
    """Whose something is to be that has revisions."""

    def __init__(self) -> None:
        words = "id of the team whose it is, where the name is new; a known name stays whose it is"
        super().__init__(queryset=Team.objects.all(), required=False, allow_null=True, help_text=words)


class NewWorkloadSerializer(serializers.Serializer[Any]):
    """Either `steps`, or the kind and the options of the only one."""

    name = serializers.RegexField(NAME.regex, max_length=63, help_text="a known name gets its next revision")
    description = serializers.CharField(required=False, allow_blank=True, default="")
    team = NewTeamField()
    steps = serializers.ListField(
        child=serializers.JSONField(), required=False, help_text="[{name, role, kind, options}]"
    )
    kind = serializers.CharField(required=False, help_text="the tool, where it is the only step")
    options = serializers.DictField(required=False, default=dict, help_text="what its kind accepts")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("steps" in attrs) == ("kind" in attrs):
            raise serializers.ValidationError({"steps": "give either steps, or kind and options"})
        kind, options = attrs.pop("kind", ""), attrs.pop("options")
        return {"steps": single(kind, options), **attrs} if kind else attrs


class TargetSerializer(serializers.Serializer[Any]):
    """Empty: a private cluster of the newest PostgreSQL there. Else one of these."""

    bin_dir = serializers.CharField(required=False, help_text="of the PostgreSQL that makes the private cluster")
    data_dir = serializers.CharField(required=False, help_text="of a cluster that is on the host already")


class WhereSerializer(serializers.Serializer[Any]):
    """On whose tools."""

    host = serializers.PrimaryKeyRelatedField(queryset=Host.objects.all(), help_text="id of a host")
    target = TargetSerializer(required=False, help_text="as a campaign has it: the PostgreSQL whose tools are asked")


class ComplaintSerializer(serializers.Serializer[Any]):
    step = serializers.CharField()
    script = serializers.CharField(allow_blank=True, help_text="its name; empty where it is about the options")
    line = serializers.IntegerField(allow_null=True, help_text="from 1; null where the tool names none")
    message = serializers.CharField()
    said = serializers.CharField(help_text="the tool's own words")


class CheckedSerializer(serializers.Serializer[Any]):
    host = serializers.CharField()
    bin_dir = serializers.CharField(allow_blank=True, help_text="of the PostgreSQL whose tools were asked")
    complaints = ComplaintSerializer(many=True)


class LevelSerializer(serializers.Serializer[Any]):
    label = serializers.CharField()  # type: ignore[assignment]  # the field, not the attribute
    set = serializers.DictField(
        help_text="settings.*, workload.*, steps.* and dataset.* paths -> value; null removes one"
    )
    when = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()),
        required=False,
        help_text="factor -> labels: it exists only with one of these",
    )


class FactorSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    order = serializers.ChoiceField(
        choices=[each for each in FACTOR_ORDERS if each], required=False, help_text="of its levels within each block"
    )
    levels = LevelSerializer(many=True)


class WarmUpSerializer(serializers.Serializer[Any]):
    """Either `time_s`, or `until` with `limit_s`."""

    time_s = serializers.IntegerField(required=False, min_value=1, max_value=86400)
    until = serializers.ChoiceField(choices=["steady"], required=False)
    limit_s = serializers.IntegerField(required=False, min_value=1, max_value=86400)
    window_s = serializers.IntegerField(required=False, min_value=1, max_value=60, help_text="5 unless said")
    within = serializers.FloatField(required=False, help_text="the drift of a steady load: 0.02, which is 2 %")


class NuisanceSerializer(serializers.Serializer[Any]):
    """What is done in every run so that nothing but the factors differs."""

    cool_down_s = serializers.FloatField(required=False, min_value=0, max_value=86400, help_text="before each run")
    checkpoint = serializers.BooleanField(required=False, help_text="before each measured step")
    drop_caches = serializers.ChoiceField(
        choices=["run", "step"], required=False, help_text="before each run, or each measured step as well"
    )
    warm_up = WarmUpSerializer(required=False, help_text="the first measured load runs before it")


class NewRecipeSerializer(serializers.Serializer[Any]):
    yaml = serializers.CharField(trim_whitespace=False, max_length=LARGEST, help_text="a recipe, see docs/recipes.md")


class RecipeSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    version = serializers.IntegerField()
    author = serializers.CharField(
        source="own.author.username", default="", help_text="who imported it; empty where it comes with the program"
    )
    title = serializers.CharField()
    question = serializers.CharField()
    about = serializers.CharField()
    chart = serializers.CharField()
    restarts = serializers.CharField()
    needs = serializers.CharField(default="user", help_text="the level of the agent: user or root")
    metric = serializers.CharField()
    delta = serializers.FloatField()
    repetitions = serializers.IntegerField()
    order = serializers.CharField()
    design = serializers.CharField(default=Campaign.Design.FACTORIAL)
    nuisance = serializers.DictField(default=dict)
    settings = serializers.DictField(default=dict)
    dataset = serializers.DictField(default=None, allow_null=True, help_text="kind and options; null: as steps ask")
    steps = StepSerializer(many=True)
    factors = serializers.ListField(
        child=serializers.DictField(), help_text="scaled to the host where ?host= is given; else as the recipe says"
    )


class CampaignRowSerializer(serializers.ModelSerializer[Campaign]):
    host = serializers.IntegerField(source="host_id")
    host_name = serializers.CharField(source="host.name")
    workload = serializers.CharField(allow_null=True, help_text="name and revision; null where it only makes data")
    created_by = serializers.CharField(source="created_by.username")

    class Meta:
        model = Campaign
        fields = [
            *("id", "kind", "name", "question", "recipe", "host", "host_name", "workload", "state", "metric"),
            *("repetitions", "created_by", "created_at", "started_at", "ended_at", "archived_at"),
        ]


class RenameSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(required=False, max_length=120)
    question = serializers.CharField(required=False)


class ProgressSerializer(serializers.Serializer[queries.Progress]):
    done = serializers.IntegerField(help_text="runs that have ended")
    total = serializers.IntegerField(help_text="0 before the start")
    running = serializers.IntegerField()
    failed = serializers.IntegerField(help_text="of those done, neither ok nor cancelled")
    read = serializers.IntegerField(help_text="of those done, whose results were read")
    eta_s = serializers.FloatField(allow_null=True, help_text="seconds to the end; null before the start")


class WeightyChangeSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(help_text="of the fact, such as kernel.release")
    before = serializers.JSONField(allow_null=True, help_text="null: not told")
    after = serializers.JSONField(allow_null=True, help_text="null: not told")


class BreakSerializer(serializers.Serializer[Any]):
    """The host changed between two runs; those on both sides are not alike."""

    before = serializers.UUIDField(help_text="the last run before it")
    after = serializers.UUIDField(help_text="the first run after it")
    sentence = serializers.CharField()
    changes = WeightyChangeSerializer(many=True)


class CampaignSerializer(serializers.ModelSerializer[Campaign]):
    """One campaign, whole."""

    host = serializers.IntegerField(source="host_id")
    host_name = serializers.CharField(source="host.name")
    workload = WorkloadSerializer(allow_null=True, help_text="null for a campaign that only makes data")
    dataset = serializers.CharField(allow_null=True, help_text="name and revision")
    profile = serializers.CharField(allow_null=True, help_text="name and revision")
    factors = FactorSerializer(many=True)
    target = TargetSerializer()
    cells = serializers.ListField(child=serializers.DictField(child=serializers.CharField()))
    nuisance = NuisanceSerializer()
    design_told = serializers.SerializerMethodField(help_text="the design in words")
    threats = serializers.SerializerMethodField(help_text="to its validity: what it cannot tell apart")
    stop = serializers.DictField()
    extensions = serializers.ListField(
        child=serializers.DictField(), help_text="after its results could be seen: at, by, repetitions, levels, seen"
    )
    roles = serializers.DictField()
    sources = serializers.ListField(child=serializers.CharField(), help_text="collectors that look on")
    created_by = serializers.CharField(source="created_by.username")
    progress = serializers.SerializerMethodField()
    results_ready = serializers.SerializerMethodField(help_text="all runs have ended and their results were read")
    host_changes = serializers.SerializerMethodField(help_text="between its runs, in what matters")

    class Meta:
        model = Campaign
        fields = [
            *("id", "kind", "name", "question", "recipe", "recipe_version", "host", "host_name", "target"),
            *("profile", "workload", "dataset", "factors"),
            *("design", "design_told", "threats", "cells", "sample", "repetitions", "order", "seed", "reboot"),
            *("nuisance", "stop", "budget_h"),
            *("max_failures", "priority", "placement", "further_hosts", "roles"),
            *("metric", "delta", "interval_s", "sources", "state", "state_reason", "extensions", "cloned_from"),
            *(
                "progress",
                "results_ready",
                "host_changes",
                "created_by",
                "created_at",
                "started_at",
                "ended_at",
                "archived_at",
            ),
        ]

    def to_representation(self, instance: Campaign) -> dict[str, Any]:
        self._progress = queries.progress(instance)
        return super().to_representation(instance)

    @extend_schema_field(ProgressSerializer)
    def get_progress(self, campaign: Campaign) -> Any:
        return ProgressSerializer(self._progress).data

    @extend_schema_field(BreakSerializer(many=True))
    def get_host_changes(self, campaign: Campaign) -> Any:
        return BreakSerializer(queries.breaks(campaign.pk), many=True).data

    def get_design_told(self, campaign: Campaign) -> list[str]:
        return words.told(campaign)

    def get_threats(self, campaign: Campaign) -> list[str]:
        return words.threats(campaign)

    def get_results_ready(self, campaign: Campaign) -> bool:
        return campaign.ended_at is not None and self._progress.read == self._progress.total


class StartedCampaignSerializer(CampaignSerializer):
    unchecked = serializers.CharField(help_text="why its scripts were not checked on the host; empty where they were")

    class Meta(CampaignSerializer.Meta):
        fields = [*CampaignSerializer.Meta.fields, "unchecked"]


class ChoicesSerializer(serializers.Serializer[Any]):
    """What a campaign may be asked; of a clone, what is to be different."""

    host = serializers.PrimaryKeyRelatedField(queryset=Host.objects.all(), required=False, help_text="id of a host")
    name = serializers.CharField(required=False, max_length=120)
    question = serializers.CharField(required=False)
    workload = serializers.PrimaryKeyRelatedField(queryset=Workload.objects.all(), required=False)
    dataset = serializers.PrimaryKeyRelatedField(
        queryset=DataSet.objects.all(), required=False, help_text="id of one; else what the workload's scale asks for"
    )
    factors = serializers.ListField(child=serializers.JSONField(), required=False, help_text="[{name, levels}]")
    profile = serializers.PrimaryKeyRelatedField(
        queryset=Revision.objects.select_related("profile"), required=False, help_text="id of a profile's revision"
    )
    target = TargetSerializer(required=False)
    repetitions = serializers.IntegerField(required=False, min_value=1, max_value=1000)
    order = serializers.ChoiceField(choices=Campaign.Order.choices, required=False)
    seed = serializers.IntegerField(required=False, min_value=0, max_value=2**32 - 1, help_text="of the order")
    reboot = serializers.ChoiceField(choices=Campaign.Reboot.choices, required=False, help_text="restart the host")
    metric = serializers.CharField(
        required=False, max_length=80, help_text="tps; idx1.tps where several steps are measured"
    )
    delta = serializers.FloatField(required=False, help_text="the margin that matters: 0.02 is 2 %")
    interval_s = serializers.FloatField(
        required=False, min_value=0.1, max_value=3600, help_text="seconds between two samples of each collector"
    )
    sources = serializers.ListField(
        child=serializers.ChoiceField(choices=list(COLLECTORS)),
        required=False,
        help_text="collectors; else all",
    )
    design = serializers.ChoiceField(choices=Campaign.Design.choices, required=False)
    cells = serializers.ListField(
        child=serializers.DictField(child=serializers.CharField()), required=False, help_text="of the design list"
    )
    sample = serializers.IntegerField(required=False, min_value=1, help_text="of the design random_sample")
    nuisance = NuisanceSerializer(required=False)
    stop = serializers.DictField(required=False, help_text="until, between, width; else all repetitions")
    budget_h = serializers.FloatField(required=False, min_value=0.01, help_text="hours")
    max_failures = serializers.IntegerField(required=False, min_value=1)
    priority = serializers.IntegerField(required=False, min_value=-100, max_value=100)
    placement = serializers.ChoiceField(choices=Campaign.Placement.choices, required=False)
    further_hosts = serializers.PrimaryKeyRelatedField(queryset=Host.objects.all(), many=True, required=False)
    roles = serializers.DictField(required=False, help_text="client: host id, standbys: host ids")


class NewCampaignSerializer(ChoicesSerializer):
    """From a recipe, whose parts may be replaced, or from scratch: then name, question, workload and factors."""

    host = serializers.PrimaryKeyRelatedField(queryset=Host.objects.all(), help_text="id of a host")
    recipe = serializers.CharField(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        needed = [] if "recipe" in attrs else ["name", "question", "workload", "factors"]
        missing = {name: "required unless a recipe is named" for name in needed if name not in attrs}
        if missing:
            raise serializers.ValidationError(missing)
        return attrs


class PrioritySerializer(serializers.Serializer[Any]):
    priority = serializers.IntegerField(min_value=-100, max_value=100, help_text="the highest goes first")


class PlannedSerializer(serializers.Serializer[Any]):
    position = serializers.IntegerField()
    block = serializers.IntegerField()
    cell = serializers.DictField(child=serializers.CharField())
    digest = serializers.CharField()


class ShareSerializer(serializers.Serializer[Any]):
    host = serializers.IntegerField(source="host.pk")
    host_name = serializers.CharField(source="host.name")
    runs = serializers.IntegerField()
    seconds = serializers.FloatField(help_text="about how long they take, one after the other")


class PreviewSerializer(serializers.Serializer[Any]):
    seconds = serializers.FloatField(help_text="about how long all runs take; of several hosts the longest")
    known = serializers.BooleanField(help_text="whether earlier runs of the same shape there told it; else a guess")
    restarts = serializers.IntegerField(help_text="of the host")
    restart_s = serializers.FloatField(help_text="about how long each takes")
    restart_known = serializers.BooleanField(help_text="whether that was measured there; else it is a guess")
    shares = ShareSerializer(many=True)
    notes = serializers.ListField(child=serializers.CharField(), help_text="what the windows of hosts mean for it")
    runs = PlannedSerializer(many=True)
