"""A CI job signs in with the ID token of its platform, if a user trusts jobs with its claims."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from joserfc import jwt
from joserfc.jwk import RSAKey

from apps.accounts import services, upkeep
from apps.accounts.ci import id_token, jobs
from apps.accounts.models import ApiToken, AuditEntry, Role, TrustedJob, User
from apps.accounts.tokens.lifecycle import Restriction
from common.errors import PlanError
from tests.rows.factories import browser, make_user, script
from tests.servers.ci_platform import SHOP, Platform, serve
from tests.servers.provider import signed_with_hmac

pytestmark = pytest.mark.django_db
EXCHANGE, ME = "/api/v1/ci-jobs/exchange/", "/api/v1/me/"
ANOTHER_KEY = RSAKey.generate_key(2048)


@pytest.fixture
def platform(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    with serve(settings, monkeypatch, audience="http://testserver") as platform:
        yield platform


@pytest.fixture
def owner() -> User:
    return make_user(Role.OPERATOR)


@pytest.fixture
def job(platform: Platform, owner: User) -> TrustedJob:
    return jobs.trust(owner, "nightly", Role.OPERATOR, issuer=platform.url, claims=SHOP, minutes=5)


def exchange(job: TrustedJob, token: str) -> Any:
    return Client().post(EXCHANGE, {"job": job.pk, "id_token": token}, content_type="application/json")


def test_a_job_gets_a_token_of_its_owner_for_some_minutes(platform: Platform, job: TrustedJob, owner: User) -> None:
    answer = exchange(job, platform.sign())

    assert answer.status_code == 201
    me = Client().get(ME, headers={"authorization": f"Bearer {answer.json()['secret']}"}).json()
    assert (me["username"], me["token"]["role"]) == (owner.username, "operator")
    token = ApiToken.objects.get()
    assert 290 < (token.expires_at - token.created_at).total_seconds() < 310
    entry = AuditEntry.objects.get(action="token.exchange")
    assert (entry.after["subject"], entry.after["address"]) == ("repo:acme/shop", "127.0.0.1")


def test_the_token_has_the_scopes_of_the_job(platform: Platform, owner: User) -> None:
    restriction = Restriction(scopes=["read"])
    job = jobs.trust(owner, "report", Role.VIEWER, issuer=platform.url, claims=SHOP, restriction=restriction)

    assert exchange(job, platform.sign()).json()["scopes"] == ["read"]


def none(platform: Platform) -> str:
    _, body, _ = platform.sign().split(".")
    return f"eyJhbGciOiJub25lIn0.{body}."


def hmac_of_the_public_key(platform: Platform) -> str:
    return signed_with_hmac(platform.claims(), platform.key.as_pem(private=False), str(platform.key.kid))


def another_key(platform: Platform) -> str:
    return jwt.encode({"alg": "RS256", "kid": platform.key.kid}, platform.claims(), ANOTHER_KEY)


def key_in_the_header(platform: Platform) -> str:
    header = {"alg": "RS256", "jwk": ANOTHER_KEY.as_dict(private=False)}
    return jwt.encode(header, platform.claims(), ANOTHER_KEY)


def changed(**claims: Any) -> Callable[[Platform], str]:
    return lambda platform: platform.sign(**claims)


@pytest.mark.parametrize(
    "forge",
    [
        none,
        hmac_of_the_public_key,
        another_key,
        key_in_the_header,
        changed(iss="https://evil.example.com"),
        changed(aud="https://elsewhere.example.org"),
        changed(aud=None),
        changed(exp=1),
        changed(exp=None),
        changed(iat=None),
        changed(sub=None),
        changed(nbf=int(time.time()) + 86_400),
        changed(repository="acme/other"),
        changed(repository=None),
        changed(repository=["acme/shop"]),
        changed(ref="refs/heads/feature"),
        lambda platform: "x",
        lambda platform: "....",
        lambda platform: "W10.W10.W10",
        lambda platform: f"{base64.urlsafe_b64encode(b'[' * 12_000).decode()}.W10.W10",
        lambda platform: platform.sign()[:-8],
    ],
)
def test_an_id_token_that_is_not_that_of_the_job_is_refused(
    platform: Platform, job: TrustedJob, forge: Callable[[Platform], str]
) -> None:
    answer = exchange(job, forge(platform))

    assert answer.status_code == 403, answer.content
    assert not ApiToken.objects.exists()


def test_an_id_token_works_once(platform: Platform, job: TrustedJob) -> None:
    token = platform.sign()

    assert [exchange(job, token).status_code for _ in range(2)] == [201, 403]


def test_a_job_that_does_not_exist_is_refused(platform: Platform, job: TrustedJob) -> None:
    job.pk += 1

    assert exchange(job, platform.sign()).status_code == 403


def test_a_platform_that_is_no_longer_trusted_is_refused(platform: Platform, job: TrustedJob, settings: Any) -> None:
    settings.CI_ISSUERS = ()

    assert exchange(job, platform.sign()).status_code == 403


def test_while_the_platform_is_down_it_is_not_queried_for_each_request(platform: Platform, job: TrustedJob) -> None:
    platform.down = True

    codes = [exchange(job, platform.sign(nonce=n)).status_code for n in range(5)]

    assert (codes, platform.reads) == ([502] * 5, 1)


def test_a_new_key_of_the_platform_is_read(
    platform: Platform, job: TrustedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange(job, platform.sign())
    platform.key = RSAKey.generate_key(2048, auto_kid=True)
    refused = exchange(job, platform.sign()).status_code
    monkeypatch.setattr(id_token, "RELOAD_S", 0)

    assert (refused, exchange(job, platform.sign()).status_code) == (403, 201)


def test_refused_tokens_of_an_address_are_limited(
    platform: Platform, job: TrustedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(60):
        exchange(job, "x")

    answer = exchange(job, platform.sign())

    assert (answer.status_code, "too many" in answer.json()["title"]) == (403, True)


def test_removing_a_job_ends_its_tokens(platform: Platform, job: TrustedJob, owner: User) -> None:
    secret = exchange(job, platform.sign()).json()["secret"]

    browser(owner).post(reverse("ci_job_remove", args=[job.pk]))

    assert Client().get(ME, headers={"authorization": f"Bearer {secret}"}).status_code == 401


def test_a_new_password_ends_the_trust(platform: Platform, job: TrustedJob, owner: User) -> None:
    services.change_password(owner, "another correct horse")

    assert exchange(job, platform.sign()).status_code == 403


def test_a_deactivated_owner_ends_the_trust(platform: Platform, job: TrustedJob, owner: User) -> None:
    User.objects.filter(pk=owner.pk).update(is_active=False)

    assert exchange(job, platform.sign()).status_code == 403


def test_expired_tokens_of_jobs_are_deleted(platform: Platform, job: TrustedJob) -> None:
    exchange(job, platform.sign())
    ApiToken.objects.update(expires_at="2020-01-01T00:00Z")

    upkeep.forget()

    assert not ApiToken.objects.exists()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"issuer": "https://evil.example.com"}, "issuer"),
        ({"claims": {}}, "claims"),
        ({"claims": {"ref": "refs/heads/main"}}, "claims"),
        ({"claims": {"environment": "production", "workflow": "bench"}}, "claims"),
        ({"claims": {"job_workflow_ref": "acme/ci/.github/workflows/bench.yml@refs/heads/main"}}, "claims"),
        ({"claims": {"repository": ""}}, "claims"),
        ({"claims": {"repository": "x" * 600}}, "claims"),
        ({"minutes": 4}, "minutes"),
        ({"minutes": 61}, "minutes"),
        ({"name": " "}, "name"),
    ],
)
def test_a_refused_job_names_the_field(platform: Platform, owner: User, changes: dict[str, Any], field: str) -> None:
    fields = {"name": "nightly", "issuer": platform.url, "claims": SHOP, **changes}

    with pytest.raises(PlanError) as refused:
        jobs.trust(owner, fields.pop("name"), Role.VIEWER, **fields)

    assert refused.value.subject == field


def form(platform: Platform, **changes: str) -> dict[str, str]:
    claims = "\n".join(f"{name}={value}" for name, value in SHOP.items())
    known = {"name": "nightly", "role": "operator", "issuer": platform.url, "claims": claims, "minutes": "15"}
    return {f"job-{name}": value for name, value in {**known, **changes}.items()}


def test_the_page_adds_a_job_and_shows_its_number(platform: Platform, owner: User) -> None:
    page = browser(owner).post(reverse("ci_job_add"), form(platform), format="multipart", follow=True).content.decode()

    job = TrustedJob.objects.get()
    assert job.claims == SHOP and f"proving login --ci {job.pk}" in page and "repository=acme/shop" in page


@pytest.mark.parametrize(
    ("changes", "error"),
    [({"role": "admin"}, "exceeds your own role"), ({"claims": "acme"}, "Use NAME=VALUE")],
)
def test_the_page_shows_the_error(platform: Platform, owner: User, changes: dict[str, str], error: str) -> None:
    page = browser(owner).post(reverse("ci_job_add"), form(platform, **changes), format="multipart").content.decode()

    assert error in page and not TrustedJob.objects.exists()


def test_other_users_neither_see_nor_remove_a_job(platform: Platform, job: TrustedJob) -> None:
    admin = make_user(Role.ADMIN)

    listed = browser(admin).get("/api/v1/ci-jobs/").json()

    assert listed["results"] == []
    assert browser(admin).post(reverse("ci_job_remove", args=[job.pk])).status_code == 404
    assert browser(admin).delete(f"/api/v1/ci-jobs/{job.pk}/").status_code == 404


def test_a_token_with_scopes_removes_no_job(platform: Platform, job: TrustedJob, owner: User) -> None:
    client = script(owner, scopes=["campaigns"])

    assert client.delete(f"/api/v1/ci-jobs/{job.pk}/").status_code == 403


def test_without_ci_platforms_the_page_has_no_form(owner: User) -> None:
    assert "CI jobs" not in browser(owner).get(reverse("account")).content.decode()
