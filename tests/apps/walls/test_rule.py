"""Each model that names a walled object is walled itself, so that no query forgets the rule."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest
from django.apps import apps

from apps.accounts.models import ApiToken, TrustedJob, Walled
from apps.accounts.models.walls import Reader, reading_as
from apps.hosts.models import Host
from apps.results.models import Measurement
from tests.apps.walls.conftest import Private

# Not walled, with the reason.
OWN = "shown to its owner only, and deleted when the owner can no longer see the team"
EXCEPTIONS = {ApiToken: OWN, TrustedJob: OWN}


def test_every_model_is_behind_each_walled_object_that_decides_who_sees_it() -> None:
    named = {
        model: {field.name for field in model._meta.get_fields() if _names_walled(field)} for model in apps.get_models()
    }

    not_walled = {model for model, fields in named.items() if fields and not issubclass(model, Walled)}

    assert not_walled == set(EXCEPTIONS)
    nothing = [each for each in named if issubclass(each, Walled) and not each.behind]
    assert {each.__name__ for each in nothing} == {
        "Team",
        "Pin",
    }  # Team is the wall; a pin names objects in its address


def test_only_fields_that_are_shown_separately_are_left_out() -> None:
    """Their pages and endpoints ask `sees` or use SeenKeyField."""
    left_out = {
        f"{model.__name__}.{field.name}"
        for model in apps.get_models()
        if issubclass(model, Walled)
        for field in model._meta.get_fields()
        if _names_walled(field) and field.name not in model.behind
    }

    assert left_out == {
        "Campaign.cloned_from",
        "Decision.hosts",  # hosts are left out one by one
        "Decision.supersedes",
        "Host.jump",
        "Run.facts",  # of its host
        "Run.host",  # a host of its campaign
        "Run.retry_of",  # of the same campaign
        "RunPart.facts",
        "RunPart.host",
        "DataUse.copy",  # on the host of its run
        "Standing.campaign",
    }


def test_a_queryset_that_was_built_for_one_request_is_refused_in_another(private: Private) -> None:
    """Otherwise a view that stores it between requests would show the rows of the first user."""
    with reading_as(Reader(lambda: private.member.hidden_teams)):
        kept = Host.objects.all()
        assert list(kept) == [private.host]

    with (
        reading_as(Reader(lambda: private.stranger.hidden_teams)),
        pytest.raises(RuntimeError, match="another request"),
    ):
        kept.filter(name=private.host.name)


def test_subqueries_for_hidden_rows_do_not_refer_to_the_row_that_they_test(private: Private) -> None:
    """PostgreSQL would execute them for each row: one query took more than 35 s on a few hundred rows."""
    with reading_as(Reader(lambda: private.stranger.hidden_teams)):
        sql = str(Measurement.objects.all().query)

    assert " IN (SELECT " in sql
    assert sql.count("EXISTS") == 1  # hosts in the roles of a campaign are JSON


def test_a_copy_of_a_queryset_belongs_to_the_request_of_the_original(private: Private) -> None:
    with reading_as(Reader(lambda: private.stranger.hidden_teams)):
        copied = copy.deepcopy(Host.objects.all())

        assert private.host not in copied.all()


def test_views_are_imported_before_the_first_request() -> None:
    """In a process of its own, where no test has imported them."""
    program = (
        "import sys, django; django.setup();"
        "from apps.accounts.web.walled import WalledMiddleware;"
        "assert 'apps.hosts.api.views' not in sys.modules, 'imported too early to tell';"
        "WalledMiddleware(lambda request: None);"
        "assert 'apps.hosts.api.views' in sys.modules;"
        "assert 'apps.results.pages.views' in sys.modules"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def _names_walled(field: object) -> bool:
    """Whether a field of the model itself, not of another one that points to it, names a walled object."""
    related = getattr(field, "related_model", None)
    return not getattr(field, "auto_created", False) and isinstance(related, type) and issubclass(related, Walled)
