"""Times in the time zone of a host."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from django import template
from django.utils import timezone

from apps.hosts.models import Host
from apps.hosts.usage.windows import local_time

register = template.Library()


@register.filter
def at_host(at: datetime, host: Host) -> str:
    """Return "18:00 EET" for today, "Mon 20:00 EET" within a week, else with the date."""
    return local_time(at, ZoneInfo(host.time_zone), timezone.now())
