"""Variables of the collector that traces and metrics are sent to. No message contains the value of a header."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

TRACES, METRICS = "/v1/traces", "/v1/metrics"  # of OTLP over HTTP
NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
EXAMPLE = "http://collector.example.org:4318"
SHORTEST_S = 5  # between two batches of metrics


def traces_url(name: str, url: str) -> str:
    """Return the URL that spans are sent to, for the address of a collector; "" stays ""."""
    return _signal_url(name, url, TRACES)


def metrics_url(name: str, url: str) -> str:
    """Return the URL that metrics are sent to, for the address of a collector or the URL of one signal; "" stays ""."""
    return _signal_url(name, url, METRICS)


def _signal_url(name: str, url: str, signal: str) -> str:
    if not url:
        return ""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ImproperlyConfigured(f"{name} is not a URL: use one such as {EXAMPLE}") from None
    if parts.username is not None:
        raise ImproperlyConfigured(f"{name} contains a user or password: send them with PROVING_OTLP_HEADERS")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or re.search(r"\s", url):
        raise ImproperlyConfigured(f"{name} is {url!r}: use http:// or https://, a host and a port, as in {EXAMPLE}")
    base = parts.path.rstrip("/").removesuffix(TRACES).removesuffix(METRICS)
    return f"{parts.scheme}://{parts.netloc}{base}{signal}"


def headers(name: str, text: str) -> dict[str, str]:
    """Return the headers of `text`: NAME=VALUE, separated by commas. Values are percent-encoded."""
    return dict(_header(f"header {number} of {name}", part) for number, part in enumerate(_parts(text), 1))


def _parts(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def _header(which: str, part: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals:
        raise ImproperlyConfigured(f"{which} has no =: use NAME=VALUE, separated by commas")
    if not NAME.fullmatch(name):
        raise ImproperlyConfigured(f"{which} has no valid name before the =")
    decoded = unquote(value).strip()
    if not decoded or not decoded.isascii() or not decoded.isprintable():
        raise ImproperlyConfigured(f"{which} has no valid value: use printable ASCII, with %20 for a blank")
    return name, decoded


def share(name: str, value: float) -> float:
    """Return a share between 0 and 1."""
    if not 0 <= value <= 1:
        raise ImproperlyConfigured(f"{name} is {value:g}: use a number from 0 to 1")
    return value


def interval(name: str, seconds: int, collector: str) -> int:
    """Return the seconds between two batches of metrics; 0 sends none. `collector`: its URL, "" if there is none."""
    if seconds and seconds < SHORTEST_S:
        raise ImproperlyConfigured(f"{name} is {seconds}: use 0, which sends no metrics, or at least {SHORTEST_S}")
    if seconds and not collector:
        raise ImproperlyConfigured(f"{name} is {seconds}, but metrics need a collector: set PROVING_OTLP_ENDPOINT")
    return seconds
