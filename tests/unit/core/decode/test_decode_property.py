"""Whatever the bytes, a record's fate is what the naive reader says, whoever its neighbours are."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from decode_naive import Bad, take
from decode_odd import NUMBERS, OTHERS, STRINGS
from decode_streams import EVENTS, TIMES, layout_of
from decode_told import bits, told
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.core.decode import RecordLayout, decode_lines, decode_values
from crossline.core.streams.schema import StreamSpec

VALUES = (
    st.sampled_from(NUMBERS + STRINGS + OTHERS) | st.integers(-(10**20), 10**20).map(str) | st.floats().map(json.dumps)
)
SPACES = st.sampled_from(["", "", "", "", " ", "\t", "\r", "  ", "\x0b", "\xa0"])
EXTRA_KEYS = [
    "x",
    "y",
    "amoun",
    "amounts",
    "Amount",
    "a\\u0074",
    "\\u0069d",
    "",
    "é",
    "pla\x00ce",
    "place.lat",
    "\\ud800",
]


@st.composite
def record_text(draw: st.DrawFn, spec: StreamSpec) -> str:
    """A record that is often good, and often good but for one value, with odd keys and white space."""
    good = {
        "id": '"r1"',
        "amount": "12",
        "at": "1767225600000",
        "meta": '{"id":"m","in":1767225600}',
        "score": "1.25",
        "tags": '["a"]',
    }
    top = list(dict.fromkeys(name.split(".")[0] for name in spec.columns))
    members = [(key, good[key]) for key in top if key in good]
    for key in draw(st.lists(st.sampled_from(top + EXTRA_KEYS), max_size=3)):
        value = draw(VALUES)
        places = [at for at, (known, _) in enumerate(members) if known == key]
        if places and draw(st.integers(0, 9)):
            members[places[0]] = (key, value)
        else:
            members.insert(draw(st.integers(0, len(members))), (key, value))
    if draw(st.booleans()):
        members = draw(st.permutations(members))
    gap = SPACES if draw(st.integers(0, 3)) == 0 else st.just("")
    body = ",".join(f'{draw(gap)}"{key}"{draw(gap)}:{draw(gap)}{value}{draw(gap)}' for key, value in members)
    return f"{draw(gap)}{{{body}}}{draw(gap)}"


@st.composite
def line_bytes(draw: st.DrawFn, spec: StreamSpec) -> bytes:
    """A record's line, whole or broken."""
    kind = draw(st.integers(0, 19))
    if kind == 0:
        return draw(VALUES).encode()
    if kind == 1:
        return draw(st.binary(max_size=20))
    line = draw(record_text(spec)).encode("utf-8", "surrogatepass")
    if kind == 2:
        return line + draw(st.sampled_from([b"x", b" {}", b",", line, b"\x00", b"\xef\xbb\xbf"]))
    if kind == 3:
        return draw(st.sampled_from([b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"[", b"1"])) + line
    if kind <= 7:
        at = draw(st.integers(0, len(line)))
        cut = draw(st.integers(0, 3))
        piece = draw(
            st.binary(max_size=3)
            | st.sampled_from([b'"', b"\\", b"{", b"}", b"\xc3\xa9", b"\xed\xa0\x80", b"\n", b"1", b"null"])
        )
        return line[:at] + piece + line[at + cut :]
    return line


def expected(spec: StreamSpec, line: bytes) -> Any:
    """What the naive reader says of a line."""
    try:
        record = take(spec, line)
    except Bad as refused:
        return str(refused)
    return {name: bits(value) for name, value in {**record, "@id": str(record[spec.id])}.items()}


def check(spec: StreamSpec, layout: RecordLayout, lines: list[bytes]) -> None:
    chunk = b"\n".join(lines)
    base = 7_000_000_000
    offsets, wanted, kept = [], {}, []
    at = base
    for line in chunk.split(b"\n"):
        if line.strip(b" \t\r"):
            offsets.append(at)
            kept.append(line)
            wanted[at] = expected(spec, line)
        at += len(line) + 1
    assert told(decode_lines(layout, chunk, "f", base)) == wanted
    alone: dict[int, Any] = {}
    for offset, line in zip(offsets, kept, strict=True):
        alone |= told(decode_lines(layout, line + b"\n", "f", offset))
    assert alone == wanted
    values = pa.array([b"skipped", *kept], pa.binary())[1:]
    assert told(decode_values(layout, values, "t-0", np.array(offsets, np.int64), None)) == wanted


EVENTS_LAYOUT = layout_of(EVENTS)


@settings(max_examples=150, deadline=None)
@given(st.lists(line_bytes(EVENTS), min_size=1, max_size=8))
def test_decoding_agrees_with_the_naive_reader(lines: list[bytes]) -> None:
    check(EVENTS, EVENTS_LAYOUT, lines)


@pytest.mark.parametrize("name", TIMES)
def test_times_agree_with_the_naive_reader(name: str) -> None:
    spec, layout = TIMES[name], layout_of(TIMES[name])

    @settings(max_examples=100, deadline=None)
    @given(st.lists(line_bytes(spec), min_size=1, max_size=8))
    def run(lines: list[bytes]) -> None:
        check(spec, layout, lines)

    run()


@pytest.mark.parametrize("name", ["events", *TIMES])
def test_every_odd_value_in_every_field(name: str) -> None:
    spec = EVENTS if name == "events" else TIMES[name]
    good = '{"id":"r1","amount":12,"at":1767225600000,"meta":{"id":"m","in":1767225600}'
    top = dict.fromkeys(field.split(".")[0] for field in spec.columns)
    lines = []
    for key in [*top, "other"]:
        rest = json.loads(good + "}")
        rest.pop(key, None)
        body = json.dumps(rest)[:-1]
        lines += [f'{body},"{key}":{value}}}'.encode() for value in NUMBERS + STRINGS + OTHERS]
    random.Random(1).shuffle(lines)
    check(spec, layout_of(spec), lines)
