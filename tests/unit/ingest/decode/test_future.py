"""A record that is dated after it was there to be read is refused, and moves no clock."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.errors import CrosslineError
from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.ingest.decode import Decoded, decode_csv, decode_lines, decode_table, decode_values, make_layout

HOUR_MS = 3_600_000
LISTED_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
YEAR_2199_MS = 7_226_582_400_000


def spec_of(**changes: Any) -> StreamSpec:
    fields = {"id": "string", "at": "integer", "came": "integer", "text": "string?"}
    return StreamSpec.model_validate({"id": "id", "event_time": {"field": "at"}, "fields": fields, **changes})


def line(name: str, at: int, came: int = 0, **more: Any) -> dict[str, Any]:
    return {"id": name, "at": at, "came": came, **more}


def in_form(form: str, spec: StreamSpec, rows: list[dict[str, Any]], known_ms: int | None) -> Decoded:
    layout = make_layout("s", spec)
    if form == "table":
        return decode_table(layout, pa.Table.from_pylist(rows), "p", np.arange(len(rows)), known_ms=known_ms)
    if form == "csv":
        body = "".join(",".join(str(row[name]) for name in ("id", "at", "came")) + "\n" for row in rows)
        return decode_csv(layout, ["id", "at", "came"], body.encode(), "p", 0, known_ms=known_ms)
    raw = [json.dumps(row).encode() for row in rows]
    if form == "values":
        known = None if known_ms is None else np.full(len(rows), known_ms)
        return decode_values(layout, pa.array(raw, pa.binary()), "p", np.arange(len(rows)), None, known_ms=known)
    return decode_lines(layout, b"\n".join(raw), "p", 0, known_ms=known_ms)


@pytest.mark.parametrize("form", ["lines", "values", "csv", "table"])
def test_what_is_dated_too_far_ahead_is_a_dead_letter(form: str) -> None:
    rows = [
        line("now", LISTED_MS),
        line("far", YEAR_2199_MS),
        line("edge", LISTED_MS + HOUR_MS),
        line("beyond", LISTED_MS + HOUR_MS + 1),
        line("past", 0),
    ]
    found = in_form(form, spec_of(), rows, LISTED_MS)
    assert found.records.ids.to_pylist() == ["now", "edge", "past"]
    assert [(letter.reason, letter.record_id) for letter in found.dead] == [
        ("time_in_future", "far"),
        ("time_in_future", "beyond"),
    ]
    assert "2026-01-01T01:00:00.000Z, 60 min after it was there to be read" in found.dead[0].detail
    assert "field at: found" in found.dead[0].detail
    assert found.dead[0].raw is not None
    assert b"far" in found.dead[0].raw
    assert len(in_form(form, spec_of(), rows, None).records) == 5, "without an ingest time"


@pytest.mark.parametrize("form", ["lines", "values", "csv", "table"])
def test_a_field_of_ingest_time_lies_in_the_future_no_more_than_another(form: str) -> None:
    rows = [line("good", LISTED_MS, LISTED_MS), line("bad", LISTED_MS, YEAR_2199_MS)]
    found = in_form(form, spec_of(ingest_time={"field": "came"}), rows, LISTED_MS)
    assert found.records.ids.to_pylist() == ["good"]
    assert [(letter.reason, "field came" in letter.detail) for letter in found.dead] == [("time_in_future", True)]
    assert in_form(form, spec_of(), rows, LISTED_MS).dead == [], "a field that is no clock may say what it likes"


def test_the_bound_is_a_setting_of_the_stream() -> None:
    rows = [line("a", LISTED_MS + 1), line("b", LISTED_MS + 10_001), line("c", LISTED_MS + 10_000)]
    assert [d.record_id for d in in_form("lines", spec_of(future_bound="0s"), rows, LISTED_MS).dead] == ["a", "b", "c"]
    assert [d.record_id for d in in_form("lines", spec_of(future_bound="10s"), rows, LISTED_MS).dead] == ["b"]
    assert in_form("lines", spec_of(future_bound="100d"), rows, LISTED_MS).dead == []
    again = StreamSpec.model_validate(spec_of(future_bound="10s").model_dump(mode="json"))
    assert again.future_bound == 10_000


def test_a_bound_that_is_no_duration_is_refused() -> None:
    text = "schema_version: 1\nstreams:\n  s:\n    id: id\n    event_time: {field: at}\n    future_bound: soon\n"
    with pytest.raises(CrosslineError, match=r"(?s)stream.yaml:6: .*a duration such as"):
        load_streams(text + "    fields: {id: string, at: integer}\n", "stream.yaml")


def test_of_a_topic_each_record_has_its_own_instant_and_its_timestamp_is_a_clock_too() -> None:
    layout = make_layout("s", spec_of())
    rows = [line("a", LISTED_MS), line("b", LISTED_MS), line("c", LISTED_MS + 2 * HOUR_MS), line("d", 0)]
    values = pa.array([json.dumps(row).encode() for row in rows], pa.binary())
    known = np.array([LISTED_MS, LISTED_MS - 2 * HOUR_MS, LISTED_MS + HOUR_MS, LISTED_MS])
    stamps = np.array([LISTED_MS, LISTED_MS - 2 * HOUR_MS, LISTED_MS + HOUR_MS, YEAR_2199_MS])
    found = decode_values(layout, values, "t-0", np.arange(4), stamps, known_ms=known)
    assert found.records.ids.to_pylist() == ["a", "c"]
    assert [(d.record_id, d.detail.partition(":")[0]) for d in found.dead] == [
        ("b", "field at"),
        ("d", "the message's timestamp"),
    ]
    own = make_layout("s", spec_of(ingest_time={"field": "came"}))
    dead = decode_values(own, values, "t-0", np.arange(4), stamps, known_ms=known).dead
    assert [d.record_id for d in dead] == ["b"], "a timestamp that is not the ingest time moves nothing"


def test_what_takes_the_careful_way_is_looked_at_as_well() -> None:
    raw = b"".join(
        (
            b'{"id": "a\\u0041", "at": 7226582400000, "came": 0, "text": 1}\n',
            b'{"id": "b\\n", "at": 7226582400000.0, "came": 0}\n',
            b'{"id": "c\\n", "at": 7226582400000, "came": 0, "text": "\\ud83d\\ude00"}\n',
            b'{"id": "", "at": 7226582400000, "came": 0}\n',
        )
    )
    found = decode_lines(make_layout("s", spec_of()), raw, "p", 0, known_ms=LISTED_MS)
    assert [d.reason for d in found.dead] == ["wrong_type", "wrong_type", "time_in_future", "missing_field"]


@given(st.lists(st.integers(LISTED_MS - 10_000, LISTED_MS + 10_000), max_size=30), st.integers(0, 10_000))
def test_against_a_twin_that_compares_one_by_one(times: list[int], bound_ms: int) -> None:
    rows = [line(f"r{number}", at) for number, at in enumerate(times)]
    spec = spec_of(future_bound=f"{bound_ms}ms")
    good = [row["id"] for row in rows if row["at"] <= LISTED_MS + bound_ms]
    for form in ("lines", "csv") if rows else ():
        found = in_form(form, spec, rows, LISTED_MS)
        assert found.records.ids.to_pylist() == good
        assert len(found.dead) == len(rows) - len(good)
