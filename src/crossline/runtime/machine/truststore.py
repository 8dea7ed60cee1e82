"""The certificates that this machine trusts, as a file that Java reads (format JKS)."""

from __future__ import annotations

import hashlib
import os
import ssl
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

_MAGIC, _VERSION, _TRUSTED_CERTIFICATE = 0xFEEDFEED, 2, 2
# Java asks for none of a trust store, and then does not look at the digest at its end. This one is Java's custom.
PASSWORD = "changeit"  # noqa: S105 - public by custom, guards nothing


def certificates(environment: Mapping[str, str] = os.environ) -> list[bytes]:
    """The trusted certificates in DER form: those of Python's own bundle, and of pip's configured file."""
    context = ssl.create_default_context()
    given = environment.get("PIP_CERT")
    if given and Path(given).is_file():
        context.load_verify_locations(given)
    return context.get_ca_certs(binary_form=True)


def write_trust_store(path: Path, trusted: Sequence[bytes]) -> None:
    """Write a JKS file with ``trusted`` (DER) as trusted authorities."""
    entries = [
        struct.pack(">I", _TRUSTED_CERTIFICATE)
        + _utf(f"ca{number}")
        + struct.pack(">Q", 0)
        + _utf("X.509")
        + struct.pack(">I", len(each))
        + each
        for number, each in enumerate(trusted)
    ]
    body = struct.pack(">III", _MAGIC, _VERSION, len(entries)) + b"".join(entries)
    salted = PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body
    path.write_bytes(body + hashlib.sha1(salted, usedforsecurity=False).digest())


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")
