"""Times in the time zone of a host, and sentences about its facts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django import template
from django.utils import timezone

from apps.hosts.models import Host
from apps.hosts.usage.windows import shown

register = template.Library()


@register.filter
def at_host(at: datetime, host: Host) -> str:
    """Return "18:00 EET" for today, "Mon 20:00 EET" within a week, else with the date."""
    return shown(at, ZoneInfo(host.time_zone), timezone.now())


@register.filter
def control_groups(cgroup: Mapping[str, Any]) -> str:
    """The version of a host's control groups and the controllers for runs: "version 2; runs can limit cpu, memory"."""
    version = "none" if cgroup["version"] == "none" else f"version {cgroup['version']}"
    if cgroup["version"] == "hybrid":
        version = f"version 2, with controllers left in version 1 ({', '.join(cgroup['legacy'])})"
    problem = f": {cgroup['problem']}" if cgroup.get("problem") else ""
    return f"{version}; runs can limit {', '.join(cgroup['controllers']) or f'nothing{problem}'}"
