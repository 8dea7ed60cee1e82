"""Why a record becomes a dead letter: the codes, what each means, a fault in its parts, and the exception with one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

from crossline.ingest.tokens.letters import QUOTE_NOTHING, TEXT_WITHHELD, VALUE_WITHHELD

Reason = Literal[
    "tombstone",
    "bad_header",
    "line_too_long",
    "bad_encoding",
    "malformed_json",
    "malformed_csv",
    "malformed_parquet",
    "malformed_archive",
    "malformed_avro",
    "unknown_schema",
    "not_an_object",
    "missing_field",
    "wrong_type",
    "bad_number",
    "bad_time",
    "time_out_of_range",
    "time_in_future",
]

# In the order of the checks: a record with several faults gets the first.
REASONS: dict[Reason, str] = {
    "tombstone": "a message of a topic without a value",
    "bad_header": "a message with a header that is not of the type that the stream declares",
    "line_too_long": "the record has more bytes than the limit; only its first 4 KiB are kept",
    "bad_encoding": "not UTF-8, a byte order mark inside the file, or half of a surrogate pair",
    "malformed_json": "not one JSON document, a key twice in an object, or nested too deep",
    "malformed_csv": "another number of fields than the header, or a quoted field that does not end on its line",
    "malformed_parquet": "a finished file, or rows of it, that cannot be decoded: a dead letter, with its first 4 KiB",
    "malformed_archive": "a compressed file that ends early or is damaged; it is one dead letter, with its first 4 KiB",
    "malformed_avro": "no value of the registry's wire format, or bytes that are not what their schema says",
    "unknown_schema": "a schema that the registry does not know, or that is none that records can be read by",
    "not_an_object": "a JSON document that is not an object, or a value of Avro that is no record",
    "missing_field": "a field that every record must have is absent, null, or an empty id",
    "wrong_type": "a field holds a value of another type than the stream declares",
    "bad_number": "NaN, an infinity, or a number too large for its type",
    "bad_time": "a text that is no RFC 3339 instant with its offset from UTC, or is a leap second (:60)",
    "time_out_of_range": "event or ingest time outside 1970-01-01 to 2200-01-01, another outside years 1 to 9999",
    "time_in_future": "event or ingest time later than when it was there to be read, by more than the stream allows",
}


@dataclass(frozen=True, slots=True)
class RecordFault:
    """One thing that is wrong with a record, in the parts of which its sentence is made.

    ``found``: in a few words; a whole sentence where ``expected`` is empty. ``field``: the dotted name of the field,
    empty where none is to blame. ``about``: what the sentence begins with then. ``lack``: how the field is not there.
    ``limit``: what the sentence says in place of ``expected``. ``note``: what follows the sentence.

    >>> RecordFault("wrong_type", "true", "number", "place.lat").sentence
    'field place.lat: found true, expected number'
    """

    reason: Reason
    found: str
    expected: str = ""
    field: str = ""
    about: str = ""
    lack: str = ""
    limit: str = ""
    note: str = ""

    @classmethod
    def missing(cls, field: str, kind: str) -> Self:
        """A field that every record must have is absent or null."""
        return cls("missing_field", "nothing", kind, field, lack="missing or null")

    @classmethod
    def empty_id(cls, field: str) -> Self:
        """The id is an empty text."""
        return cls("missing_field", '""', "an id", field, lack="empty")

    @classmethod
    def beyond(cls, field: str, found: str, bound: str) -> Self:
        """A number is too large for ``bound``."""
        return cls("bad_number", found, f"a number within {bound}", field, limit=f"beyond {bound}")

    @property
    def sentence(self) -> str:
        """The fault as the detail of a dead letter."""
        note = f"; {self.note}" if self.note else ""
        if not self.expected:
            return f"{self.found}{note}"
        subject = f"field {self.field}" if self.field else self.about
        if self.lack:
            return f"{subject} is {self.lack}, expected {self.expected}{note}"
        return f"{subject and subject + ': '}found {self.found}, {self.limit or 'expected ' + self.expected}{note}"

    def withheld(self) -> RecordFault:
        """The same without what the record has there, for streams with sensitive fields."""
        if self.reason in QUOTE_NOTHING:
            return self
        if self.field and self.expected and not self.lack:
            return replace(self, found=VALUE_WITHHELD)
        return RecordFault(self.reason, TEXT_WITHHELD)


class RefusedRecordError(Exception):
    """One record cannot be decoded, because of ``fault``. ``record_id`` is its id where that could be read."""

    def __init__(self, fault: RecordFault, record_id: str | None = None) -> None:
        super().__init__(fault)
        self.fault = fault
        self.record_id = record_id

    def __str__(self) -> str:
        return f"{self.fault.reason}: {self.fault.sentence}"
