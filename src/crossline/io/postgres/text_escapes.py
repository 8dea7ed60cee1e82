"""Escapes characters that PostgreSQL text cannot hold.

PostgreSQL text and JSON operators accept no NUL, and no unpaired surrogates. A record may contain either. Such a record
must not stop a batch, nor break a query of the table. So an escape stands for the character: U+F8FE (of the private
area), then ``0`` for NUL, four digits for half a pair, ``m`` for the mark itself.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from crossline.evaluate.alerts.alert_json import json_bytes

MARK = "\uf8fe"
BYTES_MAX = 1_024
_UNHELD = re.compile(f"[\0\ud800-\udfff{MARK}]")
_MARKED = re.compile(f"{MARK}(0|m|[0-9a-f]{{4}})")


def escape(text: str) -> str:
    """``text`` in a form that PostgreSQL holds; ``unescape`` is the way back."""
    if text.isascii() and "\0" not in text:
        return text
    return _UNHELD.sub(_mark, text)


def _mark(match: re.Match[str]) -> str:
    found = match[0]
    if found == "\0":
        return f"{MARK}0"
    return f"{MARK}m" if found == MARK else f"{MARK}{ord(found):04x}"


def unescape(text: str) -> str:
    """The inverse of ``escape``."""
    return _MARKED.sub(_meant, text) if MARK in text else text


def _meant(match: re.Match[str]) -> str:
    name = match[1]
    if name == "0":
        return "\0"
    return MARK if name == "m" else chr(int(name, 16))


def indexed(text: str) -> str:
    """``text`` as ``escape`` gives it, for a column with an index: an entry has room for some 2,700 bytes.

    A text longer than BYTES_MAX is truncated, with a digest in place of the rest, so that lookups still find it.
    """
    kept = escape(text)
    if len(kept) * 4 <= BYTES_MAX:
        return kept
    data = kept.encode()
    if len(data) <= BYTES_MAX:
        return kept
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    return f"{data[: BYTES_MAX // 2].decode(errors='ignore')}…{digest}"


def escape_value(value: Any) -> Any:
    """A JSON value with all of its texts, names too, as ``escape`` gives them."""
    return _over(value, escape)


def held(encoded: bytes, value: Any) -> bytes:
    """``value``, which ``encoded`` is, as JSON that PostgreSQL holds."""
    return json_bytes(escape_value(value)) if held_otherwise(encoded) else encoded


def held_otherwise(encoded: bytes) -> bool:
    """Whether PostgreSQL holds JSON in another form than ``encoded``."""
    # A single byte is looked for ten times as fast as several.
    return (b"\\" in encoded and _NUL in encoded) or (not encoded.isascii() and _MARK_BYTES in encoded)


_NUL, _MARK_BYTES = rb"\u0000", MARK.encode()  # as they stand in JSON


def unescape_value(value: Any) -> Any:
    """The inverse of ``escape_value``."""
    return _over(value, unescape)


def _over(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(name) if isinstance(name, str) else name: _over(each, change) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_over(each, change) for each in value]
    return value
