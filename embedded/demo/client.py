"""The REST API for the demo. It uses the same endpoints as any script."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from embedded.errors import StackError, UnansweredError

TIMEOUT_S = 60


class Client:
    """Calls below `base_url`/api/v1/ with a token. StackError with the server's reply, UnansweredError without one."""

    def __init__(self, base_url: str, token: str) -> None:
        self.base_url, self.token = base_url, token

    def get(self, path: str) -> Any:
        return self._call("GET", path, None)

    def post(self, path: str, /, **body: Any) -> Any:
        return self._call("POST", path, body)

    def patch(self, path: str, /, **body: Any) -> Any:
        return self._call("PATCH", path, body)

    def _call(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.base_url}/api/v1/{path}", data, headers, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - our own server
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            message = error.read().decode(errors="replace")[:1000]
            raise StackError(f"{method} {path}: {error.code} {message}") from error
        except OSError as error:
            raise UnansweredError(f"{method} {path}: {error}") from error
