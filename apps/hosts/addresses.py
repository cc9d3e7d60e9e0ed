"""Which addresses we connect to: resolved first, then held against the allow-list: a name cannot lead elsewhere."""

from __future__ import annotations

import ipaddress
import socket

from django.conf import settings

from apps.errors import HostError, PlanError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def resolve(name: str) -> str:
    """The first allowed address of `name`. PlanError when every address is refused, HostError when there is none."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise HostError(
            name, f"cannot be resolved: {error}", hint="check the address, or DNS of this server"
        ) from error
    addresses = [ipaddress.ip_address(entry[4][0]) for entry in found]
    for address in addresses:
        if allowed(address):
            return str(address)
    listed = ", ".join(settings.ADDRESS_ALLOW)
    hint = f"allowed are: {listed}; PROVING_ADDRESS_ALLOW changes that"
    raise PlanError("address", f"{name} ({addresses[0]}) is not in the networks that hosts may be in", hint=hint)


def allowed(address: Address) -> bool:
    """Never link-local (cloud metadata lives there), multicast or unspecified; else what the allow-list says."""
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return False
    return any(address in ipaddress.ip_network(network) for network in settings.ADDRESS_ALLOW)
