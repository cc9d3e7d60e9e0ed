"""Users who browse all kinds of pages and write through the API, and what each request came to, by phase."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlencode

from embedded.stack import ADDRESS

PATIENCE_S, THINK_S = 60.0, 0.5
LINK = re.compile(r'href="(/[^"#]*)"')
CSRF = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
KEYS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|\d+")
# Links that are not followed: static files, the end of the session, and links out of the pages to the API's own pages.
LEFT_OUT = re.compile(r"^/(static|logout|api/v1/schema|api/schema)")
# The lists of the API.
API = """
hosts troubles identities profiles settings workloads datasets datacopies recipes campaigns runs runparts artefacts
series measurements imports pins decisions tokens sessions users teams channels deliveries audit timeline version
"""


@dataclass
class Answers:
    """What requests came to in one phase; times in seconds by kind of address."""

    seconds: float = 0.0
    taken: dict[str, list[float]] = field(default_factory=dict)
    failed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)  # 4xx

    @property
    def count(self) -> int:
        return sum(map(len, self.taken.values()))

    @property
    def slowest(self) -> tuple[float, str]:
        return max(((max(times), kind) for kind, times in self.taken.items()), default=(0.0, ""))


@dataclass
class Front:
    """What a load balancer knows: the web server that gets the next request. And the phase of the upgrade."""

    port: int
    phase: str = ""
    answers: dict[str, Answers] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)  # kind and status -> the first such response
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        began = time.monotonic()
        self.phase = phase
        of_phase = self.answers.setdefault(phase, Answers())
        yield
        of_phase.seconds += time.monotonic() - began

    def note(self, phase: str, kind: str, status: int | str, seconds: float, body: bytes) -> None:
        """A response, or the name of the error if there was none."""
        with self.lock:
            answers = self.answers[phase]
            answers.taken.setdefault(kind, []).append(seconds)
            if isinstance(status, str) or status >= 500:
                answers.failed[f"{kind}: {status}"] += 1
            elif status >= 400:
                answers.refused[f"{kind}: {status}"] += 1
            else:
                return
            self.examples.setdefault(f"{kind}: {status}", body[:600].decode(errors="replace"))


class Browser:
    """One connection, kept alive, with the cookies of one session or an API token."""

    def __init__(self, front: Front, token: str = "") -> None:
        self.front, self.token = front, token
        self.cookies: dict[str, str] = {}
        self.connection, self.port = HTTPConnection(ADDRESS, front.port, timeout=PATIENCE_S), front.port

    def ask(self, method: str, path: str, body: Any = None, form: bool = False) -> tuple[int, bytes]:
        """(status, body), counted in the phase in which it began; (0, b"") without a response."""
        phase, kind = self.front.phase, f"{method} {kind_of(path)}"
        began = time.monotonic()
        try:
            status, content = self._try(method, path, body, form)
        except (OSError, HTTPException) as error:
            self.connection.close()
            self.front.note(phase, kind, type(error).__name__, time.monotonic() - began, str(error).encode())
            return 0, b""
        self.front.note(phase, kind, status, time.monotonic() - began, content)
        return status, content

    def _try(self, method: str, path: str, body: Any, form: bool) -> tuple[int, bytes]:
        if self.port != self.front.port:
            self.connection.close()
            self.connection, self.port = HTTPConnection(ADDRESS, self.front.port, timeout=PATIENCE_S), self.front.port
        used = self.connection.sock is not None
        try:
            return self._answer(method, path, body, form)
        except (ConnectionResetError, BrokenPipeError):  # RemoteDisconnected is one
            if not used:
                raise
            self.connection.close()  # the server ended the idle connection, so it has not read the request
            return self._answer(method, path, body, form)

    def _answer(self, method: str, path: str, body: Any, form: bool) -> tuple[int, bytes]:
        kind = "application/x-www-form-urlencoded" if form else "application/json"
        headers = {"Content-Type": kind, "Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        headers |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        content = None if body is None else (urlencode(body) if form else json.dumps(body)).encode()
        self.connection.request(method, path, content, headers)
        response = self.connection.getresponse()
        for name, value in response.getheaders():
            if name.lower() == "set-cookie":
                cookie, _, worth = value.partition(";")[0].partition("=")
                self.cookies[cookie] = worth
        return response.status, response.read()

    def log_in(self, name: str, password: str) -> bool:
        """With the form, as users do."""
        _, page = self.ask("GET", "/login/")
        token = CSRF.search(page.decode())
        if token is None:
            return False
        form = {"csrfmiddlewaretoken": token[1], "username": name, "password": password}
        return self.ask("POST", "/login/", form, form=True)[0] == 302


def kind_of(path: str) -> str:
    """An address without keys and values."""
    address, _, query = path.partition("?")
    names = sorted({each.partition("=")[0] for each in query.split("&") if each})
    return KEYS.sub("*", address) + (f"?{'&'.join(names)}" if names else "")


class Reader(threading.Thread):
    """Follows links, those of the kinds that were requested least in this phase first."""

    def __init__(self, front: Front, number: int, account: tuple[str, str]) -> None:
        super().__init__(daemon=True)
        self.browser, self.account = Browser(front), account
        self.chance = random.Random(number)
        self.known: dict[str, list[str]] = {}
        self.stopped = threading.Event()

    def run(self) -> None:
        assert self.browser.log_in(*self.account), f"{self.account[0]} cannot log in"
        self._learn(["/", *(f"/api/v1/{name}/" for name in API.split())])
        while not self.stopped.wait(self.chance.expovariate(1 / THINK_S)):
            status, page = self.browser.ask("GET", self._next())
            if status == 200:
                self._learn(path.replace("&amp;", "&") for path in LINK.findall(page.decode(errors="replace")))

    def _learn(self, paths: Any) -> None:
        for path in paths:
            if not LEFT_OUT.match(path):
                examples = self.known.setdefault(kind_of(path), [])
                if path not in examples:
                    examples.append(path)

    def _next(self) -> str:
        with self.browser.front.lock:
            answers = self.browser.front.answers[self.browser.front.phase]
            asked = {kind: len(answers.taken.get(f"GET {kind}", ())) for kind in self.known}
        least = min(asked.values())
        return self.chance.choice(self.known[self.chance.choice([kind for kind in asked if asked[kind] == least])])


class Writer(threading.Thread):
    """Adds, changes and removes one thing of each kind through the API, again and again."""

    def __init__(self, front: Front, token: str, account: tuple[str, str], host: dict[str, Any], campaign: str) -> None:
        super().__init__(daemon=True)
        self.browser, self.account, self.host, self.campaign = Browser(front, token), account, host, campaign
        self.stopped = threading.Event()
        self.rounds = 0

    def run(self) -> None:
        while not self.stopped.is_set():
            self.rounds += 1
            for write in (self.tokens, self.accounts, self.designs, self.decisions, self.hosts, self.sessions):
                if self.stopped.wait(0.1):
                    return
                write(f"u{self.rounds}")

    def call(self, method: str, path: str, body: Any = None) -> Any:
        _, content = self.browser.ask(method, f"/api/v1/{path}", body)
        try:
            return json.loads(content)
        except ValueError:
            return {}

    def add(self, path: str, **body: Any) -> Any:
        return self.call("POST", path, body).get("id", 0)

    def tokens(self, name: str) -> None:
        key = self.add("tokens/", name=name, role="viewer", days=1)
        self.call("DELETE", f"tokens/{key}/")

    def accounts(self, name: str) -> None:
        user = self.add("users/", username=name, email=f"{name}@example.org", role="viewer")
        self.call("PATCH", f"users/{user}/", {"role": "operator"})
        team = self.add("teams/", name=name, about="of this test")
        self.call("PATCH", f"teams/{team}/", {"about": "renamed"})
        self.call("DELETE", f"teams/{team}/")
        channel = self.add("channels/", name=name, kind="webhook", address="http://127.0.0.1:9/", events=[])
        self.call("PATCH", f"channels/{channel}/", {"active": False})

    def designs(self, name: str) -> None:
        workload = self.add("workloads/", name=name, kind="pgbench", options={"builtin": "select-only", "time_s": 2})
        profile = self.add("profiles/", name=name, settings={"cpu_affinity": {"server": "0"}})
        self.call("POST", f"profiles/{profile}/revisions/", {"settings": {"cpu_affinity": {"server": "1"}}})
        draft = self.add(
            "campaigns/",
            name=name,
            question="does it run?",
            host=self.host["id"],
            workload=workload,
            factors=[{"name": "cpu", "levels": [{"label": "0", "set": {"settings.cpu_affinity.server": "0"}}]}],
            repetitions=1,
        )
        self.call("POST", f"campaigns/{draft}/clone/", {})

    def decisions(self, name: str) -> None:
        body = {"campaign": self.campaign, "title": name, "decision": "keep it", "hosts": [self.host["id"]]}
        decision = self.add("decisions/", **body)
        self.call("POST", f"decisions/{decision}/comments/", {"text": "measured"})
        self.call("POST", f"decisions/{decision}/accept/", {})

    def hosts(self, name: str) -> None:
        fields = ("address", "port", "user", "identity", "python", "spool_dir", "data_dir", "pg_bin_dirs")
        host = self.add("hosts/", name=name, **{field: self.host[field] for field in fields})
        offered = self.call("POST", f"hosts/{host}/fetch-host-key/", {})
        self.call("POST", f"hosts/{host}/approve-host-key/", {"fingerprint": offered.get("fingerprint", "")})
        self.call("DELETE", f"hosts/{host}/")

    def sessions(self, _: str) -> None:
        Browser(self.browser.front).log_in(*self.account)
