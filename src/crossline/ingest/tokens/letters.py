"""Dead letters of streams with sensitive fields: where the record is and why it was refused, without its bytes.

Who the person is cannot be known of a record that cannot be decoded, so nothing of it can be put under a key. Values
of other fields are withheld too: in a record at fault, a value may stand in the place of another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from crossline.basics.deadletter import DeadLetter

# What stands in the place of the bytes of a record.
WITHHELD = b"(withheld: the stream has sensitive fields; the record is in its source)"
_FIELD = re.compile(r"field (?P<name>.+?): found .*, (?P<rest>(?:expected|beyond) .*)", re.DOTALL)
# Reasons whose details quote nothing of the record.
_QUOTE_NOTHING = frozenset({"tombstone", "line_too_long", "unknown_schema", "malformed_archive", "malformed_parquet"})


def withheld(offsets: Iterable[int]) -> dict[int, bytes]:
    """What stands in the place of the bytes of records at ``offsets``."""
    return dict.fromkeys(offsets, WITHHELD)


def without_values(letters: Iterable[DeadLetter]) -> list[DeadLetter]:
    """``letters`` without the bytes of their records, and without values in their texts."""
    return [replace(each, raw=WITHHELD, detail=_detail(each)) for each in letters]


def _detail(letter: DeadLetter) -> str:
    if letter.reason in _QUOTE_NOTHING:
        return letter.detail
    field = _FIELD.fullmatch(letter.detail)
    if field is None:
        return "the text is withheld: the stream has sensitive fields"
    return f"field {field['name']}: found a value that is withheld, {field['rest']}"
