"""Sessions as Django keeps them in the database, and whose each is, since when and from where: what a list of one's own
needs, and what ends one. settings.SESSION_ENGINE names this module."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from apps.accounts.models import Session, User
from apps.accounts.services import audit

# No write for every page: somebody who was here five minutes ago is here.
SEEN_EVERY = timedelta(minutes=5)
ADDRESS, AGENT = "_address", "_agent"


class SessionStore(DatabaseStore):
    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session

    def create_model_instance(self, data: dict[str, Any]) -> Session:
        row: Session = super().create_model_instance(data)  # type: ignore[assignment]
        row.user_id = int(data[SESSION_KEY]) if SESSION_KEY in data else None
        row.address, row.agent = data.get(ADDRESS) or None, data.get(AGENT, "")
        known = Session.objects.filter(session_key=row.session_key).values_list("public", "created_at").first()
        if known:  # a save writes every column
            row.public, row.created_at = known
        return row

    def _get_session_from_db(self) -> Session | None:
        row: Session | None = super()._get_session_from_db()  # type: ignore[misc]  # not in the stubs
        if row and row.seen_at < timezone.now() - SEEN_EVERY:
            Session.objects.filter(pk=row.pk).update(seen_at=timezone.now())
        return row


def note(request: HttpRequest) -> None:
    """At the login: from where, and with what."""
    request.session[ADDRESS] = request.META.get("REMOTE_ADDR", "")
    request.session[AGENT] = request.headers.get("User-Agent", "")[:300]


def of(user: User) -> QuerySet[Session]:
    """Those that are open, the one that was used last first."""
    return Session.objects.filter(user=user, expire_date__gt=timezone.now()).order_by("-seen_at")


@transaction.atomic
def end(session: Session, *, by: User) -> None:
    """Log it out, wherever it is; of one's own only, which the caller's query sees to."""
    session.delete()
    audit(by, "session.end", session, before={"address": session.address, "agent": session.agent})


@transaction.atomic
def end_others(user: User, key: str | None) -> int:
    """Log out everywhere but here: how many there were."""
    count, _ = of(user).exclude(session_key=key).delete()
    audit(user, "session.end_others", user, after={"sessions": count})
    return count
