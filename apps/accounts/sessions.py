"""Django's database sessions with their user, start and address, so that users can list and end their own sessions.
settings.SESSION_ENGINE names this module.

A row has only the hash of its key. The key itself is in the cookie, so a backup or a query reveals no usable session.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from apps.accounts.models import Session, Teams, User, unjoined_teams
from apps.accounts.services import audit, beyond_token

# Saves a write for each page: a time within five minutes is accurate enough.
SEEN_EVERY = timedelta(minutes=5)
ADDRESS, AGENT = "_address", "_agent"


def digest(key: str) -> str:
    """Return the stored hash of a session's key: 160 bits of SHA-256, because the column has 40 characters."""
    return hashlib.sha256(key.encode()).hexdigest()[:40]


class SessionStore(DatabaseStore):
    # The user of the row, and the private teams of which that user is not a member.
    unjoined_teams: tuple[int | None, Teams] | None = None

    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session

    def create_model_instance(self, data: dict[str, Any]) -> Session:
        row: Session = super().create_model_instance(data)  # type: ignore[assignment]
        row.session_key = digest(row.session_key)
        row.user_id = int(data[SESSION_KEY]) if SESSION_KEY in data else None
        row.address, row.agent = data.get(ADDRESS) or None, data.get(AGENT, "")
        known = Session.objects.filter(session_key=row.session_key).values_list("public", "created_at").first()
        if known:  # a save writes every column
            row.public, row.created_at = known
        return row

    def exists(self, session_key: str) -> bool:
        return super().exists(digest(session_key))

    def delete(self, session_key: str | None = None) -> None:
        key = session_key or self.session_key
        if key:
            super().delete(digest(key))

    def _get_session_from_db(self) -> Session | None:
        now = timezone.now()
        row = _find(digest(self.session_key or ""), now)
        if row is None:
            self._session_key = None
            return None
        self.unjoined_teams = (row.user_id, frozenset(row.unjoined_teams))
        if row.seen_at < now - SEEN_EVERY:
            Session.objects.filter(pk=row.pk).update(seen_at=now)
        found: Session = row
        return found


def _find(key: str, now: datetime) -> Any:
    """The session with this stored hash, with the private teams of which its user is not a member."""
    sql, parameters = _query()
    values = {A_KEY: key, A_TIME: now}
    return next(iter(Session.objects.raw(sql, [values.get(each, each) for each in parameters])), None)


# Stand for a hash and a moment in the compiled query.
A_KEY, A_TIME = "key", datetime(2000, 1, 1, tzinfo=UTC)


@cache
def _query() -> tuple[str, tuple[Any, ...]]:
    """SQL and its parameters. Each request of a browser needs it, and Django takes over a millisecond to compile it."""
    rows = Session.objects.annotate(unjoined_teams=unjoined_teams("user")).order_by()
    return rows.filter(session_key=A_KEY, expire_date__gt=A_TIME).query.sql_with_params()


def record_login(request: HttpRequest) -> None:
    """Record address and browser at the login."""
    request.session[ADDRESS] = request.META.get("REMOTE_ADDR", "")
    request.session[AGENT] = request.headers.get("User-Agent", "")[:300]


def of(user: User) -> QuerySet[Session]:
    """Return the user's open sessions, the last used first."""
    return Session.objects.filter(user=user, expire_date__gt=timezone.now()).order_by("-seen_at")


@transaction.atomic
def end(session: Session, *, by: User) -> None:
    """Log it out, wherever it is; of one's own only, which the caller's query sees to. A session may do all that its
    user may, so a token that may do less ends none."""
    if by.token_limits:
        raise beyond_token(by, "end session", f"a session has all roles of {by}")
    session.delete()
    audit(by, "session.end", session, before={"address": session.address, "agent": session.agent})


@transaction.atomic
def end_others(user: User, key: str | None) -> int:
    """Log out everywhere but here: how many there were."""
    _, deleted = of(user).exclude(session_key=digest(key or "")).delete()
    count = deleted.get(Session._meta.label, 0)
    audit(user, "session.end_others", user, after={"sessions": count})
    return count
