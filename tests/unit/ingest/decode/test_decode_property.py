"""For any bytes, a record's outcome is that of the naive reader, whatever its neighbours are."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from decode_naive import Bad, take
from decode_odd import NUMBERS, OTHERS, STRINGS
from decode_records import line_bytes
from decode_streams import EVENTS, TIMES, layout_of
from decoded_values import bits, by_offset
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.streams.schema import StreamSpec
from crossline.ingest.decode import RecordLayout, decode_lines, decode_values


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
    assert by_offset(decode_lines(layout, chunk, "f", base)) == wanted
    alone: dict[int, Any] = {}
    for offset, line in zip(offsets, kept, strict=True):
        alone |= by_offset(decode_lines(layout, line + b"\n", "f", offset))
    assert alone == wanted
    values = pa.array([b"skipped", *kept], pa.binary())[1:]
    assert by_offset(decode_values(layout, values, "t-0", np.array(offsets, np.int64), None)) == wanted


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
