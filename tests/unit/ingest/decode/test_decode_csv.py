"""CSV rows against a naive reader: the same fields as a JSON record says the same thing."""

from __future__ import annotations

import re
from typing import Any

from decode_naive import Bad, Num, document_of, take_document
from decode_odd import NUMBERS, OTHERS, STRINGS
from decode_streams import layout_of, stream
from decoded_values import bits, by_offset
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.streams.schema import FieldSpec
from crossline.ingest.decode import decode_csv
from drawing import one_of_these

SPEC = stream("""
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, amount: integer, place: {lat: number?}, ok: boolean?, opened: timestamp?, tags: [string?],
             at: integer}
""")
LAYOUT = layout_of(SPEC)
HEADER = ["id", "ignored", "place.lat", "amount", "ok", "at", "opened", "tags"]
GOOD = ["r1", "x", "1.5", "12", "true", "1767225600000", "", ""]
TEXTS = (
    NUMBERS
    + OTHERS
    + [text.strip('"') for text in STRINGS]
    + ["TRUE", "False", "inf", "-nan", "2026-01-31T09:30:00Z", "[1.5]"]
)
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def fields_of(line: str) -> list[str | None]:
    """The fields of a line, read one character at a time; None is an empty field without quotes."""
    fields: list[str | None] = []
    at = 0
    while True:
        text, quoted = "", line[at : at + 1] == '"'
        if quoted:
            at += 1
            while line[at : at + 1] != '"' or line[at : at + 2] == '""':
                if at >= len(line):
                    raise Bad("malformed_csv")
                text += line[at]
                at += 2 if line[at] == '"' else 1
            at += 1
        else:
            while at < len(line) and line[at] != ",":
                text += line[at]
                at += 1
        fields.append(text if text or quoted else None)
        if at >= len(line):
            return fields
        if line[at] != ",":
            raise Bad("malformed_csv")
        at += 1


def value_of(field: FieldSpec, text: str | None) -> Any:
    """The JSON value that a field stands for."""
    if text is None or (field.kind == "string" and not field.is_list):
        return text
    if field.is_list:
        return document_of(text)
    if field.kind == "boolean":
        words = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
        return words.get(text, text)
    if NUMBER.fullmatch(text):
        return Num(text)
    if re.fullmatch("[-+]?(nan|inf|infinity)", text.lower()):
        raise Bad("bad_number")
    return text


def record_of(line: bytes) -> dict[str, Any]:
    """What a line means: fields in the spec's order, so that the first fault is the same one."""
    try:
        text = line.removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        raise Bad("bad_encoding") from None
    if text.startswith("\ufeff"):
        raise Bad("bad_encoding")
    texts = fields_of(text)
    if len(texts) != len(HEADER):
        raise Bad("malformed_csv")
    by_name = dict(zip(HEADER, texts, strict=True))
    return take_document(SPEC, lambda name: value_of(SPEC.columns[name], by_name.get(name)))


def expected(line: bytes) -> Any:
    try:
        record = record_of(line)
    except Bad as refused:
        return str(refused)
    return {name: bits(value) for name, value in {**record, "@id": record["id"]}.items()}


@st.composite
def row(draw: st.DrawFn) -> bytes:
    texts = list(GOOD)
    for place in draw(st.lists(st.integers(0, len(HEADER) - 1), max_size=2)):
        texts[place] = draw(st.sampled_from(TEXTS))
    forms = draw(st.lists(st.integers(0, 5), min_size=len(texts), max_size=len(texts)))
    line = ",".join(
        '"' + text.replace('"', '""') + '"' if form == 0 or ("," in text and form < 5) else text
        for text, form in zip(texts, forms, strict=True)
    ).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(line)))
        line = (
            line[:at]
            + draw(st.binary(max_size=2) | st.sampled_from([b'"', b",", b"\n", b"\r", b'""', b"\xef\xbb\xbf"]))
            + line[at:]
        )
    return line + draw(one_of_these(b"", b"", b"\r", b",", b" "))


def check(lines: list[bytes]) -> None:
    chunk = b"\n".join(lines)
    wanted: dict[int, Any] = {}
    at = 100
    for line in chunk.split(b"\n"):
        if line.strip(b" \t\r"):
            wanted[at] = expected(line)
            assert by_offset(decode_csv(LAYOUT, HEADER, line, "f", at)) == {at: wanted[at]}
        at += len(line) + 1
    assert by_offset(decode_csv(LAYOUT, HEADER, chunk, "f", 100)) == wanted


@settings(max_examples=120, deadline=None)
@given(st.lists(row(), min_size=1, max_size=6))
def test_rows_agree_with_the_naive_reader(lines: list[bytes]) -> None:
    check(lines)


def test_every_odd_text_in_every_field() -> None:
    lines = []
    for place in range(len(HEADER)):
        for text in TEXTS:
            quoted = '"' + text.replace('"', '""') + '"'
            lines += [",".join([*GOOD[:place], form, *GOOD[place + 1 :]]).encode() for form in (text, quoted)]
    check(lines)


def test_a_field_cannot_go_on_over_a_lines_end() -> None:
    chunk = b'r1,"a\nb",1,12,true,1767225600000,,\nr2,,1,12,true,1767225600000,,\n'
    decoded = decode_csv(LAYOUT, HEADER, chunk, "f", 0)
    assert decoded.records.ids.to_pylist() == ["r2"]
    assert [(letter.reason, letter.offset) for letter in decoded.dead] == [("malformed_csv", 0), ("malformed_csv", 6)]
    assert decoded.dead[0].detail == "the quoted field at character 4 does not end before a comma or on its line"
    assert decoded.dead[1].detail == "found 7 fields, expected 8 as in the header"


def test_a_header_without_a_required_field_or_with_one_twice() -> None:
    line = b"r1,12\n"
    (missing,) = decode_csv(LAYOUT, ["id", "amount"], line, "f", 5).dead
    assert (missing.reason, missing.record_id) == ("missing_field", "r1")
    assert missing.detail == "field at is missing or null, expected integer"
    (twice,) = decode_csv(LAYOUT, ["id", "id"], line, "f", 5).dead
    assert (twice.reason, twice.detail) == ("malformed_csv", "the header names id twice")
