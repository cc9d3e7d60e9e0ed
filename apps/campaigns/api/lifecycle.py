"""Actions on existing campaigns, their history and their checks, as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Role
from apps.accounts.services import user_of
from apps.campaigns import archiving, lifecycle
from apps.campaigns.api.serializers import CampaignSerializer, ChoicesSerializer, RenameSerializer
from apps.campaigns.design.before_start import validity
from apps.campaigns.history import history
from apps.campaigns.models import Campaign, Run
from apps.web.renamed_fields import with_earlier_names
from apps.web.rest import body_of


class HistorySerializer(serializers.Serializer[Any]):
    """An action on a campaign."""

    at = serializers.DateTimeField()
    who = serializers.CharField(help_text="empty: the server itself")
    what = serializers.CharField()
    detail = serializers.CharField()


@with_earlier_names(found="actual")
class CheckSerializer(serializers.Serializer[Any]):
    """A check before the start."""

    host = serializers.CharField()
    check = serializers.CharField()
    ok = serializers.BooleanField(help_text="false if it prevents the start")
    status = serializers.CharField(help_text="ok, doubtful (a warning only) or failed")
    actual = serializers.CharField(allow_blank=True)
    wanted = serializers.CharField(allow_blank=True)
    hint = serializers.CharField(allow_blank=True)
    field = serializers.CharField(
        allow_blank=True, help_text="the path that requires it, such as settings.huge_pages.pool; empty if none"
    )
    value = serializers.CharField(allow_blank=True, help_text="the value at that path")


class PauseSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(required=False, default="", allow_blank=True, max_length=500)
    stop = serializers.BooleanField(
        required=False,
        default=False,
        help_text="stop the active run and queue it again; otherwise it continues to its end",
    )


class RetrySerializer(serializers.Serializer[Any]):
    runs = serializers.PrimaryKeyRelatedField(
        queryset=Run.objects.select_related("campaign", "host"),
        many=True,
        required=False,
        help_text="ids; default: all failed runs that were not retried",
    )


class ExtendSerializer(serializers.Serializer[Any]):
    repetitions = serializers.IntegerField(
        required=False, min_value=1, max_value=1000, help_text="number of additional repetitions"
    )
    levels = serializers.DictField(
        child=serializers.ListField(child=serializers.JSONField()),
        required=False,
        help_text="factor -> levels to add, in the format of factors",
    )
    budget_h = serializers.FloatField(required=False, min_value=0.01, help_text="hours, replacing the old budget")


class LifecycleActions(viewsets.GenericViewSet[Campaign]):
    """Actions on existing campaigns."""

    writers = dict.fromkeys(
        (
            "pause",
            "resume",
            "clone",
            "extend",
            "retry",
            "ask_hosts",
            "partial_update",
            "archive",
            "unarchive",
            "destroy",
        ),
        Role.OPERATOR,
    )

    @extend_schema(request=RenameSerializer, responses=CampaignSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change the name or the question. The design of a campaign cannot change: clone the campaign instead."""
        return self._changed(request, archiving.rename_campaign, RenameSerializer)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Delete a draft. A campaign that was started cannot be deleted: archive it instead."""
        archiving.delete_campaign(self.get_object(), by=user_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(request=None, responses=CampaignSerializer)
    @action(detail=True, methods=["post"])
    def archive(self, request: Request, pk: str) -> Response:
        """Hide a campaign that has ended from the lists. Its results, decisions and links remain."""
        return self._changed(request, archiving.archive_campaign)

    @extend_schema(request=None, responses=CampaignSerializer)
    @action(detail=True, methods=["post"])
    def unarchive(self, request: Request, pk: str) -> Response:
        """Show an archived campaign in the lists again."""
        return self._changed(request, archiving.unarchive_campaign)

    @extend_schema(request=PauseSerializer, responses=CampaignSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        """Start no new runs. Active runs continue to their end, or are stopped and queued again."""
        return self._changed(request, lifecycle.pause_campaign, PauseSerializer)

    @extend_schema(request=None, responses=CampaignSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        """Continue a paused campaign."""
        return self._changed(request, lifecycle.resume_campaign)

    @extend_schema(request=ExtendSerializer, responses=CampaignSerializer)
    @action(detail=True, methods=["post"])
    def extend(self, request: Request, pk: str) -> Response:
        """Add repetitions, or levels of a factor, as whole new blocks. A finished campaign runs again."""
        return self._changed(request, lifecycle.extend_campaign, ExtendSerializer)

    @extend_schema(request=RetrySerializer, responses=CampaignSerializer)
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, pk: str) -> Response:
        """Retry failed runs. The failed runs remain, and the retries replace them in the results."""
        return self._changed(request, lifecycle.retry_failed, RetrySerializer)

    @extend_schema(request=ChoicesSerializer, responses={201: CampaignSerializer})
    @action(detail=True, methods=["post"])
    def clone(self, request: Request, pk: str) -> Response:
        """Create a draft with the choices of this campaign. Given fields replace them."""
        body = body_of(request, ChoicesSerializer)
        made = lifecycle.clone_campaign(self.get_object(), by=user_of(request), **body)
        return Response(CampaignSerializer(made).data, status=status.HTTP_201_CREATED)

    @extend_schema(responses=HistorySerializer(many=True))
    @action(detail=True, pagination_class=None, filter_backends=[])
    def history(self, request: Request, pk: str) -> Response:
        """The history of the campaign, oldest first."""
        return Response(HistorySerializer(history(self.get_object()), many=True).data)

    @extend_schema(responses=CheckSerializer(many=True))
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[], serializer_class=CheckSerializer)
    def checks(self, request: Request, pk: str) -> Response:
        """Checks before the start, from the known facts of the hosts."""
        return Response(CheckSerializer(validity.checks(self.get_object()), many=True).data)

    @extend_schema(request=None, responses=CheckSerializer(many=True))
    @checks.mapping.post
    def ask_hosts(self, request: Request, pk: str) -> Response:
        """The checks with facts that are read now, and with scripts checked by the tools of the host."""
        return Response(CheckSerializer(validity.ask(self.get_object(), by=user_of(request)), many=True).data)

    def _changed(
        self, request: Request, act: Callable[..., Any], body: type[serializers.Serializer[Any]] | None = None
    ) -> Response:
        """Return the campaign after an action of lifecycle.py, which gets the fields of `body`."""
        serializer = body(data=request.data) if body else None
        if serializer is not None:
            serializer.is_valid(raise_exception=True)
        campaign = self.get_object()
        act(campaign, by=user_of(request), **(serializer.validated_data if serializer is not None else {}))
        return Response(CampaignSerializer(campaign).data)
