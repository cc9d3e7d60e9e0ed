"""Save profiles, of which each change is a new revision; dry runs on hosts, and exports as files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from agents.settings import SETTINGS
from agents.wire.protocol import digest
from apps.accounts.models import Role, Team, User
from apps.accounts.services import audit, require, save
from apps.hosts import contact
from apps.hosts.models import Host
from apps.tuning import effects, rules
from apps.tuning.effects import DryRun
from apps.tuning.exports import FORMATS
from apps.tuning.models import Profile, Revision
from common.errors import PlanError


@transaction.atomic
def create_profile(
    name: str,
    settings: dict[str, Any],
    *,
    description: str = "",
    note: str = "",
    team: Team | None = None,
    by: User,
) -> Revision:
    """Create a profile with its first revision. `team`: its owner; None for all teams."""
    profile = Profile(name=name, description=description, team=team)
    require(by, Role.TUNER, "create profile", on=profile)
    save(profile)
    return revise(profile, settings, note=note, by=by)


@transaction.atomic
def revise(profile: Profile, settings: dict[str, Any], *, note: str = "", by: User) -> Revision:
    """Return the next revision of a profile, or the latest one if it is identical."""
    require(by, Role.TUNER, "revise profile", on=profile)
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


@dataclass(frozen=True)
class Preview:
    """A dry run, and how old the facts are that it was planned on; None if the host was queried now."""

    run: DryRun
    taken_at: datetime | None


def dry_run(settings: dict[str, Any], host: Host) -> Preview:
    """Return what these settings would change on this host, by its facts. PlanError if the host was never checked."""
    newest = host.facts_history.order_by("-number").first()
    if newest is None:
        raise PlanError("host", f"{host} was never checked", hint="check it first: its facts define what can be set")
    return Preview(effects.dry_run(newest.data, settings), host.last_contact_at or newest.taken_at)


def ask(settings: dict[str, Any], host: Host, *, by: User) -> Preview:
    """Return the same with values that are read from the host now. Connects to the host; changes nothing there."""
    require(by, Role.OPERATOR, "query the host", on=host)
    known = {name: requested for name, requested in settings.items() if name in SETTINGS}
    facts, observed = contact.discover(host, known)
    return Preview(effects.dry_run(facts, settings, observed), None)


def export(revision: Revision, host: Host, name: str) -> tuple[str, str]:
    """Return (file name, text) of a revision on a host in one of exports.FORMATS."""
    title = f"{revision} on {host}, sha256 {revision.digest[:12]}"
    suffix, text = exported_text(revision.settings, host, name, title)
    return f"{revision.profile.name}-r{revision.number}-{host}{suffix}", text


def exported_text(settings: dict[str, Any], host: Host, name: str, title: str) -> tuple[str, str]:
    """Return (file name suffix, text) of settings on a host. PlanError for an unknown format."""
    if name not in FORMATS:
        raise PlanError("format", f"{name!r} is not a format", hint=f"accepted: {', '.join(FORMATS)}")
    shape, preview = FORMATS[name], dry_run(settings, host)
    return shape.suffix, shape.render(title, preview.run)
