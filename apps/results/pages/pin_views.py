"""The dashboard, the list of saved views, and their buttons."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from django import forms
from django.contrib import messages
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from apps.accounts.models import Role
from apps.accounts.services import user_of
from apps.results.explore import chart_addresses, pins
from apps.results.models import Pin
from apps.web.pages import UNPROCESSABLE, attempt, blame, keyset_page, needs, page, spoken
from common.errors import PlanError

SHOWN = 50


class PinForm(forms.Form):
    title = forms.CharField(
        max_length=160, widget=forms.TextInput(attrs={"autofocus": True}), help_text="what it shows, in one line"
    )
    note = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="why it is watched, or what to do when it changes",
    )
    dashboard = forms.BooleanField(required=False, initial=True, label="Show on the dashboard")


@needs(Role.VIEWER)
def dashboard(request: HttpRequest) -> HttpResponse:
    """Show the dashboard. ?moved=WAY-ID sets the focus on the button that moved a chart; browsers do not do that for
    a #fragment."""
    way, _, moved = request.GET.get("moved", "").partition("-")
    context = {"cards": pins.cards(pins.dashboard().select_related("by")), "moved": moved, "way": way}
    return page(request, "results/explore/dashboard.html", context)


@needs(Role.VIEWER)
def pin_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    rows = Pin.objects.select_related("by")
    matches = Q(title__icontains=query) | Q(note__icontains=query) | Q(shows__icontains=query)
    pins_page = keyset_page(request, rows.filter(matches) if query else rows, ("-at", "-pk"), SHOWN)
    return page(
        request, "results/explore/views.html", {"cards": pins.cards(pins_page.rows), "pages": pins_page, "q": query}
    )


@needs(Role.VIEWER)
def pin_go(request: HttpRequest, pk: int) -> HttpResponse:
    """Redirect the short link of a view."""
    return redirect(get_object_or_404(Pin, pk=pk).address)


@needs(Role.OPERATOR)
def pin_new(request: HttpRequest, chart: str, of: str) -> HttpResponse:
    """Save a view. The form gets the page's URL, with its choices after the name of the chart."""
    address = "?".join(filter(None, (quote(f"/{of}"), request.META["QUERY_STRING"])))
    try:
        place, shows = chart_addresses.complete(address, chart)
    except PlanError as error:
        answer = page(request, "results/explore/pin_form.html", {"refusal": spoken(error)})
        answer.status_code = UNPROCESSABLE
        return answer
    form = PinForm(request.POST or None, initial={"title": pins.short(shows)})
    if request.method == "POST" and form.is_valid():
        try:
            pin = pins.pin(by=user_of(request), address=place.address, chart=place.chart, **form.cleaned_data)
        except PlanError as error:
            blame(form, error)
        else:
            return _saved(request, pin)
    return page(request, "results/explore/pin_form.html", {"place": place}, form)


@needs(Role.OPERATOR)
def pin_edit(request: HttpRequest, pk: int) -> HttpResponse:
    pin = get_object_or_404(Pin, pk=pk)
    now = {"title": pin.title, "note": pin.note, "dashboard": pin.dashboard}
    form = PinForm(request.POST or None, initial=now)
    if request.method == "POST" and form.is_valid():
        try:
            pins.change(pin, by=user_of(request), **form.cleaned_data)
        except PlanError as error:
            blame(form, error)
        else:
            return _saved(request, pin)
    (card,) = pins.cards([pin])
    return page(request, "results/explore/pin_form.html", {"pin": pin, "place": card.place, "why": card.why}, form)


def _saved(request: HttpRequest, pin: Pin) -> HttpResponse:
    link = request.build_absolute_uri(reverse("pin_go", args=[pin.pk]))
    where = "is on the dashboard" if pin.dashboard else "is a saved view"
    messages.success(request, f"{pin} {where}. Its short link is {link}")
    return redirect(f"{reverse('dashboard')}#pin-{pin.pk}" if pin.dashboard else reverse("pin_list"))


@require_POST
@needs(Role.OPERATOR)
def pin_action(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    pin, by = get_object_or_404(Pin, pk=pk), user_of(request)
    if action in pins.WAYS:
        attempt(request, lambda: pins.move(pin, action, by=by), f"{pin} was moved {action}.")
        return redirect(f"{reverse('dashboard')}?{urlencode({'moved': f'{action}-{pk}'})}")
    if action != "remove":
        raise Http404(f"{action} is not one of {', '.join([*pins.WAYS, 'remove'])}")
    attempt(request, lambda: pins.remove(pin, by=by), f"{pin} was removed. The data that it showed are unchanged.")
    return redirect("dashboard" if pin.dashboard else "pin_list")


urlpatterns = [
    path("dashboard/", dashboard, name="dashboard"),
    path("views/", pin_list, name="pin_list"),
    path("v/<int:pk>/", pin_go, name="pin_go"),
    path("pins/<int:pk>/", pin_edit, name="pin_edit"),
    path("pins/<int:pk>/<slug:action>/", pin_action, name="pin_action"),
    path("pin/<slug:chart>/<path:of>", pin_new, name="pin_new"),
]
