"""Which addresses we connect to: resolved first, then held against the allow-list: a name cannot lead elsewhere."""

from __future__ import annotations

import ipaddress
import socket

from django.conf import settings

from common.errors import HostError, PlanError

# Where clouds keep metadata outside of the link-local networks: AWS by IPv6, Alibaba.
METADATA = ("fd00:ec2::254", "100.100.100.200")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def resolve(name: str) -> str:
    """The first allowed address of `name`. PlanError when every address is refused, HostError when there is none."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # the latter for what can be no name, such as "db1..lan"
        raise HostError(
            name, f"cannot be resolved: {error}", hint="check the address, or DNS of this server"
        ) from error
    addresses = [ipaddress.ip_address(entry[4][0]) for entry in found]
    for address in addresses:
        if allowed(address):
            return str(address)
    listed = ", ".join(settings.ADDRESS_ALLOW)
    hint = f"allowed: {listed}; set PROVING_ADDRESS_ALLOW to change this"
    raise PlanError("address", f"{name} ({addresses[0]}) is not in an allowed network", hint=hint)


def allowed(address: Address) -> bool:
    """Never link-local, metadata of a cloud, multicast or unspecified; else what the allow-list says."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if address.is_link_local or address.is_multicast or address.is_unspecified or str(address) in METADATA:
        return False
    return any(address in ipaddress.ip_network(network) for network in settings.ADDRESS_ALLOW)
