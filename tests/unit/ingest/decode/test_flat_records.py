"""What the plain form takes is what the naive reader takes, to the last value; what it leaves is anybody's."""

from __future__ import annotations

import pytest
from decode_naive import Bad, take
from decode_records import line_bytes
from decode_streams import layout_of, stream
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.streams.schema import StreamSpec
from crossline.ingest.decode import PlainForm
from crossline.ingest.decode.clock import TIME_MS_END

FLAT = stream("""
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, account: string?, amount: integer, score: number?, ok: boolean?, at: integer}
""")
TWO_TIMES = stream("""
    id: id
    event_time: {field: at, unit: us}
    ingest_time: {field: amount, unit: s}
    fields: {id: string, amount: integer, at: integer}
""")
FORMS = {name: (spec, PlainForm.of(layout_of(spec))) for name, spec in (("flat", FLAT), ("two times", TWO_TIMES))}


@settings(max_examples=600, deadline=None)
@given(st.data(), st.sampled_from(sorted(FORMS)))
def test_what_it_takes_the_naive_reader_takes(data: st.DataObject, name: str) -> None:
    spec, form = FORMS[name]
    line = data.draw(line_bytes(spec))
    found = None if form is None else form.read(line, TIME_MS_END)
    if found is None:
        return
    record_id, document = found
    wanted = take(spec, line)  # raises Bad where it is refused
    assert record_id == wanted[spec.id]
    assert form is not None
    assert form.event_ms(document) == wanted["@event"]
    given_fields = {each: document.get(each) for each in spec.columns}
    assert given_fields == {each: wanted[each] for each in spec.columns}


GOOD = b'{"id":"r1","amount":12,"at":1767225600000,"ok":true,"score":1,"more":"x","account":null}'


def test_a_flat_record_is_taken() -> None:
    _, form = FORMS["flat"]
    assert form is not None
    found = form.read(GOOD, 1_767_225_600_000)
    assert found is not None
    assert (found[0], form.event_ms(found[1])) == ("r1", 1_767_225_600_000)


LATEST_MS = 1_767_225_600_000 - 3_600_000


@pytest.mark.parametrize(
    "line",
    [
        GOOD.replace(b"12,", b'12,"amount":12,'),
        GOOD.replace(b"12,", b"12.0,"),
        GOOD.replace(b"12,", b"9223372036854775808,"),
        GOOD.replace(b"12,", b"true,"),
        GOOD.replace(b"r1", b""),
        GOOD.replace(b'"r1"', b"7"),
        GOOD.replace(b"r1", b"r\\n"),
        GOOD.replace(b'"x"', b"[]"),
        GOOD.replace(b'"x"', b"{}"),
        GOOD.replace(b"1767225600000", b"7258118400000"),
        GOOD.replace(b"1767225600000", b"-1"),
        GOOD.replace(b"1767225600000", b"1767225600001"),
        GOOD.replace(b'"amount":12,', b""),
        b"[" + GOOD + b"]",
        GOOD + GOOD,
        GOOD[:-1],
        b"",
        b"\xef\xbb\xbf" + GOOD,
        GOOD.replace(b'"x"', b'"' + b"x" * 20_000 + b'"'),
    ],
)
def test_what_is_not_certain_is_left(line: bytes) -> None:
    _, form = FORMS["flat"]
    assert form is not None
    assert form.read(line, LATEST_MS) is None


@pytest.mark.parametrize(
    "body",
    [
        "{id: id, event_time: {field: at, unit: iso8601}, fields: {id: string, at: string}}",
        "{id: id, event_time: {field: at, unit: s}, fields: {id: string, at: number}}",
        "{id: id, event_time: {field: at, unit: s}, fields: {id: integer, at: integer}}",
        "{id: id, event_time: {field: at}, fields: {id: string, at: integer, more: [string]}}",
        "{id: id, event_time: {field: at}, fields: {id: string, at: integer, more: {lat: number}}}",
        "{id: id, event_time: {field: at}, fields: {id: string, at: integer, opened: timestamp?}}",
    ],
)
def test_other_streams_have_no_plain_form(body: str) -> None:
    spec: StreamSpec = stream(body)
    assert PlainForm.of(layout_of(spec)) is None


def test_the_naive_reader_refuses_what_stands_twice() -> None:
    with pytest.raises(Bad, match="malformed_json"):
        take(FLAT, GOOD.replace(b"12,", b'12,"amount":12,'))
