"""The audit log is written in the same transaction as the change, and cannot be changed even with SQL."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, transaction

from apps.accounts.models import AuditEntry, Role, User
from apps.accounts.services import audit
from apps.accounts.tokens.lifecycle import issue_token
from apps.campaigns.models import Campaign
from common.errors import PlanError
from tests.rows.factories import browser, make_campaign, make_host


@pytest.mark.parametrize("sql", ["UPDATE accounts_auditentry SET action = 'x'", "DELETE FROM accounts_auditentry"])
def test_rows_can_neither_be_changed_nor_deleted(sql: str, admin: User) -> None:
    audit(admin, "host.add", "db1")

    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)

    assert AuditEntry.objects.get().action == "host.add"


def test_an_act_through_the_api_is_audited_with_its_actor(operator: User) -> None:
    campaign = make_campaign(by=None, host=make_host())

    browser(operator).post(f"/api/v1/campaigns/{campaign.pk}/start/")

    entry = AuditEntry.objects.get(action="campaign.start")
    assert entry.actor == operator
    assert entry.after == {"id": str(campaign.pk), "runs": 6, "unchecked": ""}


def test_an_act_that_fails_leaves_no_row(operator: User) -> None:
    campaign = make_campaign(Campaign.State.FINISHED)
    before = AuditEntry.objects.count()

    assert browser(operator).post(f"/api/v1/campaigns/{campaign.pk}/cancel/").status_code == 400

    assert AuditEntry.objects.count() == before


def test_a_refused_token_leaves_no_row(viewer: User) -> None:
    with pytest.raises(PlanError):
        issue_token(viewer, " ", Role.VIEWER)

    assert not AuditEntry.objects.exists()
