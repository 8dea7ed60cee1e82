"""The join of records and tables, against a twin that looks through all rows of all contents for each record."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.basics.values import Records
from crossline.ingest.decode import decode_lines, make_layout
from crossline.ingest.enrich.join import Join, joined
from crossline.ingest.enrich.table import Table, stored
from oracle.tables import Content, NaiveTable, changes_join, joins_of

STREAM = "s"
BASE = 1_000_000
PROFILE = {"key": {"account": "id"}, "fields": {"country": "string?", "risk": "integer?", "ok": "boolean?"}}
PLACE = {
    "key": {"account": "account", "shop": "shop"},
    "fields": {"score": "number?", "tags": "[string]?"},
    "valid_from": "since",
}
FIELDS = {"id": "integer", "at": "integer", "came": "integer", "account": "string?", "shop": "integer?"}


def spec_of(*, ingest: bool, tables: Mapping[str, Any]) -> StreamSpec:
    stream = {"id": "id", "event_time": {"field": "at"}, "fields": FIELDS}
    if ingest:
        stream["ingest_time"] = {"field": "came"}
    spec = load_streams(json.dumps({"schema_version": 1, "streams": {STREAM: stream}}), "stream.yaml")[STREAM]
    return StreamSpec.model_validate({**spec.model_dump(), "enrich": tables})


def decoded(spec: StreamSpec, rows: Sequence[Mapping[str, Any]]) -> Records:
    raw = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    found = decode_lines(make_layout(STREAM, spec), raw, "log", 0)
    assert found.dead == []
    return found.records


def joined_records(spec: StreamSpec, joins: Sequence[Join], rows: Sequence[Mapping[str, Any]], floor: int) -> list[Any]:
    """What each record is in its true form, by its id: its fields and the tables that have no row for it."""
    records = joined(spec, joins, decoded(spec, rows))
    clock = np.maximum(np.maximum.accumulate(records.event_ms), floor)
    ingest = clock if records.ingest_ms is None else records.ingest_ms
    true = np.ones(len(records), np.bool_)
    if records.spans is not None:
        true = (records.spans[0] <= ingest) & (ingest < records.spans[1])
    columns = {name: column.to_pylist() for name, column in records.fields.items()}
    assert records.missed is not None
    missed = np.unpackbits(records.missed, axis=1, bitorder="little")[:, : len(joins)]
    return [
        ({name: column[row] for name, column in columns.items()}, missed[row].tolist())
        for row in np.flatnonzero(true).tolist()
    ]


ACCOUNTS = st.sampled_from(["a", "b", "été", "", "c"])
TIMES = st.integers(0, 30).map(lambda step: BASE + step)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {"at": TIMES, "came": TIMES, "account": st.none() | ACCOUNTS, "shop": st.none() | st.integers(-1, 1)}
    ),
    max_size=12,
)
PROFILES = st.lists(
    st.fixed_dictionaries(
        {
            "id": ACCOUNTS,
            "country": st.sampled_from(["NO", "SE", "", None]),
            "risk": st.none() | st.integers(0, 2),
            "ok": st.none() | st.booleans(),
        }
    ),
    max_size=4,
    unique_by=lambda row: row["id"],
)
PLACES = st.lists(
    st.fixed_dictionaries(
        {
            "account": ACCOUNTS,
            "shop": st.integers(-1, 1),
            "since": st.none() | TIMES,
            "score": st.sampled_from([0.5, 1.0, None]),
            "tags": st.sampled_from([["x"], [], None]),
        }
    ),
    max_size=8,
    unique_by=lambda row: (row["account"], row["shop"], row["since"]),
)


@st.composite
def contents(draw: st.DrawFn, rows: st.SearchStrategy[Any]) -> list[Content]:
    later = draw(st.lists(st.builds(Content, TIMES, rows), max_size=3))
    return [Content(None, draw(rows)), *later]


@settings(max_examples=3_000 if os.environ.get("CROSSLINE_DEEP") == "1" else 60, deadline=None)
@given(
    RECORDS,
    contents(PROFILES),
    contents(PLACES),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(0, 12), max_size=3),
)
def test_as_the_twin(
    rows: list[dict[str, Any]],
    profiles: list[Content],
    places: list[Content],
    ingest: bool,
    by_changes: bool,
    cuts: list[int],
) -> None:
    spec = spec_of(ingest=ingest, tables={"profile": PROFILE, "place": PLACE})
    naive = [
        NaiveTable("profile", PROFILE["key"], list(PROFILE["fields"]), None, profiles),
        NaiveTable("place", PLACE["key"], list(PLACE["fields"]), "since", places),
    ]
    joins = joins_of(spec, STREAM, naive)
    if by_changes:
        joins[0] = changes_join(spec, STREAM, naive[0])
    rows = [{"id": number, **row} for number, row in enumerate(rows)]
    wanted: list[Any] = []
    clock = 0
    for row in rows:
        clock = max(clock, row["at"])
        at = row["came"] if ingest else clock
        given = {name: value for table in naive for name, value in table.given(row, at).items()}
        wanted.append(({**row, **given}, [int(table.row(row, at) is None) for table in naive]))
    found: list[Any] = []
    for first, last in itertools.pairwise([0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]):
        floor = max((row["at"] for row in rows[:first]), default=0)
        found += joined_records(spec, joins, rows[first:last], floor)
    assert found == wanted


def test_keys_of_one_hash_are_reported_apart() -> None:
    """Whoever writes keys may know the hash."""
    keys = pa.array([b"x", b"y", b"z"])
    hashes = np.array([7, 7, 7], np.uint64)
    table = Table(stored(hashes, keys, None, {"n": pa.array([1, 2, 3])}))
    asked = pa.array([b"z", b"w", b"x", b"y"])
    assert table.find(np.array([7, 7, 7, 8], np.uint64), asked).tolist() == [2, -1, 0, -1]
    timed = Table(
        stored(
            np.array([7, 7, 7], np.uint64),
            pa.array([b"x", b"x", b"y"]),
            np.array([1, 5, 3]),
            {"n": pa.array([1, 2, 3])},
        )
    )
    found = timed.find(np.array([7, 7], np.uint64), pa.array([b"y", b"x"]))
    at, starts, rows = timed.points(found, -9, 0, 9)
    assert list(zip(at.tolist(), starts.tolist(), rows.tolist(), strict=True)) == [
        (0, -9, -1),
        (0, 3, 2),
        (1, -9, -1),
        (1, 1, 0),
        (1, 5, 1),
    ]


def test_a_content_that_changes_nothing_of_a_record_makes_no_form_of_it() -> None:
    """A table that is made anew every night has the same rows, but for a few."""
    spec = spec_of(ingest=False, tables={"profile": PROFILE})
    night = [{"id": "a", "country": "NO"}, {"id": "b", "country": "SE"}]
    later = [{"id": "a", "country": "NO"}, {"id": "b", "country": "DK"}]
    history = [Content(None, night), *(Content(BASE + at, night) for at in range(1, 9)), Content(BASE + 9, later)]
    joins = joins_of(spec, STREAM, [NaiveTable("profile", PROFILE["key"], list(PROFILE["fields"]), None, history)])
    records = joined(spec, joins, decoded(spec, [{"id": 1, "at": BASE, "came": 0, "account": "a"}]))
    assert (len(records), records.spans) == (1, None)
    records = joined(spec, joins, decoded(spec, [{"id": 1, "at": BASE, "came": 0, "account": "b"}]))
    assert records.spans is not None
    assert [each.tolist() for each in records.spans] == [[-(2**62), BASE + 9], [BASE + 9, 2**62]]
    assert records.fields["profile.country"].to_pylist() == ["SE", "DK"]


def test_a_row_without_values_is_not_no_row() -> None:
    spec = spec_of(ingest=False, tables={"profile": PROFILE})
    history = [Content(None, [{"id": "a"}]), Content(BASE + 5, [])]
    joins = joins_of(spec, STREAM, [NaiveTable("profile", PROFILE["key"], list(PROFILE["fields"]), None, history)])
    rows = [{"id": 1, "at": BASE, "came": 0, "account": "a"}]
    assert [joined_records(spec, joins, rows, floor)[0][1] for floor in (BASE, BASE + 5)] == [[0], [1]]


@pytest.mark.parametrize("ingest", [False, True])
def test_no_records(ingest: bool) -> None:
    spec = spec_of(ingest=ingest, tables={"profile": PROFILE})
    joins = joins_of(
        spec, STREAM, [NaiveTable("profile", PROFILE["key"], list(PROFILE["fields"]), None, [Content(None, [])])]
    )
    records = joined(spec, joins, decoded(spec, []))
    assert records.fields["profile.country"].to_pylist() == []
    assert records.missed is not None
    assert records.missed.shape == (0, 1)
