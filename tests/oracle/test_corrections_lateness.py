"""``late_policy: reevaluate`` where a rule and what it reads take records of another lateness each."""

from __future__ import annotations

from .corrected import current_states
from .fastpath import FastPath, plans_of, stream_spec
from .strategies import START_MS, STREAM, Body, Record
from .test_detect_equals_naive import Shape, run

_SRC: Body = {
    "rule_id": "src",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": STREAM,
    "group_by": "account",
    "aggregation_type": "sum",
    "aggregation_field": "amount",
    "aggregation_threshold": 100,
    "window": "10s",
    "emit": "every",
    "late_policy": "reevaluate",
    "allowed_lateness": "10m",
}
_READER: Body = {
    "rule_id": "reader",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": "rule:src",
    "group_by": "account",
    "aggregation_type": "count",
    "aggregation_threshold": 1,
    "window": "10m",
}
_CAME = [(0, 0, 200), (100_000, 100_000, 200), (50_000, 250_000, 200), (45_000, 260_000, -150)]


def came(amounts: list[tuple[int, int, int]]) -> list[Record]:
    return [
        {"_id": f"t{n}", "_event_ms": START_MS + at, "_ingest_ms": START_MS + then, "account": "k0", "amount": amount}
        for n, (at, then, amount) in enumerate(amounts)
    ]


def declared_figures(path: FastPath) -> list[tuple[str, str, str | None, str | None]]:
    return [(a["rule_id"], a["record_id"], a.get("outcome"), a.get("caused_by")) for a in path.alerts]


def test_a_hit_is_taken_back_that_its_reader_never_took_in() -> None:
    """By hand: t2 is 200 s late, too late for the reader; t3 takes 150 off the sum at t2, which is 50 then."""
    made = came(_CAME)
    path = FastPath.of(plans_of([_SRC, _READER], stream_spec(ingest_column=True), {"allowed_lateness": "2m"}), 1)
    run(path, Shape(1, [(0, 3), (3, 4)], []), made, ["log"] * len(made))
    assert declared_figures(path) == [
        *(("src", f"t{n}", None, None) for n in (0, 1, 2)),
        ("reader", "t0", None, None),
        ("src", "t2", "retracted", "t3"),
    ]
    assert [(each["rule_id"], each["record_id"]) for each in current_states(path.alerts)] == [
        *(("src", "t0"), ("src", "t1"), ("reader", "t0")),
    ]


def test_a_hit_is_taken_back_that_readers_on_both_clocks_took_in() -> None:
    """By hand: t1 takes 150 off the sum at t0, which both readers counted; nothing is left for either."""
    made = came([(50_000, 50_000, 200), (45_000, 60_000, -150)])
    on_ingest = {**_READER, "rule_id": "on_ingest", "time_mode": "processing_time"}
    path = FastPath.of(plans_of([_SRC, _READER, on_ingest], stream_spec(ingest_column=True), {}), 1)
    run(path, Shape(1, [(0, 1), (1, 2)], []), made, ["log"] * len(made))
    assert sorted(declared_figures(path), key=str) == sorted(
        [
            *((name, "t0", None, None) for name in ("src", "reader", "on_ingest")),
            *((name, "t0", "retracted", "t1") for name in ("src", "reader", "on_ingest")),
        ],
        key=str,
    )
