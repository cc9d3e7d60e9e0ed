"""Reservations of hosts: who may make and end them, and how long they last."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from apps.accounts.models import AuditEntry, Role, User
from apps.hosts.models import Host, Reservation
from apps.hosts.usage import reservations
from common.errors import PlanError, RoleError
from tests.rows.factories import browser, make_host, make_user

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def bench(db: None) -> Host:
    return make_host("bench")


def test_a_reservation_holds_until_its_time(bench: Host, operator: User) -> None:
    now = timezone.now()

    made = reservations.reserve(bench, now + 2 * HOUR, "firmware update", by=operator)

    assert reservations.in_force(bench, now + HOUR) == made
    assert reservations.in_force(bench, now + 3 * HOUR) is None
    entry = AuditEntry.objects.get(action="host.reserve")
    assert (entry.actor, entry.after["reason"]) == (operator, "firmware update")


def test_a_machine_with_two_names_is_reserved_under_both(bench: Host, operator: User) -> None:
    other = make_host("bench-again")
    Host.objects.filter(pk=other.pk).update(machine_id=bench.machine_id)
    other.refresh_from_db()

    made = reservations.reserve(bench, timezone.now() + HOUR, "mine", by=operator)

    assert reservations.in_force(other, timezone.now()) == made
    assert reservations.in_force(make_host("elsewhere"), timezone.now()) is None


def test_a_host_reserved_by_another_user_is_refused_with_the_name(bench: Host, operator: User) -> None:
    ana = make_user(Role.OPERATOR, "ana")
    reservations.reserve(bench, timezone.now() + HOUR, "firmware update", by=ana)

    with pytest.raises(PlanError, match=r"reserved by ana until .*: firmware update"):
        reservations.reserve(bench, timezone.now() + HOUR, "mine", by=operator)


def test_ones_own_reservation_is_replaced(bench: Host, operator: User) -> None:
    now = timezone.now()
    reservations.reserve(bench, now + 5 * HOUR, "long", by=operator)

    reservations.reserve(bench, now + HOUR, "shorter", by=operator)

    assert reservations.in_force(bench, now + 2 * HOUR) is None
    assert Reservation.objects.filter(ended_at=None).get().reason == "shorter"


@pytest.mark.parametrize("hours", [-1, 24 * 31])
def test_a_time_that_has_passed_or_is_too_far_ahead_is_refused(bench: Host, operator: User, hours: int) -> None:
    with pytest.raises(PlanError, match="until"):
        reservations.reserve(bench, timezone.now() + hours * HOUR, "x", by=operator)


def test_a_reservation_needs_a_reason(bench: Host, operator: User) -> None:
    with pytest.raises(PlanError, match="reason"):
        reservations.reserve(bench, timezone.now() + HOUR, "  ", by=operator)


def test_its_owner_gives_it_up_early(bench: Host, operator: User) -> None:
    reservations.reserve(bench, timezone.now() + HOUR, "x", by=operator)

    ended = reservations.give_up(bench, by=operator)

    assert reservations.in_force(bench, timezone.now()) is None
    assert ended.ended_by == operator
    assert AuditEntry.objects.filter(action="host.give_up", actor=operator).exists()


def test_only_its_user_or_an_admin_can_end_a_reservation(bench: Host, operator: User, admin: User) -> None:
    reservations.reserve(bench, timezone.now() + HOUR, "x", by=make_user(Role.OPERATOR, "ana"))

    with pytest.raises(RoleError):
        reservations.give_up(bench, by=operator)
    reservations.give_up(bench, by=admin)

    with pytest.raises(PlanError, match="not reserved"):
        reservations.give_up(bench, by=admin)


def test_a_viewer_reserves_nothing(bench: Host, viewer: User) -> None:
    with pytest.raises(RoleError):
        reservations.reserve(bench, timezone.now() + HOUR, "x", by=viewer)


def test_the_api_reserves_and_gives_up(bench: Host, operator: User) -> None:
    client, address = browser(operator), f"/api/v1/hosts/{bench.pk}/"
    until = (timezone.now() + HOUR).isoformat()

    made = client.post(f"{address}reserve/", {"until": until, "reason": "firmware"})

    assert (made.status_code, made.json()["by"]) == (201, operator.username)
    assert client.get(address).json()["reservation"]["reason"] == "firmware"
    assert client.post(f"{address}give-up/").json()["ended_at"]
    assert client.get(address).json()["reservation"] is None


def test_the_page_takes_the_time_by_the_clock_of_the_host(bench: Host, operator: User) -> None:
    Host.objects.filter(pk=bench.pk).update(time_zone="Asia/Tokyo")
    tomorrow = (timezone.now() + timedelta(days=1)).strftime("%Y-%m-%dT18:00")

    page = browser(operator).post(
        "/hosts/bench/reserve/", {"until": tomorrow, "reason": "firmware"}, format="multipart", follow=True
    )

    assert Reservation.objects.get().until.strftime("%H:%M") == "09:00"
    assert "firmware" in page.content.decode()
    assert "18:00 JST" in page.content.decode()
