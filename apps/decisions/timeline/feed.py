"""The timeline as an Atom feed at a secret address."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.contrib.syndication.views import Feed
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.feedgenerator import Atom1Feed

from apps.accounts.identity import access
from apps.accounts.models import ApiToken, Role, User, walls
from apps.accounts.services import audit, require
from apps.decisions.models import FeedToken
from apps.decisions.timeline import entries
from apps.decisions.timeline.entries import TimelineEntry
from apps.decisions.timeline.forms import TimelineForm

MOST = 50


@transaction.atomic
def renew_feed(*, by: User) -> str:
    """Return the path of the user's new feed, which is shown only once. The earlier one stops working."""
    require(by, Role.VIEWER, "create a feed")
    secret = secrets.token_urlsafe(32)
    FeedToken.objects.update_or_create(user=by, defaults={"digest": ApiToken.hash(secret)})
    audit(by, "feed.renew", by)
    return reverse("timeline_feed", args=[secret])


@transaction.atomic
def drop_feed(*, by: User) -> None:
    """Delete the user's feed."""
    if FeedToken.objects.filter(user=by).delete()[0]:
        audit(by, "feed.drop", by)


class TimelineFeed(Feed):  # type: ignore[type-arg]  # it takes none when it runs
    feed_type = Atom1Feed
    title = "Proving Ground"
    subtitle = "Decisions, changes of their status, and finished campaigns"

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpRequest:
        return request

    def link(self) -> str:
        return reverse("timeline")

    def items(self, request: HttpRequest) -> list[TimelineEntry]:
        return entries.timeline(TimelineForm(request.GET).criteria(), size=MOST).entries

    def item_title(self, item: TimelineEntry) -> str:
        return item.title

    def item_description(self, item: TimelineEntry) -> str:
        return item.text

    def item_link(self, item: TimelineEntry) -> str:
        return item.path

    def item_guid(self, item: TimelineEntry) -> str:
        return f"proving-ground:{item.cursor}"

    def item_author_name(self, item: TimelineEntry) -> str:
        return item.who or "Proving Ground"

    def item_updateddate(self, item: TimelineEntry) -> datetime:
        return item.at

    def item_pubdate(self, item: TimelineEntry) -> datetime:
        return item.at

    def item_categories(self, item: TimelineEntry) -> list[str]:
        return [item.kind]


@login_not_required
def timeline_feed(request: HttpRequest, secret: str) -> HttpResponse:
    """Serve the feed with the filter of the timeline. Users without an active account have no feed."""
    known = FeedToken.objects.select_related("user").filter(digest=ApiToken.hash(secret), user__is_active=True).first()
    if known is None or access.lapsed(known.user):
        raise Http404("this feed does not exist: create a new one on the timeline")
    walls.change_reader(lambda: known.user.hidden_teams)
    answer = TimelineFeed()(request)
    answer["Cache-Control"] = "private, max-age=60"
    return answer


urlpatterns = [path("feed/<str:secret>/timeline.atom", timeline_feed, name="timeline_feed")]
