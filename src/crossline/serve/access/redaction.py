"""Removes what must not stand in a log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from crossline.settings.kafka import is_secret

HIDDEN = "(secret)"
BYTES_MAX = 1 << 17
# What is matched begins at the begin of a run of its letters, or is short: time grows with the text and no faster.
_CREDENTIALS = re.compile(
    r"clk_[0-9A-Za-z]{8,}"  # our keys
    r"|(?<![0-9A-Za-z_-])eyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]*(?:\.[0-9A-Za-z_-]*)*"  # tokens
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_USER_IN_URL = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]{0,19}://)[^/@\s]+@")
_NAMES = frozenset(
    {"authorization", "cookie", "set-cookie", "api_key", "apikey", "credential", "credentials"}
    | {"token", "access_token", "id_token", "refresh_token"}
)


def redacted(value: Any) -> Any:
    """``value`` as JSON without credentials; of one that is very large only its size.

    What is called as a secret (``password``, ``…_secret``, ``authorization``) is hidden whatever it is; keys, tokens,
    private keys and users in addresses wherever they stand.

    Example:
        >>> redacted({"url": "https://u:p@h/", "password": "x", "key": {"account_id": "a1"}})
        {'url': 'https://(secret)@h/', 'password': '(secret)', 'key': {'account_id': 'a1'}}
    """
    try:
        plain = orjson.loads(orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS))
    except TypeError:
        plain = repr(value)[:1_000].encode("utf-8", "backslashreplace").decode()
    size = len(orjson.dumps(plain))
    return _without(plain) if size <= BYTES_MAX else {"left_out_bytes": size}


def _without(value: Any) -> Any:
    if isinstance(value, str):
        return _USER_IN_URL.sub(rf"\1{HIDDEN}@", _CREDENTIALS.sub(HIDDEN, value))
    if isinstance(value, Mapping):
        return {
            _without(name): HIDDEN if each is not None and _is_secret(name) else _without(each)
            for name, each in value.items()
        }
    return [_without(each) for each in value] if isinstance(value, list) else value


def _is_secret(name: str) -> bool:
    return name.lower() in _NAMES or is_secret(name)
