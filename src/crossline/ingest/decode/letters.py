"""Dead letters of records that cannot be decoded."""

from __future__ import annotations

from crossline.basics.deadletter import DeadLetter
from crossline.ingest.decode.layout import RecordLayout
from crossline.ingest.decode.reasons import RecordFault
from crossline.ingest.tokens.letters import WITHHELD


def letter_of(
    layout: RecordLayout, fault: RecordFault, partition: str, offset: int, raw: bytes, record_id: str | None
) -> DeadLetter:
    """The dead letter of a record: without its bytes and its values, where the stream has sensitive fields."""
    if layout.tokens is not None:
        fault, raw = fault.withheld(), WITHHELD
    return DeadLetter(layout.stream, fault.reason, fault.sentence, partition, offset, raw, record_id)
