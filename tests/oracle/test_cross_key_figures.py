"""Integer sums of another key are exact at any size, for any batches and shards."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from .fastpath import FastPath, plans_of, stream_spec
from .strategies import START_MS, STREAM, Body, Record
from .test_detect_equals_naive import DEEP, many, run, shapes

LARGE = 2**63 - 1
RULE: Body = {
    "rule_id": "two",
    "version": 1,
    "rule_type": "formula",
    "source_topic": STREAM,
    "figures": {
        "seen": {"count": True, "group_by": "account", "window": "1h"},
        "spent": {"sum": "amount", "group_by": "device", "window": "3s"},
    },
    "when": f"seen >= 1 and (spent > {LARGE} or spent < -{LARGE} or spent == 7)",
    "value": "spent - 1",
    "emit": "every",
}


@settings(parent=many, max_examples=300 if DEEP else 25)
@given(
    st.data(),
    st.lists(
        st.tuples(st.sampled_from([LARGE, -LARGE, 7, 2**62, -1]), st.integers(0, 2), st.integers(0, 1)), max_size=20
    ),
)
def test_a_sum_beyond_64_bits_is_supplied_whole(data: st.DataObject, drawn: list[tuple[int, int, int]]) -> None:
    made: list[Record] = [
        {
            "_id": f"t{n}",
            "_event_ms": START_MS + 1000 * n,
            "_ingest_ms": START_MS + 1000 * n,
            "account": f"a{account}",
            "device": device,
            "amount": amount,
        }
        for n, (amount, account, device) in enumerate(drawn)
    ]
    shape = data.draw(shapes(len(made)))
    path = FastPath.of(plans_of([RULE], stream_spec(ingest_column=True), {}), shape.shards)
    run(path, shape, made, ["log"] * len(made))
    # The last three seconds, and of these the records of its device: the twin is a sum of Python's own integers.
    sums = [
        sum(other["amount"] for other in made[max(0, n - 2) : n + 1] if other["device"] == record["device"])
        for n, record in enumerate(made)
    ]
    expected = {f"t{n}": (total - 1, total) for n, total in enumerate(sums) if abs(total) > LARGE or total == 7}
    figures = {a["record_id"]: (a["value"], a["evidence"]["figures"]["spent"]["value"]) for a in path.alerts}
    assert figures == expected
