"""Workloads, recipes and campaigns as JSON."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents.collectors import COLLECTORS
from agents.wire.protocol import ROLES
from apps.accounts.models import Team
from apps.campaigns import queries
from apps.campaigns.design import descriptions
from apps.campaigns.design.factors import ORDERS as FACTOR_ORDERS
from apps.campaigns.design.request import CampaignDesign
from apps.campaigns.design.steps import single
from apps.campaigns.models import Campaign, DataSet, Workload
from apps.campaigns.recipes.reading import LARGEST
from apps.hosts.models import NAME, Host
from apps.tuning.models import Revision
from apps.web.renamed_fields import with_earlier_names
from apps.web.visible_keys import VisibleKeyField

API_NAMES = {"cells": "combinations"}  # field of CampaignDesign -> its name in the API, if they differ


class StepSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=ROLES, required=False, help_text="default: measure")
    kind = serializers.CharField(help_text="the tool")
    options = serializers.DictField(help_text="options of its kind")
    metrics = serializers.DictField(
        required=False, help_text="of imported results only: figure -> unit and better; such a step cannot run"
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
    """The owning team of an object with revisions."""

    def __init__(self) -> None:
        help_text = "id of the owning team, for a new name; a known name keeps its owner"
        super().__init__(queryset=Team.objects.all(), required=False, allow_null=True, help_text=help_text)


class NewWorkloadSerializer(serializers.Serializer[Any]):
    """Either `steps`, or the kind and the options of the only one."""

    name = serializers.RegexField(NAME.regex, max_length=63, help_text="a known name gets its next revision")
    description = serializers.CharField(required=False, allow_blank=True, default="")
    team = NewTeamField()
    steps = serializers.ListField(
        child=serializers.JSONField(), required=False, help_text="[{name, role, kind, options}]"
    )
    kind = serializers.CharField(required=False, help_text="the tool, if it is the only step")
    options = serializers.DictField(required=False, default=dict, help_text="options of its kind")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("steps" in attrs) == ("kind" in attrs):
            raise serializers.ValidationError({"steps": "give either steps, or kind and options"})
        kind, options = attrs.pop("kind", ""), attrs.pop("options")
        return {"steps": single(kind, options), **attrs} if kind else attrs


class TargetSerializer(serializers.Serializer[Any]):
    """The PostgreSQL to use. Empty: a private cluster of the newest version on the host."""

    bin_dir = serializers.CharField(
        required=False, help_text="programs of the PostgreSQL that creates the private cluster"
    )
    data_dir = serializers.CharField(required=False, help_text="data directory of an existing cluster")
    remote = serializers.CharField(required=False, help_text="name of a remote server of the host")


class WhereSerializer(serializers.Serializer[Any]):
    """The host whose tools check the scripts."""

    host = serializers.PrimaryKeyRelatedField(queryset=Host.objects.all(), help_text="id of a host")
    target = TargetSerializer(required=False, help_text="as in a campaign: the PostgreSQL whose tools are used")


@with_earlier_names(said="tool_message")
class ComplaintSerializer(serializers.Serializer[Any]):
    step = serializers.CharField()
    script = serializers.CharField(
        allow_blank=True, help_text="name of the script; empty if the message concerns the options"
    )
    line = serializers.IntegerField(allow_null=True, help_text="from 1; null if the tool reports none")
    message = serializers.CharField()
    tool_message = serializers.CharField(help_text="the message of the tool")


class CheckedSerializer(serializers.Serializer[Any]):
    host = serializers.CharField()
    bin_dir = serializers.CharField(allow_blank=True, help_text="version of the PostgreSQL whose tools were used")
    complaints = ComplaintSerializer(many=True)


class LevelSerializer(serializers.Serializer[Any]):
    label = serializers.CharField()  # type: ignore[assignment]  # the field, not the attribute
    set = serializers.DictField(
        help_text="settings.*, workload.*, steps.* and dataset.* paths -> value; null removes one"
    )
    when = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()),
        required=False,
        help_text="factor -> labels: the level exists only with one of these",
    )


class FactorSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    order = serializers.ChoiceField(
        choices=[each for each in FACTOR_ORDERS if each],
        required=False,
        help_text="order of its levels within each block",
    )
    levels = LevelSerializer(many=True)


class WarmUpSerializer(serializers.Serializer[Any]):
    """Either `time_s`, or `until` with `limit_s`."""

    time_s = serializers.IntegerField(required=False, min_value=1, max_value=86400)
    until = serializers.ChoiceField(choices=["steady"], required=False)
    limit_s = serializers.IntegerField(required=False, min_value=1, max_value=86400)
    window_s = serializers.IntegerField(required=False, min_value=1, max_value=60, help_text="default: 5")
    within = serializers.FloatField(required=False, help_text="the maximum drift of a steady load: 0.02, which is 2 %")


class NuisanceSerializer(serializers.Serializer[Any]):
    """Run conditions, which are the same in every run."""

    cool_down_s = serializers.FloatField(
        required=False, min_value=0, max_value=86400, help_text="seconds before each run"
    )
    checkpoint = serializers.BooleanField(required=False, help_text="before each measured step")
    drop_caches = serializers.ChoiceField(
        choices=["run", "step"], required=False, help_text="before each run, or also before each measured step"
    )
    warm_up = WarmUpSerializer(required=False, help_text="the first measured load runs before it as a warm-up")


class NewRecipeSerializer(serializers.Serializer[Any]):
    yaml = serializers.CharField(
        trim_whitespace=False, max_length=LARGEST, help_text="a recipe, see docs/guides/recipes.md"
    )


class RecipeSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    version = serializers.IntegerField()
    author = serializers.CharField(
        source="own.author.username", default="", help_text="the importing user; empty if it is built in"
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
    dataset = serializers.DictField(
        default=None, allow_null=True, help_text="kind and options; null: defined by the steps"
    )
    steps = StepSerializer(many=True)
    factors = serializers.ListField(
        child=serializers.DictField(), help_text="scaled to the host of ?host=; otherwise as in the recipe"
    )


class CampaignRowSerializer(serializers.ModelSerializer[Campaign]):
    host = serializers.IntegerField(source="host_id")
    host_name = serializers.CharField(source="host.name")
    workload = serializers.CharField(
        allow_null=True, help_text="name and revision; null for a campaign that only creates data"
    )
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
    failed = serializers.IntegerField(help_text="of these, neither ok nor cancelled")
    read = serializers.IntegerField(help_text="of these, with processed results")
    eta_s = serializers.FloatField(allow_null=True, help_text="estimated seconds to the end; null before the start")


class WeightyChangeSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(help_text="name of the fact, such as kernel.release")
    before = serializers.JSONField(allow_null=True, help_text="null: unknown")
    after = serializers.JSONField(allow_null=True, help_text="null: unknown")


class BreakSerializer(serializers.Serializer[Any]):
    """A change of the host between two runs, which are therefore not comparable."""

    before = serializers.UUIDField(help_text="the last run before the change")
    after = serializers.UUIDField(help_text="the first run after the change")
    sentence = serializers.CharField()
    changes = WeightyChangeSerializer(many=True)


@with_earlier_names(design_told="design_sentences", cells="combinations")
class CampaignSerializer(serializers.ModelSerializer[Campaign]):
    """The results of a campaign."""

    host = serializers.IntegerField(source="host_id")
    host_name = serializers.CharField(source="host.name")
    workload = WorkloadSerializer(allow_null=True, help_text="null for a campaign that only creates data")
    dataset = serializers.CharField(allow_null=True, help_text="name and revision")
    profile = serializers.CharField(allow_null=True, help_text="name and revision")
    factors = FactorSerializer(many=True)
    target = TargetSerializer()
    combinations = serializers.ListField(
        source="cells",
        child=serializers.DictField(child=serializers.CharField()),
        help_text="of the design list: [{factor: level}]",
    )
    nuisance = NuisanceSerializer()
    design_sentences = serializers.SerializerMethodField(help_text="the design in sentences")
    threats = serializers.SerializerMethodField(
        help_text="threats to validity: effects that the design cannot separate"
    )
    stop = serializers.DictField()
    extensions = serializers.ListField(
        child=serializers.DictField(),
        help_text="extensions after results were visible: at, by, repetitions, levels, seen",
    )
    roles = serializers.DictField()
    sources = serializers.ListField(child=serializers.CharField(), help_text="names of the collectors")
    cloned_from = VisibleKeyField(Campaign, read_only=True)
    created_by = serializers.CharField(source="created_by.username")
    progress = serializers.SerializerMethodField()
    results_ready = serializers.SerializerMethodField(
        help_text="whether all runs have ended and their results are processed"
    )
    host_changes = serializers.SerializerMethodField(help_text="relevant changes of the host between its runs")

    class Meta:
        model = Campaign
        fields = [
            *("id", "kind", *(API_NAMES.get(name, name) for name in CampaignDesign.names())),
            *("host_name", "design_sentences", "threats"),
            *("state", "state_reason", "extensions", "cloned_from", "progress", "results_ready", "host_changes"),
            *("created_by", "created_at", "started_at", "ended_at", "archived_at"),
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

    def get_design_sentences(self, campaign: Campaign) -> list[str]:
        return descriptions.sentences(campaign)

    def get_threats(self, campaign: Campaign) -> list[str]:
        return descriptions.threats(campaign)

    def get_results_ready(self, campaign: Campaign) -> bool:
        return campaign.ended_at is not None and self._progress.read == self._progress.total


class StartedCampaignSerializer(CampaignSerializer):
    unchecked = serializers.CharField(help_text="why its scripts were not checked on the host; empty if they were")

    class Meta(CampaignSerializer.Meta):
        fields = [*CampaignSerializer.Meta.fields, "unchecked"]


@with_earlier_names(cells="combinations")
class ChoicesSerializer(serializers.Serializer[Any]):
    """Fields of a campaign; for a clone, those that differ from the source."""

    host = serializers.PrimaryKeyRelatedField(queryset=Host.objects.all(), required=False, help_text="id of a host")
    name = serializers.CharField(required=False, max_length=120)
    question = serializers.CharField(required=False)
    workload = serializers.PrimaryKeyRelatedField(queryset=Workload.objects.all(), required=False)
    dataset = serializers.PrimaryKeyRelatedField(
        queryset=DataSet.objects.all(),
        required=False,
        help_text="id of a data set; default: the one for the scale of the workload",
    )
    factors = serializers.ListField(child=serializers.JSONField(), required=False, help_text="[{name, levels}]")
    profile = serializers.PrimaryKeyRelatedField(
        queryset=Revision.objects.select_related("profile"), required=False, help_text="id of a profile's revision"
    )
    target = TargetSerializer(required=False)
    repetitions = serializers.IntegerField(required=False, min_value=1, max_value=1000)
    order = serializers.ChoiceField(choices=Campaign.Order.choices, required=False)
    seed = serializers.IntegerField(required=False, min_value=0, max_value=2**32 - 1, help_text="seed of the order")
    reboot = serializers.ChoiceField(choices=Campaign.Reboot.choices, required=False, help_text="restart the host")
    metric = serializers.CharField(
        required=False, max_length=80, help_text="tps; with several measured steps, for example idx1.tps"
    )
    delta = serializers.FloatField(required=False, help_text="the minimum effect of interest: 0.02 is 2 %")
    interval_s = serializers.FloatField(
        required=False, min_value=0.1, max_value=3600, help_text="seconds between two samples of each collector"
    )
    sources = serializers.ListField(
        child=serializers.ChoiceField(choices=list(COLLECTORS)),
        required=False,
        help_text="names of collectors; default: all",
    )
    design = serializers.ChoiceField(choices=Campaign.Design.choices, required=False)
    combinations = serializers.ListField(
        source="cells",
        child=serializers.DictField(child=serializers.CharField()),
        required=False,
        help_text="for the design list: [{factor: level}]",
    )
    sample = serializers.IntegerField(required=False, min_value=1, help_text="for the design random_sample")
    nuisance = NuisanceSerializer(required=False)
    stop = serializers.DictField(required=False, help_text="until, between, width; default: all repetitions")
    budget_h = serializers.FloatField(required=False, min_value=0.01, help_text="hours")
    max_failures = serializers.IntegerField(required=False, min_value=1)
    priority = serializers.IntegerField(required=False, min_value=-100, max_value=100)
    placement = serializers.ChoiceField(choices=Campaign.Placement.choices, required=False)
    further_hosts = serializers.PrimaryKeyRelatedField(queryset=Host.objects.all(), many=True, required=False)
    roles = serializers.DictField(required=False, help_text="client: host id, standbys: host ids")


class NewCampaignSerializer(ChoicesSerializer):
    """Create a draft from a recipe, whose fields can be replaced, or from name, question, workload and factors."""

    host = serializers.PrimaryKeyRelatedField(queryset=Host.objects.all(), help_text="id of a host")
    recipe = serializers.CharField(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        needed = [] if "recipe" in attrs else ["name", "question", "workload", "factors"]
        missing = {name: "required without a recipe" for name in needed if name not in attrs}
        if missing:
            raise serializers.ValidationError(missing)
        return attrs


class PrioritySerializer(serializers.Serializer[Any]):
    priority = serializers.IntegerField(min_value=-100, max_value=100, help_text="the highest priority starts first")


@with_earlier_names(cell="levels")
class PlannedSerializer(serializers.Serializer[Any]):
    position = serializers.IntegerField()
    block = serializers.IntegerField()
    levels = serializers.DictField(source="cell", child=serializers.CharField(), help_text="factor -> level")
    digest = serializers.CharField()


class ShareSerializer(serializers.Serializer[Any]):
    host = serializers.IntegerField(source="host.pk")
    host_name = serializers.CharField(source="host.name")
    runs = serializers.IntegerField()
    seconds = serializers.FloatField(help_text="estimated duration, one run after the other")


class PreviewSerializer(serializers.Serializer[Any]):
    seconds = serializers.FloatField(help_text="estimated duration of all runs; with several hosts, of the longest")
    known = serializers.BooleanField(help_text="whether the estimate is based on similar earlier runs on the host")
    restarts = serializers.IntegerField(help_text="of the host")
    restart_s = serializers.FloatField(help_text="estimated duration of each")
    restart_known = serializers.BooleanField(help_text="whether it was measured there; otherwise an estimate")
    shares = ShareSerializer(many=True)
    notes = serializers.ListField(
        child=serializers.CharField(), help_text="effect of the maintenance windows of its hosts"
    )
    runs = PlannedSerializer(many=True)
