"""Totals of windows as rows came, against a look at all rows for each; and when totals of a key are tried again."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crossline.state.retraction.far_verdicts import PASSED_MAX, Tries
from crossline.state.retraction.window_totals_kernel import COUNT_OF, DIFFERENT_OF, FOUND_FIELDS, SUM_OF, compiled

Row = tuple[int, int, int]  # clock, whether it is in windows, value
rows_of = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 1), st.integers(0, 4)), max_size=14)


def naive(before: list[Row], came: list[Row], window: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """The count, the sum and the different values of each row's window; ``came``: in the order in which they came."""
    begins, ends, itself = window
    found, there = list[tuple[int, int, int]](), list(before)
    for row in came:
        inside = [each for each in there if row[0] - begins <= each[0] <= row[0] - ends and each[1]]
        inside += [row] if itself and row[1] else []
        values = [value for _, _, value in inside]
        found.append((len(values), sum(values), len(set(values))))
        there.append(row)
    return found


@given(rows_of, rows_of, st.integers(0, 6), st.booleans(), st.booleans())
def test_totals_are_those_of_the_rows_that_came_before(
    before: list[Row], came: list[Row], begins: int, ends: bool, itself: bool
) -> None:
    held = sorted(before, key=lambda row: row[0])
    later = [(clock + 12, enters, value) for clock, enters, value in came]  # none lies before those that were there
    order = sorted(range(len(later)), key=lambda number: later[number][0])
    window, found = (begins, int(ends), int(itself)), np.zeros((FOUND_FIELDS, len(later)), np.int64)
    columns = [np.array(each, np.int64).reshape(-1, 3).T.copy() for each in (held, [later[i] for i in order])]
    work, codes = np.zeros(5 + len(later), np.int64), np.zeros(5, np.int64)
    lates = compiled()(*columns, np.array(order, np.int64), np.array(window, np.int64), work, codes, found)
    totals = found[[COUNT_OF, SUM_OF, DIFFERENT_OF]].T.tolist()
    assert [tuple(each) for each in totals] == naive(held, later, window)
    assert lates == sum(any(other < each for other in order[at:]) for at, each in enumerate(order))


def test_totals_that_decide_nothing_are_tried_ever_less() -> None:
    tries, asked = Tries(), list[int]()
    for batch in range(60):
        if tries.wanted(7):
            asked.append(batch)
            tries.note(7, useful=False)
    assert asked == [0, 2, 5, 10, 19, 36, 53]
    assert PASSED_MAX == 16


def test_totals_that_decide_are_tried_at_each_batch_again() -> None:
    tries = Tries()
    tries.note(7, useful=False)
    assert [tries.wanted(7), tries.wanted(7)] == [False, True]
    tries.note(7, useful=True)
    assert tries.wanted(7)
    assert tries.wanted(7)
    assert tries.wanted(8)
