"""Trusted CI jobs: which ID tokens the server exchanges, and for which API tokens. Each change is in the audit log."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.accounts.attempts import is_first_use
from apps.accounts.ci import id_token
from apps.accounts.identity import access
from apps.accounts.identity.provider import CLOCK_SKEW_S
from apps.accounts.models import ApiToken, Role, TrustedJob, User
from apps.accounts.second_factor import policy
from apps.accounts.services import audit, require_somewhere
from apps.accounts.tokens import lifecycle
from common.errors import PlanError, RoleError

MINUTES = range(5, 61)
MOST_CLAIMS, LONGEST_CLAIM = 10, 500
# Claims of GitHub Actions and GitLab that jobs of any repository can have, or that differ in each job.
UNSPECIFIC = frozenset(
    [
        *("iss", "aud", "exp", "iat", "nbf", "jti", "runner_environment", "event_name", "pipeline_source"),
        *("sha", "ref", "ref_type", "ref_path", "ref_protected", "base_ref", "head_ref"),
        *("job_id", "run_id", "run_number", "run_attempt", "pipeline_id", "check_run_id"),
        *("workflow", "workflow_sha", "job_workflow_ref", "job_workflow_sha", "ci_config_sha"),
        *("environment", "environment_protected", "environment_action", "deployment_tier", "deployment_action"),
        *("repository_visibility", "project_visibility", "user_access_level"),
    ]
)


@transaction.atomic
def trust(
    user: User,
    name: str,
    role: Role,
    *,
    issuer: str,
    claims: Mapping[str, str],
    minutes: int = 15,
    restriction: lifecycle.Restriction | None = None,
) -> TrustedJob:
    """Let jobs of the platform `issuer` whose ID tokens have these claims get API tokens of `user`."""
    require_somewhere(user, role, "trust CI job")
    policy.check_may_issue_token(user)
    restriction = restriction or lifecycle.Restriction()
    if not name.strip():
        raise PlanError("name", "a trusted job needs a name", hint="state its purpose, for example: nightly CI")
    if issuer not in settings.CI_ISSUERS:
        accepted = ", ".join(settings.CI_ISSUERS) or "none: the operator of the server sets PROVING_CI_ISSUERS"
        raise PlanError("issuer", f"{issuer[:100]!r} is not trusted by this server", hint=f"accepted: {accepted}")
    if minutes not in MINUTES:
        raise PlanError("minutes", f"{minutes} is not between {MINUTES[0]} and {MINUTES[-1]}")
    _check_claims(claims)
    job = TrustedJob.objects.create(
        user=user,
        name=name.strip(),
        issuer=issuer,
        claims=dict(claims),
        role=role,
        scopes=lifecycle.read_scopes(restriction.scopes),
        team=restriction.team,
        minutes=minutes,
    )
    audit(user, "ci_job.trust", job, after=_facts(job))
    return job


@transaction.atomic
def distrust(job: TrustedJob, *, by: User) -> None:
    """Remove a trusted job of `by`, with its tokens."""
    if job.user_id != by.pk:
        raise RoleError("remove CI job", "only its owner can remove it", hint="deactivate the owner instead")
    audit(by, "ci_job.remove", job, before=_facts(job))
    job.delete()


def exchange(number: int, text: str, address: str) -> tuple[ApiToken, str]:
    """An API token, and its secret, for the ID token of a job. An ID token is accepted once.

    RoleError if the trusted job `number` does not accept it; UnreachableError if that cannot be verified now.
    """
    job = TrustedJob.objects.select_related("user", "team").filter(pk=number).first()
    if job is None or job.issuer not in settings.CI_ISSUERS:
        raise _refused(f"there is no trusted job {number}")
    claims = id_token.verify(text, job.issuer)
    for name, value in job.claims.items():
        if _text(claims.get(name)) != value:
            raise _refused(f"the trusted job does not accept {name}={_text(claims.get(name))[:200]!r}")
    if reason := access.lapsed(job.user) or ("" if job.user.is_active else "its owner is deactivated"):
        raise _refused(reason)
    policy.check_may_issue_token(job.user)
    _use_once(text, claims)
    return _issue(job, str(claims["sub"]), address)


@transaction.atomic
def _issue(job: TrustedJob, subject: str, address: str) -> tuple[ApiToken, str]:
    secret, now = ApiToken.new_secret(), timezone.now()
    token = ApiToken.objects.create(
        user=job.user,
        job=job,
        name=f"CI: {job.name}"[:80],
        role=job.role,
        digest=ApiToken.hash(secret),
        expires_at=now + timedelta(minutes=job.minutes),
        scopes=job.scopes,
        team=job.team,
    )
    TrustedJob.objects.filter(pk=job.pk).update(last_used_at=now)
    audit(None, "token.exchange", token, after={**_facts(job), "subject": subject[:200], "address": address})
    return token, secret


def _use_once(text: str, claims: Mapping[str, Any]) -> None:
    """Refuse a token that was used before. The key leaves out the signature, which can have several encodings."""
    digest = hashlib.sha256(text.rpartition(".")[0].encode()).hexdigest()
    valid_s = max(0, int(claims["exp"]) - int(time.time())) + 2 * CLOCK_SKEW_S
    if not is_first_use("ci-id-token", digest, valid_s):
        raise _refused("this ID token was exchanged before")


def _check_claims(claims: Mapping[str, str]) -> None:
    if not set(claims) - UNSPECIFIC:
        hint = "for example: repository=acme/shop. Without such a claim, any job of the platform would be trusted"
        raise PlanError("claims", "no claim identifies the job", hint=hint)
    if len(claims) > MOST_CLAIMS:
        raise PlanError("claims", f"{len(claims)} claims", hint=f"accepted: at most {MOST_CLAIMS}")
    for name, value in claims.items():
        if not value or len(name) + len(value) > LONGEST_CLAIM:
            raise PlanError("claims", f"{name[:80]}={value[:80]} is not accepted", hint="accepted: NAME=VALUE")


def _text(claim: Any) -> str:
    """Return a claim as the form shows it: strings as they are, anything else as JSON."""
    return claim if isinstance(claim, str) else json.dumps(claim)


def _facts(job: TrustedJob) -> dict[str, Any]:
    about = {"job": job.name, "issuer": job.issuer, "claims": job.claims, "role": job.role, "scopes": job.scopes}
    return about | {"team": str(job.team or ""), "minutes": job.minutes}


def _refused(message: str) -> RoleError:
    return RoleError("CI sign-in", message, hint="compare the claims of the job with those on the page Account")
