"""Trusted CI jobs in the API, and the exchange of an ID token."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.attempts import CI_SIGN_INS
from apps.accounts.ci import jobs
from apps.accounts.models import Role, TrustedJob, User
from apps.accounts.services import user_of
from apps.accounts.tokens.token_api import TokenSerializer
from apps.web.rest import body_of
from common.errors import RoleError


class TrustedJobSerializer(serializers.ModelSerializer[TrustedJob]):
    class Meta:
        model = TrustedJob
        fields = ["id", "name", "issuer", "claims", "role", "scopes", "team", "minutes", "created_at", "last_used_at"]
        read_only_fields = fields


class ExchangeSerializer(serializers.Serializer[Any]):
    job = serializers.IntegerField(min_value=1, max_value=2**31 - 1, help_text="number of the trusted job")
    id_token = serializers.CharField(
        max_length=16384, help_text="ID token of the job, with the address of this server as its audience"
    )


class TrustedJobViewSet(mixins.ListModelMixin, mixins.DestroyModelMixin, viewsets.GenericViewSet[TrustedJob]):
    """Your trusted CI jobs. The page Account adds them, because that needs a login."""

    queryset = TrustedJob.objects.none()
    serializer_class = TrustedJobSerializer
    ordering_fields = ["name", "created_at", "last_used_at"]
    roles = {"destroy": Role.VIEWER}

    def get_queryset(self) -> QuerySet[TrustedJob]:
        if not isinstance(self.request.user, User):
            return TrustedJob.objects.none()
        return TrustedJob.objects.filter(user=self.request.user)

    def perform_destroy(self, instance: TrustedJob) -> None:
        jobs.distrust(instance, by=user_of(self.request))


class ExchangeView(APIView):
    """Exchange the ID token of a CI job for an API token."""

    authentication_classes: list[Any] = []
    permission_classes = [AllowAny]

    @extend_schema(request=ExchangeSerializer, responses={201: TokenSerializer}, auth=[])
    def post(self, request: Request) -> Response:
        """Exchange the ID token of a CI job for an API token that is valid for some minutes. It works once for each ID
        token."""
        if wait_s := CI_SIGN_INS.wait_s(request._request):
            raise RoleError("CI sign-in", "too many refused ID tokens from this address", hint=f"wait {wait_s} s")
        body = body_of(request, ExchangeSerializer)
        try:
            token, secret = jobs.exchange(body["job"], body["id_token"], str(request.META.get("REMOTE_ADDR", "")))
        except RoleError:
            CI_SIGN_INS.count(request._request)
            raise
        return Response(TokenSerializer(token).data | {"secret": secret}, status=status.HTTP_201_CREATED)
