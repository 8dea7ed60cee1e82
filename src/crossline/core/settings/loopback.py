"""Addresses that only this machine gets to: what is sent there in the clear is read by nobody on the way."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether ``host`` (a name, or an address without brackets) is ``localhost``, of 127.0.0.0/8, or ``::1``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
