"""The ID token of the CI job in which this program runs."""

from __future__ import annotations

import os

import httpx

from proving.errors import UsageError

VARIABLE = "PROVING_ID_TOKEN"
# GitHub Actions sets both if the job has the permission `id-token: write`.
GITHUB_URL, GITHUB_TOKEN = "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
TIMEOUT_S = 30


def read(audience: str) -> str:
    """Return the token from the environment, or from GitHub Actions for this audience. UsageError if there is none."""
    if token := os.environ.get(VARIABLE):
        return token.strip()
    url, secret = os.environ.get(GITHUB_URL), os.environ.get(GITHUB_TOKEN)
    if not (url and secret):
        accepted = f"{VARIABLE} in GitLab and others; in GitHub Actions, the permission id-token: write"
        raise UsageError("no ID token is available", field="--ci", value="", accepted=accepted)
    headers = {"Authorization": f"Bearer {secret}"}
    try:
        address = httpx.URL(url).copy_merge_params({"audience": audience})  # the URL already has parameters
        answer = httpx.get(address, headers=headers, timeout=TIMEOUT_S)
        return str(answer.raise_for_status().json()["value"])
    except (httpx.HTTPError, ValueError, KeyError) as error:
        message = f"GitHub Actions gives no ID token: {error}"
        raise UsageError(message, field="--ci", value=url, accepted="a job that may request ID tokens") from error
