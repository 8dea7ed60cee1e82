"""Dead letters of streams with sensitive fields: where the record is and why it was refused, without its bytes.

Who the person is cannot be known of a record that cannot be decoded, so nothing of it can be put under a key. Values
of other fields are withheld too: in a record at fault, a value may stand in the place of another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from crossline.basics.deadletter import DeadLetter

# What stands in the place of the bytes of a record.
WITHHELD = b"(withheld: the stream has sensitive fields; the record is in its source)"
TEXT_WITHHELD = "the text is withheld: the stream has sensitive fields"
VALUE_WITHHELD = "a value that is withheld"
# Reasons whose sentences quote nothing of the record.
QUOTE_NOTHING = frozenset({"tombstone", "line_too_long", "unknown_schema", "malformed_archive", "malformed_parquet"})


def withheld(offsets: Iterable[int]) -> dict[int, bytes]:
    """What stands in the place of the bytes of records at ``offsets``."""
    return dict.fromkeys(offsets, WITHHELD)


def without_values(letters: Iterable[DeadLetter]) -> list[DeadLetter]:
    """``letters`` without the bytes of their records, and without the sentences that may quote them."""
    return [
        replace(each, raw=WITHHELD, detail=each.detail if each.reason in QUOTE_NOTHING else TEXT_WITHHELD)
        for each in letters
    ]
