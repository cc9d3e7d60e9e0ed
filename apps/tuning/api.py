"""Profiles with their revisions, their dry runs, and the catalogue of settings."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Prefetch, QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from agents.settings import SETTINGS
from apps.accounts.models import Role, Scope
from apps.accounts.services import user_of
from apps.hosts.models import NAME, Host
from apps.tuning import parameters, rules, services
from apps.tuning.exports import FORMATS
from apps.tuning.models import Profile, Revision
from apps.web.pages import attachment
from apps.web.renamed_fields import with_earlier_names
from apps.web.rest import body_of, paged, query_of


class RevisionSerializer(serializers.ModelSerializer[Revision]):
    settings = serializers.DictField(help_text="setting name -> wanted; see /api/v1/settings/")
    author = serializers.CharField(source="author.username", read_only=True)

    class Meta:
        model = Revision
        fields = ["id", "number", "settings", "digest", "note", "author", "created_at"]
        read_only_fields = ["number", "digest", "created_at"]


class ProfileSerializer(serializers.ModelSerializer[Profile]):
    latest = serializers.SerializerMethodField()
    settings = serializers.DictField(write_only=True, help_text="of its first revision")
    note = serializers.CharField(write_only=True, required=False, allow_blank=True)

    class Meta:
        model = Profile
        fields = ["id", "name", "description", "team", "latest", "settings", "note", "created_at"]
        read_only_fields = ["created_at"]
        # The service checks that the name is free, on hidden profiles as well.
        extra_kwargs: ClassVar[dict[str, Any]] = {"name": {"validators": [NAME]}}

    @extend_schema_field(RevisionSerializer)
    def get_latest(self, profile: Any) -> Any:
        return RevisionSerializer(profile.newest[0]).data


class RangeSerializer(serializers.Serializer[Any]):
    to = serializers.IntegerField(min_value=1, help_text="number of the later revision")

    def get_fields(self) -> dict[str, Any]:
        """`from` is a Python keyword and cannot be an attribute."""
        earlier = serializers.IntegerField(min_value=1, help_text="number of the earlier revision")
        return {"from": earlier, **super().get_fields()}


class DifferenceSerializer(serializers.Serializer[Any]):
    path = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class DryRunQuerySerializer(serializers.Serializer[Any]):
    host = serializers.PrimaryKeyRelatedField(queryset=Host.objects.all(), help_text="id of a host")
    revision = serializers.IntegerField(
        required=False, min_value=1, help_text="number of the revision; default: the latest"
    )


class ExportQuerySerializer(DryRunQuerySerializer):
    file = serializers.ChoiceField(choices=list(FORMATS), help_text="which kind of file")


class RefusalSerializer(serializers.Serializer[Any]):
    field = serializers.CharField()
    value = serializers.JSONField(allow_null=True)
    accepted = serializers.CharField()
    hint = serializers.CharField(allow_blank=True)


class ItemSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text="initdb, conf, write, hold, act, sql, server, client or tracer")
    key = serializers.CharField(help_text="a kernel file, a parameter, or the prefix of a command")
    present = serializers.CharField(allow_null=True, help_text="null: not read from a host")
    wanted = serializers.CharField()
    line = serializers.CharField(help_text="an equivalent shell command")
    when = serializers.CharField(help_text="when it takes effect")
    also = serializers.DictField(child=serializers.CharField(), help_text="other files that the kernel changes with it")


@with_earlier_names(found="present")
class EffectSerializer(serializers.Serializer[Any]):
    setting = serializers.CharField(source="setting.name")
    level = serializers.CharField(source="setting.level", help_text="required level of the agent: user or root")
    risk = serializers.CharField(source="setting.risk")
    wanted = serializers.JSONField()
    present = serializers.JSONField(
        source="current", allow_null=True, help_text="the current value on the host, if it was queried"
    )
    items = ItemSerializer(many=True)
    refusals = RefusalSerializer(many=True)


class DryRunSerializer(serializers.Serializer[services.Preview]):
    """Dry run: what a revision would change on a host, and what the host refuses. Nothing is executed."""

    taken_at = serializers.DateTimeField(allow_null=True, help_text="when the facts were read; null: read just now")
    level = serializers.CharField(source="run.level", help_text="level of the agent on this host")
    effects = EffectSerializer(source="run.effects", many=True)
    refusals = RefusalSerializer(source="run.refusals", many=True, help_text="empty if the host accepts all values")
    needs_start = serializers.ListField(
        source="run.needs_start",
        child=serializers.CharField(),
        help_text="parameters that need a restart of a running server",
    )
    lines = serializers.ListField(
        source="run.lines", child=serializers.CharField(), help_text="accepted changes, in an order that works"
    )


class TextRenderer(JSONRenderer):
    """Accepts requests for text. The file itself is not rendered here, only errors are."""

    media_type = "text/plain"
    format = "txt"


class ProfileViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Profile]):
    """Profiles: named sets of settings, in revisions that never change."""

    queryset = Profile.objects.all()
    serializer_class = ProfileSerializer
    filterset_fields = ["name", "team"]
    ordering_fields = ["name", "created_at"]
    scope = Scope.CAMPAIGNS
    roles = {"create": Role.TUNER, "revise": Role.TUNER, "ask": Role.OPERATOR}
    of_teams = tuple(roles)

    def get_queryset(self) -> QuerySet[Profile]:
        newest = Revision.objects.order_by("profile_id", "-number").distinct("profile_id").select_related("author")
        return Profile.objects.order_by("name").prefetch_related(Prefetch("revisions", newest, to_attr="newest"))

    @extend_schema(responses={201: ProfileSerializer})
    def create(self, request: Request) -> Response:
        revision = services.create_profile(by=user_of(request), **body_of(request, ProfileSerializer))
        profile = self.get_queryset().get(pk=revision.profile_id)
        return Response(ProfileSerializer(profile).data, status=status.HTTP_201_CREATED)

    @extend_schema(responses=RevisionSerializer(many=True))
    @action(detail=True, ordering_fields=[])
    def revisions(self, request: Request, pk: str) -> Response:
        """Newest first."""
        revisions = self.get_object().revisions.select_related("author").order_by("-number")
        return paged(self, revisions, RevisionSerializer)

    @extend_schema(request=RevisionSerializer, responses={201: RevisionSerializer})
    @revisions.mapping.post
    def revise(self, request: Request, pk: str) -> Response:
        """Create the next revision, or return the latest one if it is identical."""
        body = body_of(request, RevisionSerializer)
        revision = services.revise(self.get_object(), by=user_of(request), **body)
        return Response(RevisionSerializer(revision).data, status=status.HTTP_201_CREATED)

    @extend_schema(parameters=[RangeSerializer], responses=DifferenceSerializer(many=True), filters=False)
    @action(detail=True, pagination_class=None)
    def diff(self, request: Request, pk: str) -> Response:
        """Settings that differ between two revisions; null if a revision does not have the setting."""
        query = query_of(request, RangeSerializer)
        revisions = self.get_object().revisions
        before, after = (get_object_or_404(revisions, number=query[end]) for end in ("from", "to"))
        return Response(DifferenceSerializer(rules.diff(before.settings, after.settings), many=True).data)

    def _read_query(self, data: Any, shape: type[DryRunQuerySerializer]) -> tuple[Revision, dict[str, Any]]:
        query = shape(data=data)
        query.is_valid(raise_exception=True)
        fields = query.validated_data
        by_number = {"number": fields["revision"]} if "revision" in fields else {}
        revisions = self.get_object().revisions.select_related("profile").order_by("-number")
        return get_object_or_404(revisions.filter(**by_number)[:1]), fields

    @extend_schema(parameters=[DryRunQuerySerializer], responses=DryRunSerializer)
    @action(detail=True, url_path="dry-run")
    def dry_run(self, request: Request, pk: str) -> Response:
        """The effect of a revision on a host: present and new values, commands and refusals."""
        revision, fields = self._read_query(request.query_params, DryRunQuerySerializer)
        return Response(DryRunSerializer(services.dry_run(revision.settings, fields["host"])).data)

    @extend_schema(request=DryRunQuerySerializer, responses=DryRunSerializer)
    @dry_run.mapping.post
    def ask(self, request: Request, pk: str) -> Response:
        """The dry run with values that are read from the host now. This changes nothing on the host."""
        revision, fields = self._read_query(request.data, DryRunQuerySerializer)
        return Response(DryRunSerializer(services.ask(revision.settings, fields["host"], by=user_of(request))).data)

    @extend_schema(parameters=[ExportQuerySerializer], responses={(200, "text/plain"): OpenApiTypes.STR})
    @action(detail=True, renderer_classes=[JSONRenderer, TextRenderer])
    def export(self, request: Request, pk: str) -> HttpResponse:
        """A revision for a host, as a file to install by hand. Settings that the format lacks are comments."""
        revision, fields = self._read_query(request.query_params, ExportQuerySerializer)
        return attachment(*services.export(revision, fields["host"], fields["file"]))


class SettingSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField()
    help = serializers.CharField()
    unit = serializers.CharField()
    level = serializers.CharField(help_text="required level of the agent: user or root")
    risk = serializers.CharField()
    schema = serializers.DictField(help_text="JSON Schema of the accepted values")


class ParameterQuerySerializer(serializers.Serializer[Any]):
    q = serializers.CharField(required=False, help_text="words in its name or description")
    host = serializers.PrimaryKeyRelatedField(
        queryset=Host.objects.all(), required=False, help_text="id of a host, to show its present values"
    )
    revision = serializers.PrimaryKeyRelatedField(
        queryset=Revision.objects.all(), required=False, help_text="id of the profile revision that runs start from"
    )
    limit = serializers.IntegerField(required=False, min_value=1, max_value=1000)


class ParameterSerializer(serializers.Serializer[Any]):
    """A setting for factors and profiles, with its range, present value and restarts."""

    path = serializers.CharField(help_text="path as in a factor, such as settings.postgresql.work_mem")
    name = serializers.CharField()
    about = serializers.CharField()
    unit = serializers.CharField()
    range = serializers.CharField(help_text="smallest and largest value, or the accepted words")
    present = serializers.CharField(help_text="the value of a run that does not set it; empty if unknown")
    origin = serializers.CharField(source="source", help_text="source of the present value: default, profile or now")
    restart = serializers.CharField(help_text="what a change of the value restarts; empty if nothing")
    hint = serializers.CharField(help_text="range, present value and restart in one line")


class SettingViewSet(viewsets.ViewSet):
    """The catalogue of settings for profiles and factors."""

    lookup_field = "name"
    lookup_value_regex = "[a-z_]+"

    @extend_schema(responses=SettingSerializer(many=True))
    def list(self, request: Request) -> Response:
        return Response(SettingSerializer(SETTINGS.values(), many=True).data)

    @extend_schema(responses=SettingSerializer)
    def retrieve(self, request: Request, name: str) -> Response:
        if name not in SETTINGS:
            raise NotFound(f"{name} is not in the catalogue; accepted: {', '.join(SETTINGS)}")
        return Response(SettingSerializer(SETTINGS[name]).data)

    @extend_schema(parameters=[ParameterQuerySerializer], responses=ParameterSerializer(many=True))
    @action(detail=False)
    def parameters(self, request: Request) -> Response:
        """All PostgreSQL parameters and kernel settings of a host; the best matches of `q` come first."""
        fields = query_of(request, ParameterQuerySerializer)
        host, revision = fields.get("host"), fields.get("revision")
        every = parameters.every(host.facts if host else None, revision.settings if revision else None)
        matches = parameters.matching(every, fields.get("q", ""))[: fields.get("limit")]
        return Response(ParameterSerializer(matches, many=True).data)
