"""The page of a twin leads to a campaign that runs it."""

from __future__ import annotations

import re

import pytest
from django.core.files.base import ContentFile
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns.models import Campaign
from tests.rows.factories import make_campaign, make_twin

pytestmark = pytest.mark.django_db


def test_a_new_campaign_from_a_twin_has_its_workload_and_its_data_set(client: Client, tuner: User) -> None:
    twin = make_twin()
    client.force_login(tuner)
    page = client.get(reverse("twin_detail", args=[twin.pk])).content.decode()
    link = re.search(r'href="([^"]+)">New campaign<', page)
    assert link

    form = client.get(link[1].replace("&amp;", "&")).context["form"]

    assert (form["workload"].value(), form["dataset"].value()) == (twin.workload_id, twin.dataset_id)


def test_an_unknown_twin_leaves_the_form_empty(client: Client, tuner: User) -> None:
    client.force_login(tuner)

    form = client.get(reverse("campaign_new"), {"scratch": "1", "twin": "²"}).context["form"]

    assert form["workload"].value() is None


def test_the_page_of_a_twin_lists_the_campaigns_that_ran_it(client: Client, tuner: User) -> None:
    twin = make_twin()
    client.force_login(tuner)
    address = reverse("twin_detail", args=[twin.pk])
    assert "No campaign has run this twin." in client.get(address).content.decode()
    campaign = make_campaign(Campaign.State.FINISHED, name="Twin of the shop")
    Campaign.objects.filter(pk=campaign.pk).update(workload=twin.workload, dataset=twin.dataset)

    assert "Twin of the shop" in client.get(address).content.decode()


def test_pages_of_twins_belong_to_the_workloads(client: Client, tuner: User) -> None:
    client.force_login(tuner)

    page = client.get(reverse("twin_list")).content.decode()

    assert f'<a href="{reverse("workload_list")}" aria-current="true">' in page


def test_after_an_error_the_form_asks_for_the_file_again(client: Client, tuner: User) -> None:
    client.force_login(tuner)
    first = client.get(reverse("twin_add")).content.decode()

    page = client.post(reverse("twin_add"), {"file": ContentFile(b"{}", name="shop.jsonl")}).content.decode()

    assert "choose the file again" in page and "choose the file again" not in first
