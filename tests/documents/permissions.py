"""docs/reference/permissions.md: every endpoint with every method, and the least role that it answers.

    python -m tests.documents.permissions

Endpoints come from the table of addresses (apps/urls.py); rules from PAGES and OPEN below and, for the API, from
WRITERS and READERS in tests/apps/accounts/test_api_roles.py and OF_TEAMS in tests/apps/test_team_roles.py.
tests/apps/test_permissions.py fails where an endpoint has no rule, where a rule has no endpoint, where an answer is
another than the rule says, and where the document is stale.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "apps.settings")
django.setup()

from django.urls import URLPattern, URLResolver, get_resolver  # noqa: E402

from apps.accounts.models import ANY, NONE, Role, Scope  # noqa: E402
from apps.accounts.notices.kinds import CHANNELS  # noqa: E402

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reference" / "permissions.md"
VIEWER, OPERATOR, TUNER, ADMIN = Role


@dataclass(frozen=True)
class Rule:
    """The least role that may GET and that may POST; None where the method is not answered (405)."""

    get: Role | None
    post: Role | None


def shown(role: Role) -> Rule:
    """A page that only shows: a POST shows it as well, and changes nothing."""
    return Rule(role, role)


def form(role: Role) -> Rule:
    return Rule(role, role)


def button(role: Role) -> Rule:
    return Rule(None, role)


# Without a login: what each answers to GET.
OPEN = {
    "login": 200,
    "second_step": 302,
    "passkey_sign_in": 405,
    "passkey_sign_in_options": 405,
    "passkey_second_step_options": 405,
    "oidc_start": 404,
    "oidc_callback": 404,
    "healthz": 200,
    "readyz": 200,
    "metrics": 200,
    "password_forgot": 200,
    "password_set": 200,
    "api:schema": 200,
    "api:docs": 200,
    "timeline_feed": 404,
    "api:ci-exchange": 405,
}
# Of pages, by the name of the address, and of those with an action behind a colon.
PAGES: dict[str, Rule] = {
    "logout": button(VIEWER),
    "account": shown(VIEWER),
    "oidc_link": button(VIEWER),
    "token_add": button(VIEWER),
    "token_rotate": button(VIEWER),
    "token_revoke": button(VIEWER),
    "ci_job_add": button(VIEWER),
    "ci_job_remove": button(VIEWER),
    "session_end": button(VIEWER),
    "session_end_others": button(VIEWER),
    "password_change": button(VIEWER),
    "second_factor": form(VIEWER),
    "second_factor_confirm": button(VIEWER),
    "second_factor_codes": button(VIEWER),
    "second_factor_remove": button(VIEWER),
    "passkey_confirmation_options": button(VIEWER),
    "passkey_new": button(VIEWER),
    "passkey_creation": button(VIEWER),
    "passkey_add": button(VIEWER),
    "passkey_remove": form(VIEWER),
    "user_list": form(ADMIN),
    "user_change": button(ADMIN),
    "user_link": button(ADMIN),
    "user_unlink": button(ADMIN),
    "user_second_factor": form(ADMIN),
    "team_list": shown(VIEWER),
    "team_add": button(ADMIN),
    "team_detail": shown(VIEWER),
    "team_action:set-member": button(ADMIN),
    "team_action:set-private": button(ADMIN),
    "team_action:remove-member": button(ADMIN),
    "team_change": button(ADMIN),
    "team_remove": button(ADMIN),
    "team_action:take": button(ADMIN),
    "team_action:give": button(ADMIN),
    "audit_log": shown(ADMIN),
    "audit_csv": shown(ADMIN),
    "channel_list": shown(VIEWER),
    **{f"channel_add:{name}": form(ADMIN if kind.for_admins else VIEWER) for name, kind in CHANNELS.items()},
    "channel_detail": form(ADMIN),
    "channel_action:test": button(ADMIN),
    "channel_action:switch-off": button(ADMIN),
    "channel_action:switch-on": button(ADMIN),
    "channel_action:renew-secret": button(ADMIN),
    "delivery_retry": button(VIEWER),
    "trouble_dismiss": button(OPERATOR),
    "host_list": shown(VIEWER),
    "host_add": form(ADMIN),
    "identity_add": form(ADMIN),
    "identity_certificate": button(ADMIN),
    "launcher": shown(ADMIN),
    "signers": shown(ADMIN),
    "host_detail": shown(VIEWER),
    "host_action:check": button(OPERATOR),
    "host_action:reserve": button(OPERATOR),
    "host_action:give-up": button(OPERATOR),
    "host_action:fetch-key": button(ADMIN),
    "host_action:approve": button(ADMIN),
    "host_action:release": button(ADMIN),
    "host_action:windows": button(ADMIN),
    "host_action:install-units": button(ADMIN),
    "host_action:uninstall-units": button(ADMIN),
    "host_action:restore": button(ADMIN),
    "host_action:allow-reboots": button(ADMIN),
    "host_action:forbid-reboots": button(ADMIN),
    "host_action:accept-machine": button(ADMIN),
    "host_action:use-launcher": button(ADMIN),
    "host_action:use-python": button(ADMIN),
    "host_action:allow-cluster": button(ADMIN),
    "host_action:forbid-cluster": button(ADMIN),
    "host_action:labels": button(ADMIN),
    "host_action:save-remote": button(ADMIN),
    "host_action:check-remote": button(OPERATOR),
    "host_action:remove-remote": button(ADMIN),
    "host_action:allow-path": button(ADMIN),
    "host_action:forbid-path": button(ADMIN),
    "setting_list": shown(VIEWER),
    "profile_list": shown(VIEWER),
    "profile_add": form(TUNER),
    "profile_detail": shown(VIEWER),
    "profile_export": shown(VIEWER),
    "profile_revise": form(TUNER),
    "dry_run": Rule(VIEWER, OPERATOR),
    "campaign_detail": shown(VIEWER),
    "campaign_figure": shown(VIEWER),
    "campaign_summary": shown(VIEWER),
    "campaign_csv": shown(VIEWER),
    "campaign_export": shown(VIEWER),
    "host_baselines": shown(VIEWER),
    "baseline_figure": shown(VIEWER),
    "run_detail": shown(VIEWER),
    "run_export": shown(VIEWER),
    "run_figure": shown(VIEWER),
    "run_latency": shown(VIEWER),
    "run_csv": shown(VIEWER),
    "run_artefact": shown(VIEWER),
    "part_artefact": shown(VIEWER),
    "campaign_explore": shown(VIEWER),
    "campaign_explore_figure": shown(VIEWER),
    "campaign_explore_csv": shown(VIEWER),
    "run_spread": shown(VIEWER),
    "run_spread_csv": shown(VIEWER),
    "campaign_spread": shown(VIEWER),
    "campaign_spread_csv": shown(VIEWER),
    "compare": shown(VIEWER),
    "compare_csv": shown(VIEWER),
    "compare_levels": shown(VIEWER),
    "compare_figure": shown(VIEWER),
    "run_live": shown(VIEWER),
    "run_stream": shown(VIEWER),
    "campaign_live": shown(VIEWER),
    "campaign_stream": shown(VIEWER),
    "import_new": form(OPERATOR),
    "import_detail": form(OPERATOR),
    "dashboard": shown(VIEWER),
    "pin_list": shown(VIEWER),
    "pin_go": shown(VIEWER),
    "pin_edit": form(OPERATOR),
    "pin_action:up": button(OPERATOR),
    "pin_action:down": button(OPERATOR),
    "pin_action:remove": button(OPERATOR),
    "pin_new": form(OPERATOR),
    "workload_list": shown(VIEWER),
    "workload_add": form(TUNER),
    "workload_check": button(OPERATOR),
    "workload_detail": shown(VIEWER),
    "recipe_list": shown(VIEWER),
    "recipe_add": form(TUNER),
    "recipe_file": shown(VIEWER),
    "recipe_hours": shown(VIEWER),
    "recipe_withdraw": button(TUNER),
    "campaign_list": shown(VIEWER),
    "campaign_new": form(OPERATOR),
    "campaign_preview": button(OPERATOR),
    "campaign_checks": button(OPERATOR),
    "campaign_extend": form(OPERATOR),
    "campaign_rename": form(OPERATOR),
    "campaigns_change": button(OPERATOR),
    "campaign_action:start": button(OPERATOR),
    "campaign_action:cancel": button(OPERATOR),
    "campaign_action:priority": button(OPERATOR),
    "campaign_action:pause": button(OPERATOR),
    "campaign_action:resume": button(OPERATOR),
    "campaign_action:retry": button(OPERATOR),
    "campaign_action:archive": button(OPERATOR),
    "campaign_action:unarchive": button(OPERATOR),
    "schedule_list": shown(VIEWER),
    "schedule_detail": shown(VIEWER),
    "schedule_figure": shown(VIEWER),
    "schedule_csv": shown(VIEWER),
    "schedule_add": form(OPERATOR),
    "schedule_change": form(OPERATOR),
    "schedule_action:pause": button(OPERATOR),
    "schedule_action:resume": button(OPERATOR),
    "schedule_action:delete": button(OPERATOR),
    "searches_list": shown(VIEWER),
    "searches_detail": shown(VIEWER),
    "searches_figure": shown(VIEWER),
    "searches_csv": shown(VIEWER),
    "searches_importance": shown(VIEWER),
    "searches_add": form(OPERATOR),
    "searches_action:pause": button(OPERATOR),
    "searches_action:resume": button(OPERATOR),
    "searches_action:stop": button(OPERATOR),
    "searches_action:extend": button(OPERATOR),
    "searches_action:change": button(OPERATOR),
    "searches_action:pick": button(OPERATOR),
    "host_queue": shown(VIEWER),
    "run_action:cancel": button(OPERATOR),
    "run_action:give-up": button(OPERATOR),
    "dataset_list": shown(VIEWER),
    "dataset_add": form(TUNER),
    "dataset_copy_remove": button(OPERATOR),
    "dataset_detail": shown(VIEWER),
    "dataset_prepare": button(OPERATOR),
    "twin_list": shown(VIEWER),
    "twin_add": form(TUNER),
    "twin_detail": shown(VIEWER),
    "decisions_on_host": shown(VIEWER),
    "decision_export": shown(VIEWER),
    "feed_action:renew": button(VIEWER),
    "feed_action:drop": button(VIEWER),
    "search": shown(VIEWER),
    "drift": shown(VIEWER),
    "drift_ask": button(OPERATOR),
    "why": shown(VIEWER),
    "home": shown(VIEWER),
    "timeline": shown(VIEWER),
    "decision_new": form(TUNER),
    "decision_detail": shown(VIEWER),
    "decision_action:accept": button(TUNER),
    "decision_action:reject": button(TUNER),
    "decision_action:withdraw": button(TUNER),
    "decision_action:confirm": button(OPERATOR),
    "decision_action:renew": button(TUNER),
    "decision_action:comment": button(OPERATOR),
}
# The scope with which a token may write to an endpoint of the API, by its name or by that of its viewset. Only tokens
# without scopes may write to the others.
CAMPAIGNS, HOSTS = Scope.CAMPAIGNS, Scope.HOSTS
SCOPES: dict[str, str] = {
    **dict.fromkeys(("Campaign", "Run", "Schedule", "Searches", "Profile", "Workload", "Recipe", "DataSet"), CAMPAIGNS),
    **dict.fromkeys(("DataCopy", "Twin", "Import", "Pin", "Decision"), CAMPAIGNS),
    **dict.fromkeys(("Host", "Identity", "Trouble"), HOSTS),
    **dict.fromkeys(("Token.rotate", "Token.destroy"), ANY),
}
# Beginnings of the names of endpoints whose keys name nothing that a team owns.
WITHOUT_TEAM = (
    *(
        "ci_job_",
        "TrustedJob.",
        "token_",
        "user_",
        "session_",
        "channel_",
        "delivery_",
        "password_",
        "passkey_",
        "identity_",
        "recipe_",
        "timeline_feed",
        "pin_new",
    ),
    *("compare", "feed_action", "Token.", "User.", "Session.", "Channel.", "Delivery.", "Identity.", "Setting."),
    *("Recipe.", "RecipeFile."),
)
# What the role alone does not say.
BY_OBJECT = (
    ("`metrics`", "clients that send `PROVING_METRICS_TOKEN`; if none is set, the machine itself without a proxy"),
    ("`oidc_*`", "servers with an identity provider; on all others, the response is 404"),
    ("`timeline_feed`", "users of a feed's secret address; all others get 404"),
    ("`second_step`", "users who entered their password less than 5 minutes ago"),
    ("`passkey_sign_in`, `passkey_sign_in_options`", "POST: everybody; a sign-in needs a passkey of an active user"),
    ("`passkey_second_step_options`", "POST: users who entered their password less than 5 minutes ago"),
    ("`passkey_*`", "only your own passkeys, after you confirmed it with password or passkey"),
    ("`second_factor*`", "only your own second factor; `user_second_factor` only that of other users"),
    ("`password_set`", "users of an unused link; for all others the link is invalid"),
    ("`token_rotate`, `token_revoke`, `Token`", "only your own tokens; a token rotates only itself"),
    ("`ci_job_add`, `ci_job_remove`, `TrustedJob`", "only your own trusted jobs"),
    ("`api:ci-exchange`", "POST: jobs with an ID token that a trusted job accepts"),
    ("`session_end`, `Session`", "only your own sessions"),
    ("`channel_*`, `Channel`", "mail: its owner, of any role, and admins; other kinds: admins"),
    ("`delivery_retry`, `Delivery.retry`", "deliveries of channels that you may change"),
    ("`Delivery.list`, `Delivery.retrieve`", "all deliveries except mail to other users, which only admins see"),
    (
        "your own programs, scripts and SQL, in workloads, levels, recipes and data sets",
        "users who also have the permission to run commands; no role includes it",
    ),
)


@dataclass(frozen=True)
class Endpoint:
    """An address of a page; `action` replaces <action> in it. `of_teams`: for objects of a team, the role in the team
    applies."""

    name: str
    pattern: str
    keys: tuple[str, ...]
    of_teams: bool = False

    @property
    def rules(self) -> dict[str, Rule]:
        """By action; "" where it has none."""
        ours = {key: rule for key, rule in PAGES.items() if key.partition(":")[0] == self.name}
        return {key.partition(":")[2]: rule for key, rule in ours.items()}


def endpoints(patterns: list[Any] | None = None, before: str = "/") -> Iterator[Endpoint]:
    """Every address of the server, those of the API with "api:" before their name."""
    for pattern in get_resolver("apps.urls").url_patterns if patterns is None else patterns:
        if isinstance(pattern, URLResolver):
            yield from endpoints(pattern.url_patterns, before + str(pattern.pattern))
        elif isinstance(pattern, URLPattern):
            room = "api:" if before.startswith("/api/") else ""
            keys = tuple(pattern.pattern.regex.groupindex)
            of_teams = bool(getattr(pattern.callback, "somewhere", False))
            yield Endpoint(f"{room}{pattern.name or ''}", before + str(pattern.pattern), keys, of_teams)


def pages() -> list[Endpoint]:
    """Those that are no part of the API."""
    return [endpoint for endpoint in endpoints() if not endpoint.name.startswith("api:")]


def _may(role: Role | None) -> str:
    """The cells from anonymous to admin."""
    cells = ["no", *("yes" if role and candidate.includes(role) else "no" for candidate in Role)]
    return " | ".join(cells)


def _there(of_teams: bool) -> str:
    """A cell: which role applies to objects of a team."""
    return "the role there" if of_teams else "the same"


def names_object_of_team(endpoint: Any) -> bool:
    """Whether an endpoint of a page or of the API names an object that a private team can hide."""
    keys = set(endpoint.keys) - {"action", "kind"}
    name = endpoint.name.removeprefix("api:")
    return bool(keys) and not name.startswith(WITHOUT_TEAM)


def _private(endpoint: Any) -> str:
    """The last cell: for a user who is not a member of the private team that owns the object."""
    return "404" if names_object_of_team(endpoint) else "the same"


def _rows() -> Iterator[str]:
    for endpoint in endpoints():
        if endpoint.name in OPEN:
            method = (
                "GET, POST" if endpoint.name in ("login", "second_step", "password_forgot", "password_set") else "GET"
            )
            address = f"`{endpoint.pattern}` | `{endpoint.name}` | {method}"
            yield f"| {address} | yes | yes | yes | yes | yes | the same | the same |"
        there = f"{_there(endpoint.of_teams)} | {_private(endpoint)}"
        for action, rule in endpoint.rules.items():
            address = endpoint.pattern.replace("<slug:action>", action).replace("<str:action>", action)
            address = address.replace("<str:kind>", action or "<str:kind>")
            name = f"{endpoint.name}:{action}".rstrip(":")
            if rule.get == rule.post:
                yield f"| `{address}` | `{name}` | GET, POST | {_may(rule.get)} | {there} |"
            else:
                answered = {"GET": rule.get, "POST": rule.post}
                yield from (
                    f"| `{address}` | `{name}` | {how} | {_may(role)} | {there} |"
                    for how, role in answered.items()
                    if role
                )


def _api_rows() -> Iterator[str]:
    from tests.apps.accounts.test_api_roles import ALL
    from tests.apps.test_team_roles import OF_TEAMS

    for each in ALL:
        there = f"{_there(each.name in OF_TEAMS)} | {_private(each)}"
        needed = Scope.READ if each.method == "get" else SCOPES.get(each.name, SCOPES.get(each.room, NONE))
        yield f"| `{each.name}` | {each.method.upper()} | {_may(each.needs)} | {there} | {needed or 'none'} |"


HEAD = """# Permissions

This page lists every address of the server and the roles that may use it. `python -m tests.documents.permissions`
generates it from the table of addresses and from the rules that the tests enforce. Do not edit it by hand.

| request | response |
|---|---|
| not logged in | pages redirect to the login; the API answers 401 |
| role not sufficient | 403 |
| GET where this page lists only POST | 405 |
| POST to a page that only shows data | the same as GET; nothing changes |

Each role includes the ones before it. A token of the API has its own role, which is never more than its owner's.

A token can have scopes: *read*, *campaigns* and *hosts*. The last column of the API's table names the scope that such
a token needs. Each scope includes *read*. *any* is permitted with each scope, *none* only without scopes. Sessions have
no scopes.

The columns are roles in the instance. If the column *of a team's* says *the role there* and a team owns the object,
your role in that team counts instead. For a campaign, it is the team of each of its hosts: see
[teams.md](../operations/teams.md).
The column *of another team, private* is for users who are not a member of the private team that owns the object. Lists
leave such objects out.
"""
PEOPLE = "anonymous | viewer | operator | tuner | admin | of a team's | of another team, private"


def render() -> str:
    """The text of docs/reference/permissions.md."""
    lines = [
        HEAD,
        "## Pages",
        "",
        f"| address | name | method | {PEOPLE} |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [*_rows(), "", "## API", "", f"| endpoint | method | {PEOPLE} | scope of a token |"]
    lines += ["|---|---|---|---|---|---|---|---|---|---|"]
    lines += [*_api_rows(), "", "## What depends on the thing", "", "| of | is for |", "|---|---|"]
    lines += [f"| {what} | {who} |" for what, who in BY_OBJECT]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(render())
