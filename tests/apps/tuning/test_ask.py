"""A dry run that reads this machine over SSH: present values are those of its kernel, and nothing is changed."""

from __future__ import annotations

from pathlib import Path

from django.test import Client
from django.urls import reverse

from agents.host.system import System
from agents.settings.base import current
from apps.accounts.models import User
from apps.hosts.models import Host
from apps.tuning import services
from tests.rows.factories import make_profile

THP = "/sys/kernel/mm/transparent_hugepage/enabled"
WANTED = {"transparent_huge_pages": {"enabled": "never"}, "cpu_affinity": {"server": "0"}}


def test_a_dry_run_may_read_current_values_from_the_host(host: Host, admin: User) -> None:
    before = Path(THP).read_text()

    preview = services.ask(WANTED, host, by=admin)

    assert preview.taken_at is None
    items = {item.key: item for item in preview.run.items}
    assert items[THP].present == current(System(), THP)
    affinity = next(effect for effect in preview.run.effects if effect.setting.name == "cpu_affinity")
    assert affinity.current["server"]
    assert Path(THP).read_text() == before


def test_the_button_replaces_the_values_with_those_read_from_the_host(host: Host, admin: User, client: Client) -> None:
    profile = make_profile(settings=WANTED, by=admin).profile
    client.force_login(admin)

    body = {"profile": profile.name, "host": host.pk}
    answer = client.post(reverse("dry_run"), body, headers={"HX-Request": "true"})

    page = answer.content.decode()
    assert "read from the host now" in page and "<html" not in page
    assert "Current state of each setting" in page
