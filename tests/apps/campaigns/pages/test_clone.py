"""A clone is a new draft with every choice of the old one, and may be edited before it is saved."""

from __future__ import annotations

from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns import lifecycle, services
from apps.campaigns.history import history
from apps.campaigns.models import Campaign
from tests.rows.factories import browser, make_campaign, make_profile

NOT_CHOSEN = {
    *(
        "id",
        "name",
        "kind",
        "state",
        "state_reason",
        "created_by",
        "created_at",
        "started_by",
        "started_at",
        "ended_at",
    ),
    *("cloned_from", "open_blocks", "forgiven_failures", "extensions", "recipe"),
}


def choices(campaign: Campaign) -> dict[str, object]:
    fields = {field.name for field in Campaign._meta.get_fields() if field.concrete and not field.many_to_many}
    return {name: getattr(campaign, name) for name in fields - NOT_CHOSEN}


def test_a_clone_has_every_choice_and_no_results(admin: User) -> None:
    old = make_campaign(
        Campaign.State.FINISHED, by=admin, profile=make_profile(), budget_h=2.0, max_failures=3, delta=0.05, priority=4
    )

    new = lifecycle.clone_campaign(old, by=admin)

    assert choices(new) == choices(old)
    assert (new.state, new.cloned_from, new.name) == (Campaign.State.DRAFT, old, f"{old.name} (copy)")
    assert not new.runs.exists()
    services.start_campaign(new, by=admin)
    assert [run.digest for run in new.runs.all()] == [run.digest for run in old.runs.all()]


def test_both_histories_have_the_clone(admin: User) -> None:
    old = make_campaign(by=admin)

    new = lifecycle.clone_campaign(old, by=admin, name="afresh")

    assert (history(old)[-1].what, history(old)[-1].detail) == ("was cloned", "into afresh")
    assert history(new)[0].detail == "as a clone, seed 1"


def test_the_api_clones_with_changed_fields(admin: User) -> None:
    old = make_campaign(Campaign.State.FINISHED, by=admin)

    answer = browser(admin).post(f"/api/v1/campaigns/{old.pk}/clone/", {"repetitions": 7, "seed": 9}, format="json")

    made = answer.json()
    assert answer.status_code == 201
    assert (made["repetitions"], made["seed"], made["cloned_from"], made["state"]) == (7, 9, str(old.pk), "draft")


def test_the_form_of_a_clone_is_filled_in_and_its_changes_count(admin: User, client: Client) -> None:
    old = make_campaign(Campaign.State.FINISHED, by=admin, profile=make_profile(), delta=0.05, max_failures=3)
    client.force_login(admin)
    form = client.get(reverse("campaign_new"), {"from": old.pk})
    rows = form.context["rows"]
    shown = {name: form.context["form"][name].value() for name in form.context["form"].fields}
    typed = {name: getattr(value, "pk", value) for name, value in shown.items() if value not in (None, "")}
    typed |= {name: [getattr(row, name) for row in rows] for name in ("factor", "level", "path", "value")}

    client.post(reverse("campaign_new"), typed | {"from": old.pk, "repetitions": "7", "profile": ""})

    new = Campaign.objects.get(cloned_from=old)
    assert choices(new) == choices(old) | {"repetitions": 7, "profile": None}


def test_a_rule_is_typed_and_shown_again_in_the_form_of_a_clone(admin: User, client: Client) -> None:
    rule = {
        "until": "width",
        "between": [{"server cpus": "1 cpu"}, {"server cpus": "2 cpus"}],
        "width": 0.04,
        "least": 3,
    }
    old = make_campaign(by=admin, stop=rule, nuisance={"cool_down_s": 2})
    client.force_login(admin)
    form = client.get(reverse("campaign_new"), {"from": old.pk})
    shown = {name: form.context["form"][name].value() for name in form.context["form"].fields}
    assert (shown["first"], shown["second"], shown["width"]) == ("1 cpu", "2 cpus", 4.0)
    typed = {name: getattr(value, "pk", value) for name, value in shown.items() if value not in (None, "", False)}
    typed |= {
        name: [getattr(row, name) for row in form.context["rows"]] for name in ("factor", "level", "path", "value")
    }

    refused = client.post(reverse("campaign_new"), typed | {"from": old.pk, "second": "9 cpus"})
    client.post(reverse("campaign_new"), typed | {"from": old.pk})

    assert (refused.status_code, list(refused.context["form"].errors)) == (422, ["second"])
    new = Campaign.objects.get(cloned_from=old)
    assert (new.stop, new.nuisance, new.open_blocks) == (rule, {"cool_down_s": 2}, 3)
