"""Take an id, make one call."""

from __future__ import annotations

from celery import shared_task

from apps.hosts import contact
from apps.hosts.models import Host


@shared_task(name="hosts.check")
def check(host_id: int) -> None:
    contact.check_host(Host.objects.get(pk=host_id))
