"""Take an id, make one call."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from apps.hosts import contact
from apps.hosts.models import Host


@shared_task(name="hosts.check")
def check(host_id: int) -> None:
    contact.check_host(Host.objects.get(pk=host_id))


@shared_task(name="hosts.release")
def release(host_id: int) -> None:
    contact.release_host(Host.objects.get(pk=host_id))


@shared_task(name="hosts.enqueue_checks")
def enqueue_checks() -> None:
    """Checks that are due, and checks and releases whose word got lost on the way."""
    for host_id in contact.claim_checks(timezone.now()):
        check.delay(host_id)
    for host_id in Host.objects.exclude(check_requested_at=None).values_list("pk", flat=True):
        check.delay(host_id)
    for host_id in Host.objects.exclude(release_requested_at=None).values_list("pk", flat=True):
        release.delay(host_id)
