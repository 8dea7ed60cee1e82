"""All faults of a record: its dead letter has the first, and each is there whatever else is wrong."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from decode_records import line_bytes
from decode_streams import EVENTS, TIMES, layout_of
from hypothesis import given, settings

from crossline.basics.streams.schema import StreamSpec
from crossline.ingest.decode import decode_values
from crossline.ingest.decode.json_faults import json_faults
from crossline.ingest.decode.spans import LINE_BYTES_MAX

KNOWN_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
SPEC = StreamSpec.model_validate(
    {
        "id": "id",
        "event_time": {"field": "at"},
        "ingest_time": {"field": "came"},
        "fields": {
            "id": "string",
            "amount": "integer",
            "score": "number?",
            "tags": ["integer?"],
            "on": "timestamp?",
            "place": {"lat": "number?", "lon": "number?"},
            "at": "integer",
            "came": "integer",
        },
    }
)
BOUND = "at most 2026-01-01T01:00:00.000Z, 60 min after it was there to be read"
GOOD = {"id": "p1", "amount": 5, "at": KNOWN_MS, "came": KNOWN_MS}
# In the order of the checks: a change of the record, and the fault that it makes.
FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"amount": "x"}, 'field amount: found string "x", expected integer'),
    ({"score": True}, "field score: found true, expected number"),
    ({"tags": [1, "a", "b"]}, 'field tags: found string "a", expected a list of integer'),
    ({"on": "noon"}, 'field on: found string "noon", expected a time such as 2026-01-31T09:30:00.000Z'),
    ({"place": 5}, "field place: found number 5, expected an object"),
    ({"id": ""}, "field id is empty, expected an id"),
    ({"at": -1}, "field at: found -1, expected a time from 1970-01-01 to 2200-01-01"),
    (
        {"came": KNOWN_MS + 7_200_000},
        f"field came: found 2026-01-01T02:00:00.000Z, expected {BOUND}",
    ),
]


def sentences(spec: StreamSpec, raw: bytes) -> list[str]:
    return [each.sentence for each in json_faults(layout_of(spec), raw, KNOWN_MS)]


@pytest.mark.parametrize("count", range(len(FAULTS) + 1))
def test_each_fault_is_named_whatever_others_there_are(count: int) -> None:
    for chosen in combinations(FAULTS, count):
        record = dict(GOOD)
        for change, _ in chosen:
            record |= change
        assert sentences(SPEC, json.dumps(record).encode()) == [text for _, text in chosen]


@pytest.mark.parametrize(
    ("record", "wanted"),
    [
        ({}, ["id", "amount", "at", "came"]),
        ({"id": None, "amount": 1, "at": None, "came": KNOWN_MS}, ["id", "at"]),
    ],
)
def test_all_that_is_missing_is_named(record: dict[str, Any], wanted: list[str]) -> None:
    faults = json_faults(layout_of(SPEC), json.dumps(record).encode(), KNOWN_MS)
    assert [each.field for each in faults] == wanted
    assert {each.reason for each in faults} == {"missing_field"}


def test_one_that_is_too_long_is_not_read() -> None:
    line = b" " * LINE_BYTES_MAX + b"{"
    assert sentences(SPEC, line) == [f"found {LINE_BYTES_MAX + 1} bytes, expected at most {LINE_BYTES_MAX}"]


@pytest.mark.parametrize("name", ["events", "faults", *TIMES])
def test_the_first_is_that_of_the_dead_letter(name: str) -> None:
    spec = {"events": EVENTS, "faults": SPEC, **TIMES}[name]
    layout, known = layout_of(spec), np.array([KNOWN_MS])

    @settings(max_examples=150, deadline=None)
    @given(line_bytes(spec))
    def run(line: bytes) -> None:
        decoded = decode_values(layout, pa.array([line], pa.binary()), "t-0", np.array([0]), None, known_ms=known)
        faults = json_faults(layout, line, KNOWN_MS)
        assert [(each.reason, each.detail) for each in decoded.dead] == [
            (each.reason, each.sentence) for each in faults[:1]
        ]
        assert len(set(faults)) == len(faults)

    run()
