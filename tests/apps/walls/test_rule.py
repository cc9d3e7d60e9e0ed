"""Each model that names a walled object is walled itself, so that no query forgets the rule."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest
from django.apps import apps
from django.db import models, transaction

from apps.accounts.models import ApiToken, Owned, Team, TrustedJob, Walled, walls
from apps.accounts.models.walls import Reader, hidden_rows, reading_as
from apps.campaigns.models import Artefact, Campaign, Run, RunEvent, RunPart
from apps.hosts.models import Host
from apps.results.models import Block, Measurement
from tests.apps.walls.conftest import Private
from tests.rows import filled
from tests.rows.factories import make_host

# Not walled, with the reason.
OWN = "shown to its owner only, and deleted when the owner can no longer see the team"
EXCEPTIONS = {ApiToken: OWN, TrustedJob: OWN}
# Fields in `behind` that may be empty.
OPTIONAL = [
    (model, model._meta.get_field(name))
    for model in apps.get_models()
    if issubclass(model, Walled)
    for name in model.behind
    if model._meta.get_field(name).null or model._meta.get_field(name).many_to_many
]


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
    """Their pages and endpoints ask `sees` or use VisibleKeyField."""
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


@pytest.mark.parametrize(("model", "joins"), [(Campaign, 0), (Run, 0), (Measurement, 1), (Block, 2)])
def test_keys_of_few_hidden_rows_are_listed_and_only_runs_and_series_are_joined(
    private: Private, model: type[Walled], joins: int
) -> None:
    """A correlated subquery in a condition with OR is executed for each row: one query took more than 35 s on a few
    hundred rows. A list of all hidden runs makes the query for one run read them all."""
    with reading_as(Reader(lambda: private.stranger.hidden_teams)):
        sql = str(model.objects.all().query)

    assert (sql.count("EXISTS"), " IN (SELECT " in sql) == (joins, False)
    assert private.campaign.pk.hex in sql.replace("-", "")


def test_keys_of_many_hidden_rows_are_selected_by_the_query(private: Private, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walls, "MOST_LISTED", 0)
    with reading_as(Reader(lambda: private.stranger.hidden_teams)):
        assert " IN (SELECT " in str(Run.objects.all().query)
        assert not Run.objects.exists() and not Campaign.objects.exists()


def test_another_user_of_the_same_request_has_other_keys(private: Private) -> None:
    reader = Reader(lambda: private.stranger.hidden_teams)
    with reading_as(reader):
        assert not Campaign.objects.exists()

        reader.change(lambda: private.member.hidden_teams)

    with reading_as(reader):
        assert list(Campaign.objects.all()) == [private.campaign]


def test_a_row_that_belongs_to_nothing_is_not_hidden(db: None) -> None:
    """NULL IN (SELECT ...) is NULL, so its negation would hide each row whose foreign key is NULL."""
    filled.team()
    team = Team.objects.create(name="secrets", private=True)
    _empty_some_fields()
    for owned in Owned.__subclasses__():
        owned._default_manager.update(team=team)

    for model, field in OPTIONAL:
        rows, savepoint = models.QuerySet(model), transaction.savepoint()
        condition = hidden_rows(model, frozenset({team.pk}))[model.behind.index(field.name)]
        if not rows.filter(condition).exists():
            rows.filter(pk=rows.values("pk")[:1]).update(**{field.name: models.QuerySet(field.related_model).first()})
        assert rows.filter(condition).exists(), field
        if not field.many_to_many and not rows.filter(**{field.name: None}).exists():
            rows.filter(pk=rows.order_by("-pk").values("pk")[:1]).update(**{field.name: None})

        visible = set(rows.exclude(condition).values_list("pk", flat=True))

        assert visible == set(rows.filter(**{field.name: None}).values_list("pk", flat=True)) != set(), field
        transaction.savepoint_rollback(savepoint)


def _empty_some_fields() -> None:
    """An event and an artefact of a part have no run, and most campaigns have no further host."""
    Campaign.objects.all()[0].further_hosts.add(make_host())
    run = Run.objects.all()[0]
    part = RunPart.objects.create(run=run, host=run.host, role="server", position=0, spec=run.spec)
    for model in (RunEvent, Artefact):
        rows = models.QuerySet(model)
        rows.filter(pk=rows.values("pk")[:1]).update(run=None, part=part)


def test_a_copy_of_a_queryset_belongs_to_the_request_of_the_original(private: Private) -> None:
    with reading_as(Reader(lambda: private.stranger.hidden_teams)):
        copied = copy.deepcopy(Host.objects.all())

        assert private.host not in copied.all()


@pytest.mark.thorough
def test_views_are_imported_before_the_first_request() -> None:
    """In a process of its own, where no test has imported them."""
    program = (
        "import sys, django; django.setup();"
        "from apps.web.walled import WalledMiddleware;"
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
