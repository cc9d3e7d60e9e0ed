"""Pages of recipes: by topic or search, with their duration on a host; and the recipes of the team."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from apps.accounts.models import Role
from apps.accounts.services import user_of
from apps.campaigns.library import own_recipes, recipe_hosts
from apps.campaigns.models import Campaign
from apps.campaigns.recipes.reading import LARGEST
from apps.campaigns.recipes.topics import OTHER, TOPICS, by_topic, matches
from apps.hosts.models import Host
from apps.request_values import whole
from apps.web.pages import attachment, attempt, needs, page, row_in_url, sentence
from common.errors import PlanError


class RecipeForm(forms.Form):
    """A recipe as text or file. A file replaces the text."""

    yaml = forms.CharField(
        required=False,
        max_length=LARGEST,
        strip=False,
        label="YAML",
        widget=forms.Textarea(attrs={"rows": 28, "spellcheck": "false", "class": "mono"}),
    )
    file = forms.FileField(required=False, label="Or a file", help_text="NAME.yaml, at most 64 KiB")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("file"):
            cleaned["yaml"] = self._read(cleaned["file"])
        elif not cleaned.get("yaml", "").strip() and not self.errors:
            self.add_error("yaml", "Paste a recipe, or choose a file.")
        return cleaned

    def _read(self, file: Any) -> str:
        if file.size > LARGEST:
            self.add_error("file", f"The file has {file.size} bytes; at most {LARGEST} are accepted.")
            return ""
        try:
            return bytes(file.read()).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self.add_error("file", f"The file is not UTF-8: {error}.")
            return ""


def choice(request: HttpRequest, *, choosing: bool) -> HttpResponse:
    """Show recipes by topic, or those that match `?q=` and `?topic=`. With a host, each one loads its duration when
    it becomes visible."""
    hosts = list(Host.objects.filter(facts_history__isnull=False).distinct().order_by("name"))
    query, topic_param = request.GET.get("q", "").strip(), request.GET.get("topic", "")
    topic = topic_param if topic_param in TOPICS else ""
    every = own_recipes.catalogue().values()
    listed = [each for each in every if matches(each, query) and topic in ("", each.get("topic", OTHER))]
    context = {
        "topics": TOPICS,
        "query": query,
        "topic": topic,
        "groups": by_topic(listed),
        "listed": len(listed),
        "total": len(every),
        "hosts": hosts,
        "host": _host(hosts, request.GET.get("host")),
        "choosing": choosing,
    }
    return page(request, "campaigns/recipes/list.html", context)


def _host(hosts: list[Host], key: str | None) -> int | str:
    """Return the key of the chosen host; that of the only one if none was chosen; else ""."""
    if key is None and len(hosts) == 1:
        return hosts[0].pk
    return next((host.pk for host in hosts if str(host.pk) == key), "")


@needs(Role.VIEWER)
def recipe_list(request: HttpRequest) -> HttpResponse:
    return choice(request, choosing=False)


@needs(Role.VIEWER)
def recipe_hours(request: HttpRequest, name: str, host: int) -> HttpResponse:
    """Show how many runs a recipe would have on a host and how long they would take, or why the host cannot run it."""
    recipe, on = own_recipes.find(name), get_object_or_404(Host, pk=host)
    if recipe is None:
        raise Http404(name)
    try:
        context: dict[str, Any] = {"planned": recipe_hosts.preview(recipe, on)}
    except PlanError as error:
        context = {"refusal": sentence("", error)}
    return page(request, "campaigns/recipes/_hours.html", context | {"on": on})


@needs(Role.VIEWER)
def recipe_file(request: HttpRequest, name: str) -> HttpResponse:
    """Download the YAML. `?version=` selects one of a team's recipe."""
    text = own_recipes.text_of(name, whole(request.GET.get("version", "")))
    if text is None:
        raise Http404(name)
    return attachment(f"{name}.yaml", text)


@needs(Role.TUNER)
def recipe_add(request: HttpRequest) -> HttpResponse:
    """Save a recipe. `?campaign=` starts with the design of a campaign, `?from=` with another recipe."""
    form = RecipeForm(request.POST, request.FILES) if request.method == "POST" else RecipeForm(initial=_begun(request))
    if form.is_bound and form.is_valid():
        try:
            row = own_recipes.import_recipe(form.cleaned_data["yaml"], by=user_of(request))
        except PlanError as error:
            form.add_error("yaml", sentence(error.subject, error))
        else:
            messages.success(request, f"Recipe {row} is imported.")
            return redirect(f"{reverse('recipe_list')}#{row.name}")
    return page(request, "campaigns/recipes/form.html", {}, form)


@require_POST
@needs(Role.TUNER)
def recipe_withdraw(request: HttpRequest, name: str) -> HttpResponse:
    done = f"Recipe {name} is withdrawn. Import it again to restore it."
    attempt(request, lambda: own_recipes.withdraw(name, by=user_of(request)), done)
    return redirect("recipe_list")


def _begun(request: HttpRequest) -> dict[str, str]:
    if request.GET.get("campaign"):
        return {"yaml": _of_campaign(request)}
    name = request.GET.get("from", "")
    text = own_recipes.text_of(name) if name else None
    return {"yaml": text} if text else {}


def _of_campaign(request: HttpRequest) -> str:
    try:
        return own_recipes.of_campaign(row_in_url(request, Campaign.objects.all(), "campaign"))
    except PlanError as error:
        raise Http404(str(error)) from error


urlpatterns = [
    path("recipes/", recipe_list, name="recipe_list"),
    path("recipes/add/", recipe_add, name="recipe_add"),
    path("recipes/<slug:name>.yaml", recipe_file, name="recipe_file"),
    path("recipes/<slug:name>/withdraw/", recipe_withdraw, name="recipe_withdraw"),
    path("recipes/<slug:name>/hours/<int:host>/", recipe_hours, name="recipe_hours"),
]
