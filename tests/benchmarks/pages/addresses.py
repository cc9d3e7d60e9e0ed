"""The requested pages: name -> address. Add a new page to `addresses` or `of_campaign`."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

API, LARGE = "/api/v1/", "cache-split"


def addresses() -> dict[str, str]:
    """The requested pages: name -> address. Add a new page here or to `of_campaign`."""
    from django.urls import reverse

    from apps.campaigns.models import Campaign
    from apps.web.keyset import cursor_at

    ended = Campaign.objects.filter(
        state="finished", recipe__in=("", LARGE), workload__name__in=("oltp", LARGE)
    ).order_by("-created_at", "-pk")
    large, usual = (ended.filter(recipe=recipe).select_related("host") for recipe in (LARGE, ""))
    host = usual[0].host
    other = usual.filter(workload=usual[0].workload, factors=usual[0].factors).exclude(host=host)[0].host
    deep = urlencode({"cursor": cursor_at(("-created_at", "-pk"), usual.reverse()[30])})
    return {
        "home": reverse("home"),
        "campaigns": reverse("campaign_list"),
        "campaigns, nearly the last": f"{reverse('campaign_list')}?{deep}",
        "hosts": reverse("host_list"),
        "host": reverse("host_detail", args=[host.name]),
        "host, its queue": reverse("host_queue", args=[host.name]),
        "host, what was run again and again": reverse("host_baselines", args=[host.name]),
        "timeline": reverse("timeline"),
        "timeline of a host": f"{reverse('timeline')}?host={host.pk}",
        "API campaigns": f"{API}campaigns/",
        "API campaigns, nearly the last": f"{API}campaigns/?{deep}",
        "API runs": f"{API}runs/",
        "API runs of a host": f"{API}runs/?host={host.pk}",
        "dashboard": reverse("dashboard"),
        **of_comparison("two hosts compared", [f"host:{each.name}" for each in (host, other)]),
        **of_campaign("campaign", usual[0]),
        **(of_campaign(f"campaign of {large[0].runs.count()}", large[0]) if large else {}),
    }


def of_campaign(name: str, campaign: Any) -> dict[str, str]:
    from django.urls import reverse

    from apps.web.keyset import cursor_at

    last, *_, nearly = campaign.runs.order_by("-position")[:20]
    labels = list(dict.fromkeys(run.label for run in campaign.runs.filter(outcome="ok").order_by("position")[:100]))
    page, key = reverse("campaign_detail", args=[campaign.pk]), campaign.pk
    runs = urlencode({"campaign": key, "cursor": cursor_at(("campaign_id", "position", "pk"), nearly)})
    return {
        name: page,
        f"{name}, its last runs": f"{page}?after={nearly.position}",
        f"{name}, its chart as a table": f"{page}?view=table",
        f"{name}, chart.json": reverse("campaign_figure", args=[key]),
        f"{name}, explored": reverse("campaign_explore", args=[key]),
        f"{name}, explored, chart.json": reverse("campaign_explore_figure", args=[key]),
        **of_comparison(f"{name}, two levels compared", [f"level:{key}:{label}" for label in labels[:2]]),
        f"{name}, its last run": reverse("run_detail", args=[last.pk]),
        f"API {name}": f"{API}campaigns/{key}/",
        f"API {name}, results": f"{API}campaigns/{key}/results/",
        f"API {name}, runs": f"{API}runs/?campaign={key}",
        f"API {name}, its last runs": f"{API}runs/?{runs}",
        f"API {name}, measurements": f"{API}measurements/?campaign={key}",
    }


def of_comparison(name: str, sides: list[str]) -> dict[str, str]:
    from django.urls import reverse

    query = urlencode({"of": sides}, doseq=True)
    return {
        name: f"{reverse('compare')}?{query}",
        f"{name}, chart.json": f"{reverse('compare_figure', args=['runs'])}?{query}",
    }
