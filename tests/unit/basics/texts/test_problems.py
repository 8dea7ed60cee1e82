"""Suggestions for names that are not known."""

from __future__ import annotations

import pytest

from crossline.basics.texts.problems import nearest

AGGREGATES = ("avg", "count", "distinct_count", "quantile", "range", "stddev", "sum")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("average", "avg"),
        ("Mean", "avg"),
        ("std", "stddev"),
        ("nunique", "distinct_count"),
        ("percentile", "quantile"),
        ("rnage", "range"),
    ],
)
def test_names_of_other_systems_are_known(name: str, expected: str) -> None:
    assert nearest(name, AGGREGATES) == f"did you mean {expected}?"


def test_a_synonym_is_suggested_only_where_it_is_known() -> None:
    assert nearest("mean", ("count", "sum")) is None
    assert nearest("total", ("totals", "count")) == "did you mean totals?"
