"""The REST API. All network access is in this module."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Any

import httpx

from proving import version
from proving.config import Login
from proving.errors import ProblemError, UnreachableError, UsageError

TIMEOUT_S = 120
WAIT_S = 0.5
LONGEST_WAIT_S = 60.0
TRIED_AGAIN = (409, 429, 502, 503, 504)


class Client:
    """Calls below /api/v1/. ProblemError with the server's message, UnreachableError if nothing answers in time."""

    def __init__(self, login: Login, patience_s: float = 0.0) -> None:
        self.url, self.patience_s = login.url, patience_s
        headers = {"User-Agent": f"proving/{version.number()}"}
        headers |= {"Authorization": f"Bearer {login.token}"} if login.token else {}
        self._http = httpx.Client(base_url=f"{login.url}/api/v1/", headers=headers, timeout=TIMEOUT_S)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.close()

    def get(self, path: str, **params: Any) -> Any:
        return self._send("GET", path, params=params).json()

    def post(self, path: str, body: Any = None, *, files: Any = None) -> Any:
        """Send a request with an idempotency key, so that a repetition after a lost response has no second effect."""
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        sent = {"files": files} if files else {"json": {} if body is None else body}
        return self._send("POST", path, headers=headers, **sent).json()

    def delete(self, path: str) -> None:
        self._send("DELETE", path)

    def rows(self, path: str, limit: int = 0, **params: Any) -> Iterator[dict[str, Any]]:
        """Yield the rows of a list, page by page; at most `limit` unless it is 0."""
        page, count = self.get(path, **{"page_size": min(limit or 500, 500), **params}), 0
        while True:
            for row in page["results"]:
                yield row
                count += 1
                if count == limit:
                    return
            if not page["next"]:
                return
            page = self._send("GET", self._here(page["next"])).json()

    def _here(self, address: str) -> httpx.URL:
        """Return a URL from a response at the configured server, so that the token is never sent to another one."""
        return httpx.URL(self.url).copy_with(raw_path=httpx.URL(address).raw_path)

    def download(self, path: str, target: IO[bytes]) -> int:
        """Download a file. Returns its number of bytes. A partial download is an error and is not resumed."""
        try:
            with self._http.stream("GET", path) as answer:
                if answer.is_error:
                    answer.read()
                    raise problem(answer)
                return sum(target.write(part) for part in answer.iter_bytes())
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _send(self, method: str, path: str | httpx.URL, **sent: Any) -> httpx.Response:
        """Send a request. Repeats it within the patience while the server is unavailable, asks to wait, or is still
        processing it."""
        until, wait = time.monotonic() + self.patience_s, WAIT_S
        while True:
            try:
                answer = self._http.request(method, path, **sent)
            except httpx.TransportError as error:
                if time.monotonic() + wait > until:
                    raise self._unreachable(error) from error
            except httpx.InvalidURL as error:
                raise UsageError(str(error), field="URL", value=self.url) from error
            else:
                if not answer.is_error and not answer.is_redirect:
                    return answer
                wait = _retry_after(answer, wait)
                if answer.status_code not in TRIED_AGAIN or time.monotonic() + wait > until:
                    raise problem(answer, sent.get("json"))
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_S)

    def _unreachable(self, error: Exception) -> UnreachableError:
        message = f"{self.url} does not answer: {error}"
        return UnreachableError(message, accepted="check that the server runs, and that PROVING_URL is right")


def _retry_after(answer: httpx.Response, wait: float) -> float:
    header = answer.headers.get("Retry-After", "")
    return float(header) if header.isdecimal() else wait


def problem(answer: httpx.Response, sent: Any = None) -> ProblemError:
    """Return the server's error; a short one if another program answered."""
    if answer.headers.get("Content-Type", "").startswith("application/problem+json"):
        return ProblemError(answer.status_code, answer.json(), sent)
    title = f"{answer.request.url} answers {answer.status_code} {answer.reason_phrase}"
    return ProblemError(
        answer.status_code, {"title": title, "hint": "check that the address is that of a Proving Ground server"}
    )
