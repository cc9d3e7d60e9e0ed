"""Writing profiles: each change is a new revision."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from agents import planning
from agents.errors import Unplannable
from agents.protocol import digest
from apps.accounts.models import Role, User
from apps.accounts.services import audit, require, save
from apps.errors import PlanError
from apps.hosts.models import Host
from apps.tuning import rules
from apps.tuning.models import Profile, Revision


@transaction.atomic
def create_profile(name: str, settings: dict[str, Any], *, description: str = "", note: str = "", by: User) -> Revision:
    """A new profile with its first revision."""
    require(by, Role.TUNER, "create profile")
    profile = Profile(name=name, description=description)
    save(profile)
    return revise(profile, settings, note=note, by=by)


@transaction.atomic
def revise(profile: Profile, settings: dict[str, Any], *, note: str = "", by: User) -> Revision:
    """The next revision of a profile, or the latest one when it already says the same."""
    require(by, Role.TUNER, "revise profile")
    rules.validate(settings)
    Profile.objects.select_for_update().get(pk=profile.pk)
    latest = profile.latest
    if latest and latest.digest == digest(settings):
        return latest
    revision = Revision.objects.create(
        profile=profile,
        number=latest.number + 1 if latest else 1,
        settings=settings,
        digest=digest(settings),
        note=note,
        author=by,
    )
    audit(by, "profile.revise", revision, before=latest.settings if latest else None, after=settings)
    return revision


def dry_run(settings: dict[str, Any], host: Host) -> list[str]:
    """The lines that a DBA could type to get these settings on this host. PlanError where the host cannot have them."""
    facts = host.facts
    if not facts:
        raise PlanError("host", f"{host} was never checked", hint="check it first: its facts decide what can be set")
    try:
        plans = planning.plan_settings(facts, settings)
    except Unplannable as error:
        raise PlanError(f"settings.{error.field}", f"{error.value!r} on {host}", hint=error.accepted) from error
    return [line for plan in plans.values() for line in plan.lines()]
