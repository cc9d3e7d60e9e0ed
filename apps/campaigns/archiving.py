"""Rename, archive, unarchive and delete campaigns, one or many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import ProtectedError
from django.utils import timezone

from apps.accounts.models import Role, User
from apps.accounts.services import audit, require
from apps.campaigns import services
from apps.campaigns.models import Campaign
from common.errors import PlanError, ProvingError

LONGEST_NAME = 120
ENDED = (Campaign.State.FINISHED, Campaign.State.CANCELLED)


@transaction.atomic
def rename_campaign(campaign: Campaign, *, by: User, name: str | None = None, question: str | None = None) -> None:
    """Change the name or the question, or both. PlanError names the field that is empty or too long."""
    require(by, Role.OPERATOR, "rename campaign", on=campaign)
    locked = _locked(campaign)
    before = {"name": locked.name, "question": locked.question}
    after = {"name": _text("name", name, locked.name), "question": _text("question", question, locked.question)}
    if len(after["name"]) > LONGEST_NAME:
        raise PlanError("name", f"it has {len(after['name'])} characters", hint=f"at most {LONGEST_NAME}")
    if after != before:
        Campaign.objects.filter(pk=locked.pk).update(**after)
        audit(by, "campaign.rename", locked, before=before, after={"id": str(locked.pk), **after})
    campaign.refresh_from_db()


def _text(field: str, text: str | None, present: str) -> str:
    if text is None:
        return present
    if not text.strip():
        raise PlanError(field, "it is empty", hint=f"give the campaign a {field}")
    return text.strip()


@transaction.atomic
def archive_campaign(campaign: Campaign, *, by: User) -> None:
    """Hide the campaign from lists. Its results, decisions, links and exports do not change."""
    require(by, Role.OPERATOR, "archive campaign", on=campaign)
    locked = _locked(campaign)
    if locked.state not in ENDED:
        raise PlanError("state", f"{locked} is {locked.state}", hint="only a campaign that has ended can be archived")
    if locked.archived_at:
        raise PlanError("state", f"{locked} is archived already")
    _set_archived(locked, timezone.now(), "campaign.archive", by)
    campaign.refresh_from_db()


@transaction.atomic
def unarchive_campaign(campaign: Campaign, *, by: User) -> None:
    """Show the campaign in lists again."""
    require(by, Role.OPERATOR, "unarchive campaign", on=campaign)
    locked = _locked(campaign)
    if not locked.archived_at:
        raise PlanError("state", f"{locked} is not archived")
    _set_archived(locked, None, "campaign.unarchive", by)
    campaign.refresh_from_db()


def _set_archived(locked: Campaign, at: Any, action: str, by: User) -> None:
    Campaign.objects.filter(pk=locked.pk).update(archived_at=at)
    audit(by, action, locked, after={"id": str(locked.pk)})


@transaction.atomic
def delete_campaign(campaign: Campaign, *, by: User) -> None:
    """Delete a draft. A campaign that was started cannot be deleted, because decisions may be based on its results."""
    require(by, Role.OPERATOR, "delete campaign", on=campaign)
    locked = _locked(campaign)
    if locked.state != Campaign.State.DRAFT:
        raise PlanError("state", f"{locked} is {locked.state}", hint="only a draft can be deleted; archive the others")
    audit(by, "campaign.delete", locked, before={"id": str(locked.pk), "question": locked.question})
    try:
        locked.delete()
    except ProtectedError as error:
        message = f"a decision, a schedule or a search refers to {locked}"
        raise PlanError("state", message, hint="cancel it instead") from error


def _locked(campaign: Campaign) -> Campaign:
    return Campaign.objects.select_for_update(of=("self",)).get(pk=campaign.pk)


# Actions on several campaigns at once.
ACTIONS: dict[str, Callable[..., None]] = {
    "archive": archive_campaign,
    "unarchive": unarchive_campaign,
    "cancel": services.cancel_campaign,
    "delete": delete_campaign,
}


@dataclass
class Done:
    """The result of an action on several campaigns: names of changed ones, and reasons of the others."""

    changed: list[str] = field(default_factory=list)
    refused: list[tuple[str, ProvingError]] = field(default_factory=list)


def change_many(action: str, campaigns: Iterable[Campaign], *, by: User) -> Done:
    """Apply an action to each campaign. If one refuses, the others are changed anyway. PlanError for an unknown
    action."""
    if action not in ACTIONS:
        raise PlanError("action", f"{action!r:.40} is not known", hint=f"known are: {', '.join(ACTIONS)}")
    done = Done()
    for campaign in campaigns:
        try:
            ACTIONS[action](campaign, by=by)
        except ProvingError as error:
            done.refused.append((campaign.name, error))
        else:
            done.changed.append(campaign.name)
    return done


@transaction.atomic
def replace_draft(draft: Campaign, make: Callable[[], Campaign], *, by: User) -> Campaign:
    """Replace an edited draft by the campaign that `make` creates."""
    made = make()
    delete_campaign(draft, by=by)
    return made
