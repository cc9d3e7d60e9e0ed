"""Timeline, feed, search, and the decisions behind a setting, as JSON."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status, viewsets
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role
from apps.accounts.services import user_of
from apps.decisions.search import decided_settings, full_text, palette
from apps.decisions.timeline import entries, feed
from apps.decisions.timeline.forms import TimelineForm
from apps.hosts.models import Host
from apps.tuning.models import Profile
from apps.web.idempotency import SecretResponse
from apps.web.renamed_fields import with_earlier_names
from apps.web.rest import query_of


@with_earlier_names(words="text")
class EntrySerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    kind = serializers.CharField(help_text="decision, campaign, or the kind of status change")
    title = serializers.CharField()
    text = serializers.CharField()
    who = serializers.CharField(help_text="empty: the server itself")
    path = serializers.CharField(help_text="address of its page")


class TimelineSerializer(serializers.Serializer[Any]):
    entries = EntrySerializer(many=True)
    older = serializers.CharField(help_text="the cursor of the next older page; empty at the end")


class HitSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField()
    key = serializers.CharField()
    title = serializers.CharField()
    snippet = serializers.CharField(help_text="the text around the match")
    rank = serializers.FloatField(help_text="rank of the text; exact titles come first")
    path = serializers.CharField(help_text="address of its page")


class SearchedSerializer(serializers.Serializer[Any]):
    q = serializers.CharField(max_length=full_text.LONGEST, help_text='words; "several words", -excluded, or')
    kind = serializers.ChoiceField(choices=full_text.kinds(), required=False, help_text="default: all kinds")


class FeedSerializer(serializers.Serializer[Any]):
    address = serializers.URLField(help_text="token of the Atom feed, shown only once")


class WhySerializer(serializers.Serializer[Any]):
    path = serializers.CharField(help_text="of the setting")
    decided = serializers.JSONField()
    value = serializers.JSONField(allow_null=True, help_text="value in the profile; null if no profile was asked for")
    agrees = serializers.BooleanField(allow_null=True)
    decision = serializers.IntegerField(source="decision.pk")
    title = serializers.CharField(source="decision.title")
    status = serializers.CharField(source="decision.status")


class WhyAskedSerializer(serializers.Serializer[Any]):
    setting = serializers.CharField(required=False, default="", help_text="a path, or a group of paths")
    host = serializers.PrimaryKeyRelatedField(queryset=Host.objects.all(), required=False, default=None)
    profile = serializers.PrimaryKeyRelatedField(queryset=Profile.objects.all(), required=False, default=None)


ASKED = {
    "host": "id of a host",
    "q": "words in its text",
    "by": "name of a user",
    "setting": "a setting, such as postgresql.shared_buffers",
    "team": "id of a team",
    "since": "the first day",
    "until": "the last day",
    "cursor": "`older` of an answer",
}


class TimelineViewSet(viewsets.ViewSet):
    """Decisions, what became of them, and campaigns that ended, newest first."""

    @extend_schema(
        parameters=[OpenApiParameter(name, description=description) for name, description in ASKED.items()],
        responses=TimelineSerializer,
    )
    def retrieve(self, request: Request) -> Response:
        form = TimelineForm(request.query_params)
        criteria = form.criteria()
        if form.errors:
            raise ValidationError({name: [str(error) for error in errors] for name, errors in form.errors.items()})
        return Response(TimelineSerializer(entries.timeline(criteria, request.query_params.get("cursor", ""))).data)


class SearchViewSet(viewsets.ViewSet):
    """Decisions, comments, campaigns, profiles, hosts, workloads and recipes, by their words; best first."""

    @extend_schema(parameters=[SearchedSerializer], responses=HitSerializer(many=True))
    def retrieve(self, request: Request) -> Response:
        query = query_of(request, SearchedSerializer)
        hits = full_text.search(query["q"], query.get("kind", ""))
        return Response(HitSerializer(hits, many=True).data)


class PlaceSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text="page, action, run, setting, search, or a kind of search result")
    title = serializers.CharField()
    path = serializers.CharField(help_text="address of its page on this server")
    detail = serializers.CharField(allow_blank=True)


class PaletteViewSet(viewsets.ViewSet):
    """Destinations for a typed text, for the palette on Ctrl-K: only what the user may open, exact titles first."""

    @extend_schema(
        parameters=[OpenApiParameter("q", description="the beginning of one or more words")],
        responses=PlaceSerializer(many=True),
    )
    def retrieve(self, request: Request) -> Response:
        matches = palette.find(request.query_params.get("q", ""), user_of(request))
        return Response(PlaceSerializer(matches, many=True).data)


class FeedViewSet(viewsets.ViewSet):
    """The timeline as an Atom feed, for readers that cannot log in."""

    roles = {"create": Role.VIEWER, "destroy": Role.VIEWER}

    @extend_schema(request=None, responses={201: FeedSerializer})
    def create(self, request: Request) -> Response:
        """A new address; the one before stops working."""
        address = request.build_absolute_uri(feed.renew_feed(by=user_of(request)))
        return SecretResponse(FeedSerializer({"address": address}).data, ["address"], status.HTTP_201_CREATED)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request) -> Response:
        feed.drop_feed(by=user_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class WhyViewSet(viewsets.ViewSet):
    """Why is this 64 GB? The decisions that stand behind a setting, a profile, or what a host has."""

    @extend_schema(parameters=[WhyAskedSerializer], responses=WhySerializer(many=True))
    def retrieve(self, request: Request) -> Response:
        return Response(WhySerializer(decided_settings.behind(**query_of(request, WhyAskedSerializer)), many=True).data)
