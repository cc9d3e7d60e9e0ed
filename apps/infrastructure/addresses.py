"""Which addresses we connect to: resolved first, then held against the allow-list: a name cannot lead elsewhere."""

from __future__ import annotations

import ipaddress
import socket

from django.conf import settings

from common.errors import HostError, PlanError

# Metadata addresses of clouds outside of the link-local networks: AWS with IPv6, Alibaba.
METADATA = ("fd00:ec2::254", "100.100.100.200")
HINT = "check the address, or DNS of this server"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def resolve(name: str) -> str:
    """Return the first allowed address of `name`. PlanError if all are refused, HostError if there are none."""
    try:
        entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # the latter for what can be no name, such as "db1..lan"
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise HostError(name, f"the address cannot be resolved: {reason}", hint=HINT) from error
    addresses = [ipaddress.ip_address(entry[4][0]) for entry in entries]
    for address in addresses:
        if allowed(address):
            return str(address)
    listed = ", ".join(settings.ADDRESS_ALLOW)
    hint = f"allowed: {listed}; set PROVING_ADDRESS_ALLOW to change this"
    raise PlanError("address", f"{name} ({addresses[0]}) is not in an allowed network", hint=hint)


def allowed(address: Address) -> bool:
    """Whether the server may connect to it: in a network of the allow-list, and not reserved."""
    plain = without_mapping(address)
    return not is_reserved(plain) and any(plain in ipaddress.ip_network(each) for each in settings.ADDRESS_ALLOW)


def is_reserved(address: Address) -> bool:
    """Whether it is link-local, the metadata of a cloud, multicast or unspecified: no contact leads there."""
    plain = without_mapping(address)
    return plain.is_link_local or plain.is_multicast or plain.is_unspecified or str(plain) in METADATA


def without_mapping(address: Address) -> Address:
    """The IPv4 address that an IPv6 address such as ::ffff:10.0.0.1 stands for."""
    return (address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None) or address
