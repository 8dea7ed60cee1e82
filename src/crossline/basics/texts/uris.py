"""URIs of places on an object store or in HDFS, as a checkpoint may name them; and which hosts are this machine."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

A_SECRET = "a secret"  # noqa: S105 - the word, not one: reports leave out the line
ENDPOINT, REGION = "endpoint", "region"
_SCHEMES = ("s3", "s3a", "hdfs")
_FORMS = "a folder, s3://BUCKET/PREFIX (or s3a://) or hdfs://HOST:PORT/PATH"

_NO_SECRETS = (
    "no credentials in a URI: they come from the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), ~/.aws or "
    "a role"
)


def asked_in(query: str) -> dict[str, str]:
    """The settings of a query, as written: an address needs no escapes."""
    return {name: value for name, _, value in (each.partition("=") for each in query.split("&") if each)}


def check_uri(uri: str) -> tuple[str, str] | None:
    """What is wrong with a URI, and what was expected; None where nothing is. Secrets are not repeated."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "no URI", _FORMS
    if "@" in parts.netloc or "@" in parts.query:
        return A_SECRET, _NO_SECRETS
    wrong = {
        f"a URI of scheme {parts.scheme or '(none)'}": parts.scheme not in _SCHEMES,
        "a URI without a bucket or host, or without a path of its own": not parts.netloc or not parts.path.strip("/"),
        "a URI with # or ..": bool(parts.fragment) or ".." in parts.path.split("/"),
    }
    if any(wrong.values()):
        return next(what for what, is_so in wrong.items() if is_so), _FORMS
    known = {ENDPOINT, REGION} if parts.scheme != "hdfs" else set()
    unknown = [name for name in asked_in(parts.query) if name not in known]
    if unknown:
        return f"the setting {unknown[0]} in a URI", "?endpoint=URL&region=NAME, of s3:// alone"
    return None


def is_loopback(host: str) -> bool:
    """Whether ``host`` (a name, or an address without brackets) is ``localhost``, of 127.0.0.0/8, or ``::1``.

    Plain text sent there does not leave the machine.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
