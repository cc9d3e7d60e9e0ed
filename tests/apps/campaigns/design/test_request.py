"""Every choice of a campaign is a column, and is offered by the API and by the form."""

from __future__ import annotations

from dataclasses import MISSING, fields

import pytest

from apps.accounts.models import User
from apps.campaigns.api.serializers import API_NAMES, CampaignSerializer, NewCampaignSerializer
from apps.campaigns.design.request import CampaignDesign
from apps.campaigns.models import Campaign
from apps.campaigns.pages.forms import CampaignForm
from tests.rows.factories import make_campaign, make_host, make_profile

# The page has rows or several fields for these, and the recipe is part of its address.
OF_THE_PAGE = {"factors", "nuisance", "stop", "roles", "recipe"}
OF_THE_SERVER = {"recipe_version"}


@pytest.mark.parametrize("name", CampaignDesign.names())
def test_a_choice_is_a_column_with_its_default(name: str) -> None:
    column = Campaign._meta.get_field(name)
    choice = next(each for each in fields(CampaignDesign) if each.name == name)

    if choice.default is not MISSING and not column.many_to_many:
        assert choice.default == column.get_default()
    elif choice.default_factory is not MISSING and name != "seed":
        assert choice.default_factory() == column.get_default()


@pytest.mark.parametrize("name", CampaignDesign.names())
def test_a_choice_is_in_the_api_and_in_the_form(name: str) -> None:
    in_the_api = API_NAMES.get(name, name)
    assert in_the_api in CampaignSerializer.Meta.fields
    assert in_the_api in NewCampaignSerializer._declared_fields or name in OF_THE_SERVER
    assert name in CampaignForm.base_fields or name in OF_THE_PAGE | OF_THE_SERVER


def test_none_restores_a_default_and_other_choices_stay(admin: User) -> None:
    campaign = make_campaign(by=admin, profile=make_profile(), budget_h=2.0, stop={}, repetitions=4)

    changed = CampaignDesign.of(campaign).changed(budget_h=None, repetitions=None, seed=None, host=make_host())

    assert (changed.budget_h, changed.repetitions, changed.profile) == (None, 5, campaign.profile)
    assert changed.seed != campaign.seed


def test_an_unknown_choice_is_refused(admin: User) -> None:
    with pytest.raises(TypeError, match="repetition"):
        CampaignDesign.of(make_campaign(by=admin)).changed(repetition=4)
