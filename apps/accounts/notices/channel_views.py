"""Notifications: the channels of the team, what one of them tells of, and the log of what was sent."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.views.decorators.http import require_POST

from apps.accounts.forms import ChannelForm
from apps.accounts.models import Channel, Delivery, Role, User
from apps.accounts.notices import channels
from apps.accounts.notices.kinds import CHANNELS
from apps.accounts.services import require, user_of
from apps.web.pages import attempt, blame, needs, page
from common.errors import ProvingError

LOG = 100


@needs(Role.VIEWER)
def channel_list(request: HttpRequest) -> HttpResponse:
    user = user_of(request)
    listed = list(Channel.objects.select_related("owner"))
    own = set(Channel.objects.editable_by(user).values_list("pk", flat=True))
    rows = [(channel, channel.address_for(user), channel.pk in own) for channel in listed]
    kinds = [kind for kind in CHANNELS.values() if user.may(Role.ADMIN) or not kind.for_admins]
    newest = Delivery.objects.visible_to(user).select_related("channel")[:LOG]
    return page(request, "accounts/channel_list.html", {"rows": rows, "deliveries": newest, "own": own, "kinds": kinds})


@needs(Role.VIEWER)
def channel_add(request: HttpRequest, kind: str) -> HttpResponse:
    """A webhook's secret is in this one answer and nowhere else, so it is no redirect."""
    user = user_of(request)
    if kind not in CHANNELS:
        raise Http404(f"{kind} is not one of {', '.join(CHANNELS)}")
    if CHANNELS[kind].for_admins:
        require(user, Role.ADMIN, f"set up a {CHANNELS[kind].noun}")
    first = {} if CHANNELS[kind].for_admins else {"address": user.email}
    form = ChannelForm(kind, request.POST or None, initial=first)
    if request.method == "POST" and form.is_valid():
        try:
            channel, secret = channels.create(by=user, kind=kind, **form.request())
        except ProvingError as error:
            blame(form, error)
        else:
            messages.success(request, f"{channel} is added. Send a test to check it.")
            return (
                _detail(request, channel, _form(channel), secret) if secret else redirect("channel_detail", channel.pk)
            )
    return page(request, "accounts/channel_form.html", {"kind": CHANNELS[kind]}, form)


@needs(Role.VIEWER)
def channel_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """One's own, or for an admin any: its fields, and what was sent to it."""
    channel = _own(user_of(request), pk)
    form = ChannelForm(channel.kind, request.POST, is_new=False) if request.method == "POST" else _form(channel)
    if request.method == "POST" and form.is_valid():
        try:
            channels.change(channel, by=user_of(request), **form.request())
        except ProvingError as error:
            blame(form, error)
        else:
            messages.success(request, "Saved.")
            return redirect("channel_detail", pk)
    return _detail(request, channel, form)


@require_POST
@needs(Role.VIEWER)
def channel_action(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    user = user_of(request)
    channel = _own(user, pk)
    if action == "renew-secret":
        return _detail(request, channel, _form(channel), channels.renew_secret(channel, by=user))
    actions = {
        "test": (
            lambda: channels.send_test(channel, by=user),
            "The test is being sent; the deliveries below show the result.",
        ),
        "switch-off": (lambda: channels.change(channel, by=user, active=False), f"{channel} is switched off."),
        "switch-on": (lambda: channels.change(channel, by=user, active=True), f"{channel} is switched on."),
    }
    if action not in actions:
        raise Http404(f"{action} is not one of {', '.join(actions)}")
    attempt(request, *actions[action])
    return redirect("channel_detail", pk)


@require_POST
@needs(Role.VIEWER)
def delivery_retry(request: HttpRequest, pk: UUID) -> HttpResponse:
    user = user_of(request)
    delivery = get_object_or_404(Delivery, pk=pk, channel__in=Channel.objects.editable_by(user))
    attempt(request, lambda: channels.retry(delivery, by=user), "The notification is being sent again.")
    return redirect("channel_detail", delivery.channel_id)


def _own(user: User, pk: int) -> Channel:
    channel = get_object_or_404(Channel.objects.select_related("owner"), pk=pk)
    if not Channel.objects.editable_by(user).filter(pk=pk).exists():
        raise PermissionDenied(f"This channel belongs to {channel.owner}; only its owner and admins can change it.")
    return channel


def _form(channel: Channel) -> ChannelForm:
    details = {f"details.{name}": value for name, value in channel.details.items()}
    initial = {"name": channel.name, "address": channel.address, "events": channel.events, **details}
    return ChannelForm(channel.kind, is_new=False, initial=initial)


def _detail(request: HttpRequest, channel: Channel, form: ChannelForm, secret: str = "") -> HttpResponse:
    context = {
        "channel": channel,
        "kind": CHANNELS[channel.kind],
        "deliveries": channel.deliveries.all()[:LOG],
        "secret": secret,
    }
    return page(request, "accounts/channel_detail.html", context, form)


urlpatterns = [
    path("notifications/", channel_list, name="channel_list"),
    path("notifications/add/<str:kind>/", channel_add, name="channel_add"),
    path("notifications/<int:pk>/", channel_detail, name="channel_detail"),
    path("notifications/<int:pk>/<str:action>/", channel_action, name="channel_action"),
    path("notifications/deliveries/<uuid:pk>/retry/", delivery_retry, name="delivery_retry"),
]
