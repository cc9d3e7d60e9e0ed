"""Roles that need a second factor, and the reset by an admin or at the server's shell."""

from __future__ import annotations

from typing import Any

import pyotp
import pytest
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts import tasks
from apps.accounts.identity import mapping
from apps.accounts.models import ApiToken, AuditEntry, ProviderAccount, Role, Session, Team, User
from apps.accounts.second_factor import factors, policy
from apps.infrastructure import waking
from tests.apps.accounts.second_factor.conftest import App, Clock, enrol, enter_password, is_logged_in, log_in
from tests.rows import populate
from tests.rows.factories import browser, make_user, script

PAGE = "/account/second-factor/"


@pytest.fixture
def enforced(settings: Any) -> None:
    settings.SECOND_FACTOR_ROLES = frozenset(["operator", "admin"])


def test_a_user_of_such_a_role_reaches_only_the_enrolment(olga: User, enforced: None) -> None:
    client = enter_password(olga)

    answers = {path: client.get(path) for path in ("/", "/account/", "/hosts/", "/campaigns/")}
    api = client.get("/api/v1/hosts/")
    partial = client.get("/hosts/", HTTP_HX_REQUEST="true")

    assert {answer["Location"] for answer in answers.values()} == {PAGE}
    assert (api.status_code, api.json()["title"]) == (403, "your role needs a second factor, and you have none yet")
    assert partial["HX-Redirect"] == PAGE
    assert client.post("/account/tokens/", {"name": "t", "role": "viewer", "days": 1})["Location"] == PAGE
    assert "Your role needs a second factor" in client.get(PAGE).content.decode()


def test_the_enrolment_opens_everything_at_once(olga: User, clock: Clock, enforced: None) -> None:
    client = enter_password(olga)
    secret = client.post(PAGE, {"password": populate.PASSWORD}).context["secret"]

    client.post(reverse("second_factor_confirm"), {"code": pyotp.TOTP(secret).at(int(clock.now))})

    assert is_logged_in(client)


def test_other_roles_are_not_affected(db: None, enforced: None) -> None:
    assert is_logged_in(enter_password(populate.user(Role.VIEWER, "vera")))


def test_a_role_in_a_team_counts(db: None, enforced: None) -> None:
    vera = populate.user(Role.VIEWER, "vera")
    Team.objects.create(name="storage").memberships.create(user=vera, role=Role.ADMIN)

    assert not is_logged_in(enter_password(vera))


def test_a_session_from_before_the_rule_is_stopped_at_its_next_request(olga: User, settings: Any) -> None:
    client = enter_password(olga)
    assert is_logged_in(client)

    settings.SECOND_FACTOR_ROLES = frozenset(["operator"])

    assert client.get("/hosts/")["Location"] == PAGE


def test_a_session_without_the_second_step_of_an_enrolled_user_ends(app: App, enforced: None) -> None:
    client = Client()
    client.force_login(app.user)

    assert client.get("/hosts/")["Location"] == reverse("login")
    assert not Session.objects.filter(user=app.user).exists()


def test_a_session_with_a_second_factor_costs_no_query_for_the_rule(
    app: App, settings: Any, django_assert_num_queries: Any
) -> None:
    client = log_in(app)
    with CaptureQueriesContext(connection) as without_rule:
        client.get("/api/v1/me/")

    settings.SECOND_FACTOR_ROLES = frozenset(["operator"])

    with django_assert_num_queries(len(without_rule)):
        client.get("/api/v1/me/")


def test_existing_tokens_work_and_issue_no_further_ones(olga: User, enforced: None) -> None:
    unaffected = script(make_user(Role.VIEWER), days=9)
    client = _token_from_before(olga)

    reads, issues = client.get("/api/v1/me/"), client.post("/api/v1/tokens/", {"name": "heir", "days": 1})

    assert reads.status_code == 200
    assert (issues.status_code, issues.json()["title"]) == (403, policy.TITLE)
    assert unaffected.post("/api/v1/tokens/", {"name": "heir", "days": 1}).status_code == 201


def _token_from_before(user: User) -> Any:
    with override_settings(SECOND_FACTOR_ROLES=frozenset()):
        return script(user, days=9)


def test_an_enrolled_user_issues_tokens(app: App, enforced: None) -> None:
    assert script(app.user).get("/api/v1/me/").status_code == 200


def test_such_a_user_cannot_remove_the_second_factor(app: App, enforced: None) -> None:
    client = log_in(app)
    sent = {"password": populate.PASSWORD, "code": app.next_code()}

    answer = client.post(reverse("second_factor_remove"), sent, follow=True)

    assert (
        "your role needs a second factor. Add another one first, or ask an admin to reset it."
        in answer.content.decode()
    )
    assert policy.enrolled(app.user)


def test_users_who_sign_in_with_the_provider_need_no_second_factor_here(
    olga: User, enforced: None, settings: Any
) -> None:
    settings.OIDC_ISSUER = "https://id.example.org"
    ProviderAccount.objects.create(user=olga, issuer=settings.OIDC_ISSUER, subject="1")

    assert not policy.required(User.objects.get(pk=olga.pk))


def test_the_break_glass_admin_needs_the_second_factor(ada: User, enforced: None, settings: Any) -> None:
    settings.OIDC_ISSUER, settings.BREAK_GLASS_ADMIN = "https://id.example.org", "ada"

    assert policy.required(ada)


def test_an_unknown_role_in_the_setting_is_named() -> None:
    assert mapping.roles("X", ["tuner", " admin "]) == {"tuner", "admin"}
    with pytest.raises(ImproperlyConfigured, match="X contains 'root': the role must be one of viewer"):
        mapping.roles("X", ["admin", "root"])


def reset(client: Client, user: User, password: str = populate.PASSWORD) -> Any:
    return client.post(reverse("user_second_factor", args=[user.pk]), {"password": password})


def test_an_admin_resets_it_with_their_own_password_and_all_sessions_end(app: App, ada: User) -> None:
    theirs, token = log_in(app), script(app.user)

    reset(enter_password(ada), app.user)

    assert not policy.enrolled(app.user)
    assert not is_logged_in(theirs)
    assert token.get("/api/v1/me/").status_code == 200
    entry = AuditEntry.objects.get(action="factor.reset")
    assert (entry.actor, entry.target, entry.after["sessions_ended"]) == (ada, "olga", 1)


def test_the_user_reads_about_the_reset_at_the_next_login_and_only_then(app: App, ada: User) -> None:
    log_in(app)
    reset(enter_password(ada), app.user)

    first = enter_password(app.user).get("/account/").content.decode()
    second = enter_password(app.user).get("/account/").content.decode()

    assert "by ada. If you did not expect this, change your password" in first
    assert "was reset on" not in second


def test_the_user_gets_a_mail(
    app: App, ada: User, settings: Any, monkeypatch: Any, django_capture_on_commit_callbacks: Any
) -> None:
    settings.EMAIL_HOST, settings.BASE_URL = "mail.example.org", "https://proving.example.org"
    User.objects.filter(pk=app.user.pk).update(email="olga@example.org")
    sent: list[tuple[str, ...]] = []
    monkeypatch.setattr(waking, "send", lambda *arguments: sent.append(arguments))

    with django_capture_on_commit_callbacks(execute=True):
        reset(enter_password(ada), User.objects.get(pk=app.user.pk))
    tasks.mail_factor_notice(*sent[-1][1:])

    assert sent[-1] == ("accounts.mail_factor_notice", str(app.user.pk), "reset")
    assert mail.outbox[-1].to == ["olga@example.org"]
    assert "An admin reset your second factor." in mail.outbox[-1].body


def test_a_stolen_session_of_an_admin_resets_nothing(app: App, ada: User) -> None:
    answer = reset(enter_password(ada), app.user, "wrong")

    assert answer.status_code == 422
    assert policy.enrolled(app.user)


def test_an_admin_cannot_reset_their_own_second_factor(ada: User, clock: Clock) -> None:
    own = enrol(ada, clock)

    client = log_in(own)
    both = {"password": populate.PASSWORD, "code": own.next_code()}
    answer = client.post(reverse("user_second_factor", args=[ada.pk]), both, follow=True)

    assert "this is your own second factor" in answer.content.decode()
    assert policy.enrolled(ada)


def test_other_roles_reset_nothing(app: App) -> None:
    tuner = populate.user(Role.TUNER, "tom")

    assert reset(enter_password(tuner), app.user).status_code == 403
    assert policy.enrolled(app.user)


def test_the_shell_of_the_server_resets_it(app: App, capsys: Any) -> None:
    session = log_in(app)

    call_command("reset_second_factor", "olga")

    assert not is_logged_in(session)
    assert is_logged_in(enter_password(app.user))
    assert AuditEntry.objects.get(action="factor.reset").actor is None
    assert "olga logs in with the password alone" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "cause"), [("grace", "no user has the name 'grace'"), ("olga", "olga has no second factor")]
)
def test_the_shell_names_the_cause_of_a_refusal(olga: User, name: str, cause: str) -> None:
    with pytest.raises(CommandError, match=cause):
        call_command("reset_second_factor", name)


def test_the_shell_issues_a_token_also_for_a_role_that_needs_a_second_factor(
    db: None, enforced: None, capsys: Any
) -> None:
    call_command("create_admin", "eve", "--token", "1")

    assert ApiToken.objects.get().user.username == "eve"


def test_the_users_page_shows_which_users_have_a_second_factor(app: App, ada: User) -> None:
    text = browser(ada).get(reverse("user_list")).content.decode()

    assert "active, second factor" in text
    assert text.count("Reset second factor of") == 1


def test_the_codes_left_are_shown(app: App) -> None:
    client = log_in(app)
    factors.verify(app.user, app.codes[0], address="192.0.2.1")

    assert "<dd>9</dd>" in client.get(PAGE).content.decode()
