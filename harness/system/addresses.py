"""Addresses of machines, as somebody writes them: an IPv6 address may have brackets around it."""

from __future__ import annotations

import ipaddress


def is_address(text: str) -> bool:
    """True if a text is an IPv4 or IPv6 address."""
    return _address(text) is not None


def is_loopback(host: str) -> bool:
    """True if a host is reached from its own machine alone: such an address, or `localhost`."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text[1:-1] if text.startswith("[") and text.endswith("]") else text)
    except ValueError:
        return None
