"""The records of a batch, each as its client wrote it: what a reader of JSON would make of it is for the stream to say.

A record that is read and written again has lost what it was refused for: a key that stands twice, say, of which readers
take one or the other.
"""

from __future__ import annotations

import json
import re

_BEGIN = re.compile(r'[ \t\n\r]*\{[ \t\n\r]*"records"[ \t\n\r]*:[ \t\n\r]*\[')
_BLANK = re.compile(r"[ \t\n\r]*")
_END = re.compile(r"[ \t\n\r]*\}[ \t\n\r]*\Z")
# Numbers are not looked at: nothing is made of them here, however long they are.
_READER = json.JSONDecoder(parse_int=str, parse_float=str)


class NoBatchError(ValueError):
    """The body is no JSON, or not ``{"records": [...]}``."""


def records_of(body: bytes) -> list[bytes]:
    """The JSON of each record in ``body``. Raises NoBatchError.

    >>> records_of(b'{"records": [{"id": "a"}, 7]}')
    [b'{"id": "a"}', b'7']
    """
    try:
        text = body.decode()
        begun = _BEGIN.match(text)
        if begun is None:
            _READER.decode(text)
            raise NoBatchError('found another form; expected one JSON object, {"records": [...]}')
        found, at = _items(text, begun.end())
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NoBatchError(f"the body is no JSON: {error}") from None
    if _END.match(text, at) is None:
        raise NoBatchError('found more than records; expected one JSON object, {"records": [...]}')
    return found


def _items(text: str, at: int) -> tuple[list[bytes], int]:
    """The items of a list that begins at ``at``, and where it has ended. Raises JSONDecodeError, RecursionError."""
    found: list[bytes] = []
    at = _beyond(text, at)
    if text[at : at + 1] == "]":
        return found, at + 1
    while True:
        _, end = _READER.raw_decode(text, at)
        found.append(text[at:end].encode())
        at = _beyond(text, end)
        sign = text[at : at + 1]
        if sign == "]":
            return found, at + 1
        if sign != ",":
            raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
        at = _beyond(text, at + 1)


def _beyond(text: str, at: int) -> int:
    """Behind the blanks that stand there."""
    blank = _BLANK.match(text, at)
    return at if blank is None else blank.end()
