"""A fault's sentence is made of its parts; without what the record has there, where that is withheld."""

from __future__ import annotations

import pytest

from crossline.ingest.decode.reasons import RecordFault, RefusedRecordError

WITHHELD = "the text is withheld: the stream has sensitive fields"


@pytest.mark.parametrize(
    ("fault", "sentence", "withheld"),
    [
        (
            RecordFault("wrong_type", 'string "5, expected 6"', "integer", "a.b"),
            'field a.b: found string "5, expected 6", expected integer',
            "field a.b: found a value that is withheld, expected integer",
        ),
        (
            RecordFault.beyond("a", "99", "a 64-bit float"),
            "field a: found 99, beyond a 64-bit float",
            "field a: found a value that is withheld, beyond a 64-bit float",
        ),
        (RecordFault.missing("a", "integer"), "field a is missing or null, expected integer", WITHHELD),
        (RecordFault.empty_id("a"), "field a is empty, expected an id", WITHHELD),
        (RecordFault("not_an_object", "a list", "an object"), "found a list, expected an object", WITHHELD),
        (
            RecordFault("bad_encoding", "byte 0xff at byte 3", "UTF-8", about="not UTF-8"),
            "not UTF-8: found byte 0xff at byte 3, expected UTF-8",
            WITHHELD,
        ),
        (RecordFault("malformed_json", "nested too deep"), "nested too deep", WITHHELD),
        (
            RecordFault("wrong_type", "string", "integer", "a", note="by schema 7"),
            "field a: found string, expected integer; by schema 7",
            "field a: found a value that is withheld, expected integer; by schema 7",
        ),
        (RecordFault("unknown_schema", "no schema 7"), "no schema 7", "no schema 7"),
        (
            RecordFault("line_too_long", "9 bytes", "at most 8"),
            "found 9 bytes, expected at most 8",
            "found 9 bytes, expected at most 8",
        ),
    ],
)
def test_the_sentence_of_a_fault(fault: RecordFault, sentence: str, withheld: str) -> None:
    assert fault.sentence == sentence
    assert fault.withheld().sentence == withheld
    assert str(RefusedRecordError(fault)) == f"{fault.reason}: {sentence}"
