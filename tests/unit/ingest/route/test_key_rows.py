"""Rows of records under several keys, against a twin that looks at one record after another."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.streams.schema import load_streams
from crossline.basics.values import Records
from crossline.ingest.route.key_rows import rows_of
from crossline.ingest.route.keys import key_column
from crossline.plan.state_stores import FilterSpec, StateStore

SPEC = load_streams(
    """\
schema_version: 1
streams:
  s: {id: id, event_time: {field: at}, fields: {id: string, at: integer, here: integer?, there: integer?, up: integer?}}
""",
    "stream.yaml",
)["s"]
# Ten entries, in two bytes: of the state store's own key, of one other name, and of another.
NAMES = ["here", "there", "here", "up", "there", "here", "here", "here", "there", "up"]
ENTRIES = tuple(FilterSpec(str(n), None, None, None if name == "here" else (name,)) for n, name in enumerate(NAMES))
STATE_STORE = StateStore("s|event_time|here#0", ("here",), "event_time", (), ENTRIES, 1000, 0, ordered=True)
VALUES = st.sampled_from([None, 1, 2, 3])
RECORDS = st.lists(st.tuples(VALUES, VALUES, VALUES, st.sets(st.integers(0, 9))), max_size=12)


@settings(max_examples=100, deadline=None)
@given(RECORDS)
def test_a_record_has_a_row_for_each_key_with_the_entries_of_that_key(
    made: list[tuple[int | None, int | None, int | None, set[int]]],
) -> None:
    columns = {name: pa.array([each[n] for each in made], pa.int64()) for n, name in enumerate(("here", "there", "up"))}
    none = np.zeros(len(made), np.int64)
    records = Records("s", "log", pa.array([str(n) for n in range(len(made))]), none, none, none, columns)
    flags = np.zeros((len(made), 16), np.bool_)
    for number, (*_, entries) in enumerate(made):
        flags[number, sorted(entries)] = True
    rows = rows_of(SPEC, STATE_STORE, records, np.packbits(flags, axis=1, bitorder="little"))
    assert rows.records is not None
    found = []
    for row, key in enumerate(rows.keys.rows.tolist()):
        bits = set(np.flatnonzero(np.unpackbits(rows.bits[row], bitorder="little")).tolist())
        if key >= 0 and bits:
            found.append((int(rows.of(np.array([row]))[0]), rows.keys.values[key].as_py(), bits))
    expected = []
    for number, (here, there, up, entries) in enumerate(made):
        values = {"here": here, "there": there, "up": up}
        for value in dict.fromkeys(each for each in values.values() if each is not None):
            mine = {entry for entry in entries if values[NAMES[entry]] == value}
            expected += [(number, f"1:{value}".encode(), mine)] if mine else []
    assert sorted(found, key=str) == sorted(expected, key=str)
    for number, (*_, entries) in enumerate(made):
        for entry in entries:
            row = int(rows.holding(np.array([number]), np.array([entry]))[0])
            assert rows.of(np.array([row])).tolist() == [number]
            assert np.unpackbits(rows.bits[row], bitorder="little")[entry]
    hashes = {bytes(k): int(h) for k, h in zip(rows.keys.values.to_pylist(), rows.keys.hashes.tolist(), strict=True)}
    alone = key_column(SPEC, ("there",), records)
    for value, mark in zip(alone.values.to_pylist(), alone.hashes.tolist(), strict=True):
        assert hashes[bytes(value)] == mark
