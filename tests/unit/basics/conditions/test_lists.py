"""Lists and their times, held against the twin: the last published of the contents whose time has come."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.conditions.lists import NamedList, list_from_json, named_list
from crossline.basics.times import BEGINNING_MS, FOREVER_MS
from oracle.conditions import Timed

VALUES: list[Any] = ["a", "1", "", 1, 0, -(2**63), 2**53 + 1, 2.5, 1e300, True, False]
INSTANTS = range(-2, 12)
ENTRIES = st.lists(st.tuples(st.sampled_from(VALUES), st.none() | st.sampled_from(INSTANTS)), max_size=6)
HISTORIES = st.lists(st.tuples(st.sampled_from(INSTANTS), ENTRIES), min_size=1, max_size=6)
COLUMNS = [
    pa.array(["a", "1", "", "b", None]),
    pa.array([1, 0, -(2**63), 2**53 + 1, 2, None], pa.int64()),
    pa.array([1.0, 0.0, 2.5, 1e300, 2.0, None], pa.float64()),  # no decoder leaves a -0.0
    pa.array([True, False, None]),
]


def made(history: list[tuple[int, list[tuple[Any, int | None]]]]) -> tuple[NamedList, Timed]:
    """The first content holds from the beginning, whatever its instant is."""
    named = NamedList()
    for at_ms, entries in history:
        ended = [(value, FOREVER_MS if until_ms is None else until_ms) for value, until_ms in entries]
        named = named.then(ended, {"s": at_ms} if named.changes else {})
    (_, first), *later = history
    return named, Timed([(-math.inf, first), *later])


def typed(values: list[Any]) -> list[str]:
    """Each once; True is not 1."""
    return sorted({repr(value) for value in values})


@given(HISTORIES, st.integers(0, 5))
def test_what_stands_there(history: list[tuple[int, list[tuple[Any, int | None]]]], first: int) -> None:
    named, twin = made(history)
    first = min(first, len(history) - 1)
    again = list_from_json(orjson.loads(orjson.dumps(named.to_json())))
    assert again == named
    since = again.since(first)
    assert (since.first, len(since.changes)) == (first, len(history) - first)
    from_ms = max((at_ms for at_ms, _ in history[1 : first + 1]), default=-99)
    for now_ms in INSTANTS:
        assert typed(named.at("s", now_ms)) == typed(twin.at(now_ms))
        if now_ms >= from_ms:
            assert typed(since.at("s", now_ms)) == typed(twin.at(now_ms)), "without versions that are gone"
    assert typed(named.at("other", 0)) == typed(Timed([(-math.inf, history[-1][1])]).at(0)), "the last, of all time"


@given(HISTORIES, st.sampled_from(COLUMNS), st.data())
def test_columns_are_compared_at_the_time_of_each_row(
    history: list[tuple[int, list[tuple[Any, int | None]]]], column: pa.Array, data: st.DataObject
) -> None:
    named, twin = made(history)
    members = named.members("s")
    at_ms = np.array([data.draw(st.sampled_from(INSTANTS)) for _ in column])

    def stands(value: Any, now_ms: int) -> bool:
        return any(isinstance(each, bool) == isinstance(value, bool) and each == value for each in twin.at(now_ms))

    values = column.to_pylist()
    wanted = [value is not None and stands(value, now_ms) for value, now_ms in zip(values, at_ms.tolist(), strict=True)]
    assert members.holds(column, len(column), at_ms).tolist() == wanted
    for value, now_ms, next_ms in zip(values, at_ms.tolist(), members.next_ms(column, at_ms).tolist(), strict=True):
        turns = [ms for ms in range(now_ms + 1, 13) if value is not None and stands(value, ms) != stands(value, ms - 1)]
        assert next_ms == (turns[0] if turns else FOREVER_MS)


def test_a_list_that_changes_is_not_read_without_times() -> None:
    members = named_list(["a"]).then([("b", FOREVER_MS)], {"s": 5}).members("s")
    with pytest.raises(ValueError, match="expected the ingest times of the records"):
        members.holds(pa.array(["a"]), 1, None)


def test_only_what_changed_is_kept_of_a_version() -> None:
    many = NamedList().then([(f"c{n}", FOREVER_MS) for n in range(1000)], {})
    more = many.then([*((f"c{n}", FOREVER_MS) for n in range(1, 1001)), ("d", 9)], {"s": 5})
    change = more.changes[1]
    assert (change.put, change.ending, change.taken) == (("c1000",), (("d", 9),), ("c0",))


def test_a_digest_is_of_what_the_last_version_has_however_it_came_about() -> None:
    """So that of a trimmed list is that of a whole one; 1 is not true, nor the text 1."""
    first = NamedList().then([("a", FOREVER_MS), (1, 50)], {})
    then = first.then([("b", FOREVER_MS)], {"payments": 100}).then([(1, 50), ("a", FOREVER_MS)], {"payments": 200})
    assert first.digest == then.digest == then.since(2).digest
    assert [start_ms for start_ms, _ in then.digests("payments")] == [BEGINNING_MS, 100, 200]
    assert [digest == first.digest for _, digest in then.digests("payments")] == [True, False, True]
    made = {NamedList().then([(value, FOREVER_MS)], {}).digest for value in (1, True, "1", 1.0, "true")}
    assert len(made) >= 4
