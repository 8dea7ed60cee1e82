"""Samples of alerts are the same wherever the alerts come from."""

from __future__ import annotations

import xxhash
from hypothesis import given
from hypothesis import strategies as st

from crossline.lake.parity.sampling import AlertSample

IDS = st.integers(0, 30).map(lambda number: f"alert-{number}")


def taken(ids: list[str], size: int) -> AlertSample:
    sample = AlertSample(size)
    for each in ids:
        sample.add({"alert_id": each, "rule_id": "burst"})
    return sample


@given(st.permutations([f"alert-{number}" for number in range(12)]), st.integers(1, 15))
def test_it_is_the_smallest_hashes_in_whichever_order(ids: list[str], size: int) -> None:
    wanted = sorted(ids, key=lambda each: xxhash.xxh64_intdigest(each.encode()))[:size]
    assert [name for _, name in taken(ids, size).ids("burst")] == wanted


@given(st.sets(IDS), st.sets(IDS), st.integers(1, 8))
def test_what_is_missing_in_one_is_found_out(mine: set[str], theirs: set[str], size: int) -> None:
    """Each pair of the sample says truly who has the alert, however many each side dropped."""
    one, other = taken(sorted(mine), size), taken(sorted(theirs), size)
    pairs = list(one.both(other, "burst"))
    assert len(pairs) == min(size, len(mine | theirs))
    for left, right in pairs:
        alert = left or right
        assert alert is not None
        assert (left is not None, right is not None) == (alert["alert_id"] in mine, alert["alert_id"] in theirs)
    assert one.counts.get("burst", 0) == len(mine)
