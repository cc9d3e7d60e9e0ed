"""The client's address, as trusted proxies report it; what other clients claim is ignored."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.http.response import HttpResponseBase

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
SCHEME = "HTTP_X_FORWARDED_PROTO"


def networks(name: str, values: Sequence[str]) -> list[Network]:
    """Parse each value as a network. ImproperlyConfigured names the first invalid one."""
    parsed = []
    for value in values:
        try:
            parsed.append(ipaddress.ip_network(value.strip()))
        except ValueError as error:
            raise ImproperlyConfigured(f"{name} contains {value!r}: use networks such as 172.18.0.0/16") from error
    return parsed


class ClientAddress:
    """Sets REMOTE_ADDR to the client's address, for sessions, login limits and gunicorn's access log. Without
    PROVING_TRUSTED_PROXIES it changes nothing."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if settings.TRUSTED_PROXIES:
            meta = request.META
            if _trusted(meta.get("REMOTE_ADDR", "")):
                meta["REMOTE_ADDR"] = client_of(meta["REMOTE_ADDR"], meta.get("HTTP_X_FORWARDED_FOR", ""))
            elif SCHEME in meta:
                meta[SCHEME] = ""  # Django would trust any client; metrics.py checks only that it is present
        return self.get_response(request)


def client_of(proxy: str, forwarded: str) -> str:
    """Return the last address in X-Forwarded-For that is not a trusted proxy. Clients can forge those before it."""
    client = proxy
    for hop in reversed([each.strip() for each in forwarded.split(",") if each.strip()]):
        try:
            ipaddress.ip_address(hop)
        except ValueError:
            return client
        client = hop
        if not _trusted(hop):
            return client
    return client


def _trusted(address: str) -> bool:
    try:
        client = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(client in network for network in settings.TRUSTED_PROXIES)
