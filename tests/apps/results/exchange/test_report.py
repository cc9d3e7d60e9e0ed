"""A report contains the whole result of a campaign, in three formats with the same text."""

from __future__ import annotations

import base64
import re
import zlib
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.campaigns.models import Campaign, Run
from apps.results import queries, report
from apps.results.exchange import exports
from apps.results.report.pdf import report_pdf
from tests.rows import split
from tests.rows.factories import make_campaign, script

pytestmark = pytest.mark.django_db


@pytest.fixture
def campaign(admin: User) -> Campaign:
    """A campaign with a failed run whose reason contains markup."""
    made = split.finished(admin, split.host("rack-7"), name="Caches & <huge> pages")
    error = {"blame": "workload", "message": "<script>alert(1)</script> | gone", "hint": ""}
    Run.objects.filter(pk=made.runs.order_by("position")[3].pk).update(outcome=Run.Outcome.FAILED, error=error)
    return exports.campaigns().get(pk=made.pk)


def html(campaign: Campaign) -> str:
    return "".join(report.report_html(campaign))


def test_the_report_has_the_sentence_of_the_page(campaign: Campaign) -> None:
    sentence = queries.campaign_table(campaign).sentence

    assert sentence in unescape(html(campaign))
    assert sentence.split(" (")[0] in "".join(report.report_markdown(campaign)).replace("\\", "")


def test_nothing_in_it_leads_to_a_network(campaign: Campaign) -> None:
    page = html(campaign)
    without_program = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)

    assert re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', without_program) == []
    assert "default-src 'none'" in page


def test_texts_of_users_and_tools_are_escaped(campaign: Campaign) -> None:
    page, wiki = html(campaign), "".join(report.report_markdown(campaign))

    assert "<script>alert(1)" not in page and "&lt;script&gt;alert(1)" in page
    assert "Caches &amp; &lt;huge&gt; pages" in page
    assert "\\<script\\>alert(1)" in wiki and "\\| gone" in wiki


def test_the_table_of_runs_is_within(campaign: Campaign) -> None:
    packed = re.search(r'href="data:text/csv;base64,([^"]+)"', html(campaign))

    assert packed is not None
    assert base64.b64decode(packed[1]).decode() == "".join(exports.runs_csv(campaign))


def test_failed_runs_and_the_host_are_named(campaign: Campaign) -> None:
    for text in (html(campaign), "".join(report.report_markdown(campaign))):
        assert "40 runs: 39 ok, 1 failed" in text
        assert "rack-7" in text.replace("\\", "")


@pytest.mark.parametrize("message", ["no space left " * 2000, "W" * 30_000], ids=["words", "one word"])
def test_a_long_reason_of_a_failed_run_leaves_a_pdf(campaign: Campaign, message: str) -> None:
    Run.objects.filter(campaign=campaign, outcome=Run.Outcome.FAILED).update(error={"message": message})

    paper = report_pdf(campaign).read()

    assert paper.startswith(b"%PDF")


def test_the_pdf_has_pages_and_the_runs_attached(campaign: Campaign) -> None:
    paper = report_pdf(campaign).read()

    assert paper.startswith(b"%PDF-1.") and paper.rstrip().endswith(b"%%EOF")
    assert len(re.findall(rb"/Type /Page\b", paper)) >= 2
    attached = re.search(rb"/Type /EmbeddedFile.*?stream\r?\n(.*?)\r?\nendstream", paper, re.DOTALL)
    assert attached is not None
    raw = attached[1]
    content = zlib.decompress(raw) if raw[:1] == b"\x78" else raw
    assert content.decode() == "".join(exports.runs_csv(campaign))


@pytest.mark.parametrize("state", [Campaign.State.RUNNING, Campaign.State.CANCELLED])
def test_a_campaign_without_an_answer_has_a_report_that_says_so(admin: User, state: str) -> None:
    made = exports.campaigns().get(pk=make_campaign(state, by=admin).pk)

    assert "No comparison: " in html(made)
    assert report_pdf(made).read().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("name", "kind"), [("report.html", "text/html"), ("report.pdf", "application/pdf"), ("report.md", "text/markdown")]
)
def test_it_is_downloaded_by_browser_and_api(
    client: Client, viewer: User, campaign: Campaign, name: str, kind: str
) -> None:
    client.force_login(viewer)

    for who, address in (
        (client, reverse("campaign_export", args=[campaign.pk, name])),
        (script(viewer), f"/api/v1/campaigns/{campaign.pk}/export/{name}/"),
    ):
        answer = who.get(address)
        assert (answer.status_code, answer.headers["Content-Type"].split(";")[0]) == (200, kind)
        assert "attachment" in answer.headers["Content-Disposition"]
