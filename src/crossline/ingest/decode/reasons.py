"""Why a record becomes a dead letter: the codes, what each means, and the exception that carries one."""

from __future__ import annotations

from typing import Literal

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


class RefusedRecordError(Exception):
    """One record cannot be decoded. ``record_id`` is its id where that could be read."""

    def __init__(self, reason: Reason, detail: str, record_id: str | None = None) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason: Reason = reason
        self.detail = detail
        self.record_id = record_id
