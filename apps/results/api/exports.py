"""Whole campaigns and runs as files."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import viewsets
from rest_framework.exceptions import NotFound
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from apps.campaigns.api.views import FileRenderer
from apps.campaigns.models import Run
from apps.results.exchange import downloads, exports
from apps.results.exchange.transfer import download


def _files(choices: dict[str, downloads.Export]) -> Any:
    """Each type that a file may have, without its charset."""
    types = sorted({choice.content_type.partition(";")[0] for choice in choices.values()})
    return {(200, kind): OpenApiTypes.OBJECT if kind == downloads.JSON else OpenApiTypes.BINARY for kind in types}


def _named(choices: dict[str, downloads.Export]) -> list[OpenApiParameter]:
    description = "; ".join(f"{name}: {each.about}" for name, each in choices.items())
    return [OpenApiParameter("file", str, OpenApiParameter.PATH, enum=list(choices), description=description)]


def _chosen(choices: dict[str, downloads.Export], file: str) -> downloads.Export:
    if file not in choices:
        raise NotFound(f"{file} is not one of {', '.join(choices)}")
    return choices[file]


class CampaignExportViewSet(viewsets.ViewSet):
    """Export a campaign as a file. The response is streamed."""

    renderer_classes = [JSONRenderer, FileRenderer]

    @extend_schema(parameters=_named(downloads.CAMPAIGN), responses=_files(downloads.CAMPAIGN))
    def retrieve(self, request: Request, campaign: UUID, file: str) -> HttpResponseBase:
        export = _chosen(downloads.CAMPAIGN, file)
        return download(export, get_object_or_404(exports.campaigns(), pk=campaign), file)


class RunExportViewSet(viewsets.ViewSet):
    """The series of a run as a file."""

    renderer_classes = [JSONRenderer, FileRenderer]

    @extend_schema(parameters=_named(downloads.RUN), responses=_files(downloads.RUN))
    def retrieve(self, request: Request, run: UUID, file: str) -> HttpResponseBase:
        return download(_chosen(downloads.RUN, file), get_object_or_404(Run, pk=run), file)
