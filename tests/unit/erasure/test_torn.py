"""Bytes that are no JSON: a value is found however it is escaped, encoded and cut."""

from __future__ import annotations

import base64
import json
import struct

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from crossline.erasure.places.lake_tables import _raw_suspects
from crossline.erasure.rows import GONE, treat, treat_packed
from crossline.erasure.subject import Key, Subject, is_distinctive
from crossline.erasure.torn import has_trace

from .traces import SALT

SHORT = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "utf-16")
VALUES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


def subject(value: str) -> Subject:
    return Subject((Key("name", value),), SALT)


@st.composite
def escaped(draw: st.DrawFn, value: str) -> str:
    """``value`` as some writer of JSON has it."""
    found = []
    for character in value:
        units = [each for (each,) in struct.iter_unpack(">H", character.encode("utf-16-be"))]
        forms = ["".join(draw(st.sampled_from((f"\\u{unit:04x}", f"\\u{unit:04X}"))) for unit in units)]
        if character in SHORT:
            forms.append(f"\\{SHORT[character]}")
        if character not in '"\\' and character >= " ":
            forms.append(character)
        found.append(draw(st.sampled_from(forms)))
    return "".join(found)


@st.composite
def number_text(draw: st.DrawFn, value: int) -> str:
    """An integer as some writer of JSON has it."""
    digits, sign = str(abs(value)), "-" if value < 0 else ""
    mark = draw(st.sampled_from("eE"))
    zeros = draw(st.integers(0, 3))
    point = draw(st.integers(1, len(digits)))
    behind = digits[point:] + "0" * zeros
    plus = draw(st.sampled_from(("", "+", "+0", "0")))
    forms = [f"{sign}{digits}", f"{sign}{digits}.{'0' * (zeros + 1)}", f"{sign}{digits}{'0' * zeros}{mark}-{zeros}"]
    if behind:
        forms.append(f"{sign}{digits[:point]}.{behind}{mark}{plus}{len(digits) - point}")
    if digits.endswith("0") and value:
        short = digits.rstrip("0")
        forms.append(f"{sign}{short}{mark}{plus}{len(digits) - len(short)}")
    return draw(st.sampled_from(forms))


@st.composite
def torn(draw: st.DrawFn, written: str) -> bytes:
    """A line with ``written`` as the value of a field, cut behind it, and perhaps before it."""
    encoding = draw(st.sampled_from(ENCODINGS))
    before, after = '{"id": "r1", "name": ', ', "more": [1, "x"]}'
    head, body = f"{before}{written}".encode(encoding), f"{before}{written}{after}".encode(encoding)
    start = draw(st.integers(0, len(before.encode(encoding)) - 4))
    return body[start : draw(st.integers(len(head), len(body)))]


def check_found(value: str, raw: bytes) -> None:
    mine = subject(value)
    assert has_trace(mine, raw)
    assert _raw_suspects(mine, raw), "the lake looks at what may have a trace alone"
    assert treat(mine, {"reason": "malformed", "raw": raw}) is GONE
    packed = {"raw_base64": base64.b64encode(raw).decode()}
    assert treat_packed(mine, packed) is GONE
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return
    assert treat_packed(mine, {"raw": text}) is GONE


@given(st.data(), VALUES)
def test_any_text_is_found(data: st.DataObject, value: str) -> None:
    written = data.draw(escaped(value))
    check_found(value, data.draw(torn(f'"{written}"')))


@given(st.data(), st.integers(-(10**18), 10**18) | st.integers(-200, 200) | st.integers(1, 99).map(lambda n: n * 10**9))
def test_any_number_is_found(data: st.DataObject, value: int) -> None:
    check_found(str(value), data.draw(torn(data.draw(number_text(value)))))


@given(st.data(), VALUES)
def test_a_text_within_a_text_is_found(data: st.DataObject, value: str) -> None:
    inner = f'{{"name": "{data.draw(escaped(value))}"'
    assume(is_distinctive(value))
    check_found(value, data.draw(torn(json.dumps(inner, ensure_ascii=data.draw(st.booleans())))))


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        ("José", rb'{"name": "Jos\u00E9", "am'),
        ("a/1", rb'{"name": "a\/1'),
        ("😀 jo", rb'{"name": "\uD83D\ude00 jo'),
        ("100000", b'{"name": 1e5, "x'),
        ("7", b'{"name": 7, "x'),
        ("7", b"r1;7;2026\n"),
        ("jo", b'{"name": "x", "name": "jo"}'),  # the last one is not the only one
        ("jo", b'[{"name": "jo", "mail": "other"}]'),
        ("jo", b'\xef\xbb\xbf  {"name": "jo"}'),
        ("550e8400-e29b-41d4-a716-446655440000", b"\x00\x00\x00\x00\x01H550e8400-e29b-41d4-a716-446655440000x"),
        ("4711", b"\x00\x00\x00\x00\x01\xce\x49\x02"),  # 4711 as Avro has a long
        ("Josefina", b"Josefina"),  # which has the form of base 64
    ],
)
def test_worked(value: str, raw: bytes) -> None:
    check_found(value, raw)


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        ("José", rb'{"name": "Jos\u00E8", "am'),
        ("100000", b'{"name": 1e6, "x'),
        ("7", b'{"name": 17, "x": "7a"'),
        ("4711", b"\x00\x00\x00\x00\x01\xce\x4a\x02"),
        ("100000", b"1e" + b"9" * 5_000),
        ("jo", b'{"name": "other"}'),
        ("jo", b""),
        ("jo", b"\\"),
        ("jo", b"\\u12"),
        ("jo", b"\\ud83d"),
    ],
)
def test_others_stay(value: str, raw: bytes) -> None:
    row = {"raw": raw}
    assert treat(subject(value), row) is row


def test_an_id_of_the_person_is_found_between_lengths_that_are_letters() -> None:
    known = "550e8400-e29b-41d4-a716-446655440000"
    mine = Subject((Key("name", "jo"),), SALT, {"payments": {known}})
    raw = b"\x00\x00\x00\x00\x01H" + known.encode() + b"zz"
    assert _raw_suspects(mine, raw)
    assert treat(mine, {"raw": raw}) is GONE
